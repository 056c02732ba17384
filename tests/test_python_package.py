"""The wheel, in environments of its own."""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import harness
import models
import onnxptq
import onnxptq._library
import pytest

OLDEST = (3, 10)
PACKAGE = harness.ROOT / "python" / "onnxptq"


def run(*args, code=0, **options):
    done = subprocess.run(
        [str(a) for a in args], capture_output=True, text=True, timeout=280, **options
    )
    assert done.returncode == code, f"{args}\n{done.stdout}\n{done.stderr}"
    return done


def environment(**more):
    """Without what leads to the build, and with what is given."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ONNXPTQ_") and name not in ("PYTHONPATH", "ORT_DISABLE_TELEMETRY")
    }
    return {**kept, **more}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as `pip install .` builds it, but for the backend, which is the one installed here."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", harness.ROOT]
    run(*pip, "--no-build-isolation", "--no-deps", "--no-index", "-q", "-w", folder)
    (path,) = folder.iterdir()
    return path


def pythons():
    """This one, and Debian's own where that is of the same version (so that it can use the same
    compiled numpy)."""
    found = [sys.executable]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    debian = Path(f"/usr/bin/python{version}")
    if debian.exists() and debian.resolve() != Path(sys.executable).resolve():
        found.append(str(debian))
    return found


def create(python, folder, wheel, *, runtime=True):
    """A new environment with the wheel, numpy and, unless told otherwise, onnxruntime."""
    run(python, "-m", "venv", "--without-pip", folder)
    here = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(here, "-c", code).stdout.strip())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", here]
    run(*pip, "install", "-q", "--no-index", "--no-deps", wheel, env=environment())
    names = ["numpy", "numpy.libs"]
    if runtime:
        names += ["onnxruntime", "flatbuffers", "google", "packaging"]
    for name in names:
        source = Path(sysconfig.get_path("purelib"), name)
        if source.exists():
            (site / name).symlink_to(source)
    return here


@pytest.fixture(scope="module", params=pythons())
def python(request, wheel, tmp_path_factory):
    return create(request.param, tmp_path_factory.mktemp("venv") / "venv", wheel)


def test_the_wheel(wheel):
    assert wheel.name == f"onnxptq-{onnxptq.__version__}-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        required = [
            line
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-") and "extra ==" not in line
        ]
    assert required == ["Requires-Python: >=3.10", "Requires-Dist: numpy>=1.21"]
    sources = {f"onnxptq/{path.name}" for path in PACKAGE.glob("*.py")}
    expected = sources | {"onnxptq/py.typed", "onnxptq/lib/libonnxptq.so.0", "onnxptq/bin/onnxptq"}
    assert expected <= names
    rest = {n for n in names - expected if ".dist-info/" not in n}
    assert rest <= {"onnxptq/lib/onnxptq/libyyjson.so.0"}


def test_quantize_in_a_new_environment(python, bench):
    case = models.motivating()
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    code = (
        "import onnxptq, sys, os, json\n"
        "r = onnxptq.quantize(*sys.argv[1:4], custom_op_libs=sys.argv[4:], size_rules=False,\n"
        "                     log=lambda level, text: print(text))\n"
        "print(json.dumps([r.summary['quantized'], os.environ['ORT_DISABLE_TELEMETRY']]))\n"
        "print(sorted({m.split('.')[0] for m in sys.modules}))\n"
    )
    out = bench.out / "q.onnx"
    done = run(
        python, "-c", code, model, out, data, harness.library("dummy"), env=environment(), cwd="/"
    )
    first, *_, summary, modules = done.stdout.splitlines()
    assert f"'{python.parent.parent}" in first and "/onnxruntime/capi/libonnxruntime.so" in first
    assert json.loads(summary) == [{"Conv": 2}, "1"]
    assert "onnx'" not in modules and "onnxruntime'" not in modules  # neither is needed
    assert harness.files_in(bench.out) == ["q.onnx"]


def test_the_command(python, bench):
    case = models.motivating()
    model = bench.write_model(case.model)
    options = ["inspect", model, "--custom-op-lib", harness.library("dummy"), "--json"]
    for command in ([python, "-m", "onnxptq"], [python.parent / "onnxptq"]):
        done = run(*command, *options, env=environment(), cwd="/")
        assert all(row["runnable"] for row in json.loads(done.stdout)["operators"])
        assert run(*command, "nothing", code=2, env=environment()).stderr.startswith("onnxptq: ")
    version = run(python, "-m", "onnxptq", "--version", env=environment()).stdout
    assert version.split()[1] == onnxptq.__version__


def test_without_a_runtime(wheel, bench, tmp_path):
    python = create(sys.executable, tmp_path / "venv", wheel, runtime=False)
    code = "import onnxptq\ntry: onnxptq.inspect('m.onnx')\nexcept onnxptq.Error as e: print(e)"
    text = run(python, "-c", code, env=environment(), cwd="/").stdout
    if "libonnxruntime.so.1" in run("/sbin/ldconfig", "-p").stdout:
        assert "m.onnx" in text  # the system has one
    else:
        for word in ("onnxruntime-gpu", "onnxruntime-openvino", "ONNXPTQ_ORT_LIB"):
            assert word in text


def test_the_runtime_is_the_one_of_the_package(monkeypatch):
    import onnxruntime

    monkeypatch.delenv("ONNXPTQ_ORT_LIB", raising=False)
    path = Path(onnxptq._library.runtime_path())
    assert path.parent == Path(onnxruntime.__file__).parent / "capi"
    monkeypatch.setenv("ONNXPTQ_ORT_LIB", "/elsewhere.so")
    assert onnxptq._library.runtime_path() is None


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_sources_are_of_the_oldest_python(path):
    ast.parse(path.read_text(), feature_version=OLDEST)
