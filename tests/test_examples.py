"""The examples, built as a stranger builds them: against the installed library, with pkg-config."""

import os
import re
import shutil
import subprocess
import sys

import harness
import models
import onnx
import pytest
import qdq

EXAMPLES = harness.ROOT / "examples"
BUILD = harness.CLI.parent


def run(*args, **options):
    done = subprocess.run(
        [str(a) for a in args], capture_output=True, text=True, timeout=120, **options
    )
    assert done.returncode == 0, f"{args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation of the build."""
    folder = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", folder)
    return folder


@pytest.fixture(scope="module")
def pkg_config(prefix):
    (found,) = prefix.rglob("onnxptq.pc")

    def query(*args):
        env = {**os.environ, "PKG_CONFIG_PATH": str(found.parent)}
        return run("pkg-config", *args, "onnxptq", env=env).split()

    return query


def sanitizers():
    """A library built with sanitizers needs a program built with them."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    return ["-fsanitize=address,undefined"] if "ONNXPTQ_SANITIZE:BOOL=ON" in cache else []


def compiled(source, folder, pkg_config):
    """The program made of one source file, and the environment to run it in."""
    program = folder / source.stem
    (libdir,) = pkg_config("--variable=libdir")
    warnings = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror"]
    flags = [*pkg_config("--cflags", "--libs"), "-lm", *sanitizers()]
    run(os.environ.get("CC", "cc"), *warnings, source, *flags, "-o", program)
    return program, {**os.environ, "LD_LIBRARY_PATH": libdir}


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_custom_op_from_a_data_callback(bench, pkg_config):
    case = models.motivating()
    model, out = bench.write_model(case.model), bench.out / "model.int8.onnx"
    program, env = compiled(EXAMPLES / "custom_op_callback.c", bench.folder, pkg_config)
    text = run(program, model, out, harness.library("dummy"), env=env)
    assert harness.files_in(bench.out) == [out.name]
    quantized = onnx.load(out)
    assert qdq.View(quantized).edges() == case.edges("tensorrt")
    harness.assert_quality(case, quantized, at_least=20)  # its samples are others than the case's
    for word in ("calibrate: 28 samples", "check: 4 samples", "custom_domain::DummyOp", "dB"):
        assert word in text


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_the_example_says_what_is_wrong(bench, pkg_config):
    """Here: a library without the operator. Nothing is left behind."""
    model = bench.write_model(models.motivating().model)
    program, env = compiled(EXAMPLES / "custom_op_callback.c", bench.folder, pkg_config)
    args = [program, model, bench.out / "q.onnx", harness.library("scaleby2")]
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, env=env)
    assert done.returncode == 1 and "custom_domain::DummyOp" in done.stderr
    assert harness.files_in(bench.out) == []


def test_shell_example(bench):
    case = models.motivating()
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    out = bench.out / "model.int8.onnx"
    env = {**os.environ, "ONNXPTQ_CLI": str(harness.CLI)}
    text = run(EXAMPLES / "quantize.sh", model, out, data, harness.library("dummy"), env=env)
    assert out.exists() and "register_custom_ops_library" in text and "trtexec" in text
    assert text.splitlines()[-1].startswith("Y ")


def test_cmake_package(bench, prefix):
    """find_package(onnxptq) gives the target onnxptq::onnxptq."""
    if sanitizers():
        pytest.skip("a library with sanitizers")
    (config,) = prefix.rglob("onnxptqConfig.cmake")
    (bench.inside / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(user C)\n"
        "find_package(onnxptq REQUIRED)\n"
        "add_executable(user main.c)\n"
        "target_link_libraries(user onnxptq::onnxptq)\n"
    )
    (bench.inside / "main.c").write_text(
        "#include <onnxptq.h>\n#include <stdio.h>\n"
        "int main(void) { return puts(onnxptq_version()) < 0; }\n"
    )
    build = bench.folder / "cmake"
    run("cmake", "-S", bench.inside, "-B", build, f"-Donnxptq_DIR={config.parent}")
    run("cmake", "--build", build)
    assert run(build / "user").strip() == (harness.run_cli("--version").ok().out.split()[1])


def test_the_public_header_is_c_and_cpp(prefix):
    (header,) = prefix.rglob("onnxptq.h")
    for compiler, language in (("cc", "c"), ("c++", "c++")):
        if shutil.which(compiler):
            run(compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language, header)


# What the README shows


def readme_blocks(language):
    text = (harness.ROOT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def readme_commands():
    """Every command line that begins with onnxptq, as one line."""
    text = (harness.ROOT / "README.md").read_text().replace("\\\n", " ")
    return re.findall(r"^ {4}(onnxptq .*)$", text, re.MULTILINE)


@pytest.fixture
def reader(bench):
    """The folder of someone who follows the README, and the environment with the command."""
    case = models.motivating()
    for node in case.model.graph.node:
        if node.name == "conv2":
            node.name = "/head/conv"
    bench.write_model(case.model)
    bench.write_data(case.data)
    shutil.copy(harness.library("dummy"), bench.inside / "libmyops.so")
    path = f"{harness.CLI.parent}:{os.environ['PATH']}"
    return bench.inside, {**os.environ, "PATH": path}


def test_readme_commands(reader):
    folder, env = reader
    commands = readme_commands()
    assert len(commands) >= 3
    for command in commands:
        run("bash", "-c", command, cwd=folder, env=env)
        result = folder / "model.int8.onnx"
        assert result.exists() == (" quantize " in command)
        result.unlink(missing_ok=True)


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="no pkg-config")
def test_readme_c(reader, pkg_config):
    folder, _ = reader
    (source,) = readme_blocks("c")
    (folder / "program.c").write_text(source)
    program, env = compiled(folder / "program.c", folder, pkg_config)
    run(program, cwd=folder, env=env)
    onnx.checker.check_model(onnx.load(folder / "model.int8.onnx"))


def test_readme_python(reader):
    folder, env = reader
    (source,) = readme_blocks("python")
    env = {**env, "PYTHONPATH": str(harness.ROOT / "python")}
    assert "{'Y': " in run(sys.executable, "-c", source, cwd=folder, env=env)
