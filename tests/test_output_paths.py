"""What may stand where the result goes: links are followed, and what is no file, or is read by the
run, is not replaced."""

import os
import stat
import subprocess

import harness
import models
import onnx
import pytest


@pytest.fixture
def words(bench):
    case = models.two_convolutions()
    return ["quantize", bench.write_model(case.model), "--data", bench.write_data(case.data)]


def test_a_link_is_followed(bench, words):
    real = bench.folder / "elsewhere"
    real.mkdir()
    (real / "real.onnx").write_bytes(b"old")
    link = bench.out / "link.onnx"
    link.symlink_to(real / "real.onnx")
    harness.run_cli(*words, "-o", link).failed("exists", "--force", code=2)
    harness.run_cli(*words, "-o", link, "--force").ok()
    assert link.is_symlink() and harness.files_in(bench.out) == ["link.onnx"]
    assert harness.files_in(real) == ["real.onnx"]
    onnx.checker.check_model(onnx.load(real / "real.onnx"))


def test_a_link_that_leads_nowhere_is_not_replaced_unasked(bench, words):
    link = bench.out / "link.onnx"
    link.symlink_to("nowhere")
    harness.run_cli(*words, "-o", link).failed("exists", code=2)
    assert os.readlink(link) == "nowhere"
    harness.run_cli(*words, "-o", link, "--force").ok()
    onnx.checker.check_model(onnx.load(link))


def test_a_pipe_is_not_replaced(bench, words):
    pipe = bench.out / "pipe"
    os.mkfifo(pipe)
    harness.run_cli(*words, "-o", pipe, "--force").failed("pipe", "no regular file")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_the_run_reads_is_not_replaced(bench):
    case = models.motivating()
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    lib = bench.inside / "libdummy.so"
    lib.write_bytes(harness.library("dummy").read_bytes())
    words = ["quantize", model, "--data", data, "--custom-op-lib", lib, "--force", "-o"]
    for path, what in ((data, "calibration data"), (lib, "custom operator library")):
        before = path.read_bytes()
        harness.run_cli(*words, path).failed(path.name, what, code=2)
        assert path.read_bytes() == before


def test_a_current_folder_that_is_gone(bench, words):
    """What is asked for by a relative path is not there; nobody blames the memory."""
    gone = bench.folder / "gone"
    script = f'rmdir "{gone}"; exec "$@"'

    def run_there(*more):
        gone.mkdir()
        command = ["sh", "-c", script, "sh", harness.CLI, *words, *more]
        return subprocess.run([*map(str, command)], cwd=gone, capture_output=True, text=True)

    done = run_there("-o", "q.onnx")
    assert done.returncode == 1 and "q.onnx" in done.stderr, done.stderr
    done = run_there("-o", bench.out / "q.onnx", "--custom-op-lib", "libx.so")
    assert done.returncode == 1 and "libx.so" in done.stderr, done.stderr
    assert "memory" not in done.stderr, done.stderr
