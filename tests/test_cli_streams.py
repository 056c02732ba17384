"""What the command does to its streams, and what interrupts do to it."""

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import time

import harness
import models
import numpy as np
import onnx
import pytest


def command(bench, *args, case=None, out="q.onnx"):
    case = case or models.two_convolutions()
    model = bench.write_model(case.model)
    out = bench.out / out
    return [
        str(a) for a in (harness.CLI, "quantize", model, "-o", out, "--random-data", "4", *args)
    ]


# Standard output that fails


@pytest.mark.parametrize("args", [[], ["--json"]], ids=["summary", "json"])
def test_a_full_standard_output(bench, args):
    """The report is lost, and the exit code says so; the model is not."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(command(bench, *args), stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "standard output" in done.stderr and "q.onnx" in done.stderr
    onnx.checker.check_model(onnx.load(bench.out / "q.onnx"))
    assert harness.files_in(bench.out) == ["q.onnx"]


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["inspect", "--help"]], ids=" ".join)
def test_a_full_standard_output_for_help(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([harness.CLI, *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "standard output" in done.stderr


def test_a_reader_that_goes_away(bench):
    """No death by SIGPIPE; the model is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command(bench), stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 1 and "standard output" in done.stderr
    assert harness.files_in(bench.out) == ["q.onnx"]


def test_closed_streams(bench):
    """A file opened by the run must not become standard output or error."""
    script = 'exec "$@" >&- 2>&- <&-'
    done = subprocess.run(["sh", "-c", script, "sh", *command(bench)])
    assert done.returncode == 1  # nobody can read the report
    onnx.checker.check_model(onnx.load(bench.out / "q.onnx"))


def test_a_limit_on_file_sizes_leaves_nothing(bench):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    run = harness.run_cli(*command(bench)[1:], preexec_fn=limit)
    run.failed("too large")
    assert harness.files_in(bench.out) == []


# Interrupts


def long_run(bench, *args):
    """A run of many samples, started; returns once it calibrates."""
    case = models.mlp(width=512, layers=6)
    words = command(bench, *args, case=case)
    words[words.index("--random-data") + 1] = "200000"
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not harness.files_in(bench.out) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    assert process.poll() is None, "the run is over already"
    assert harness.files_in(bench.out), "no temporary file: the test sees nothing disappear"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_leaves_nothing(bench, number):
    process = long_run(bench)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1 and not out
    assert err == "onnxptq: interrupted; nothing was written\n"
    assert harness.files_in(bench.out) == []


def test_an_interrupt_keeps_an_older_output(bench):
    (bench.out / "q.onnx").write_bytes(b"precious")
    case = models.mlp(width=512, layers=6)
    words = command(bench, "--force", case=case)
    words[words.index("--random-data") + 1] = "200000"
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 1
    assert (bench.out / "q.onnx").read_bytes() == b"precious"
    assert harness.files_in(bench.out) == ["q.onnx"]


# Terminals


def on_a_terminal(words, env=None):
    """Exit code and everything written, with both streams on a terminal."""
    try:
        parent, child = pty.openpty()
    except OSError as reason:  # a container without /dev/pts
        pytest.skip(f"no pseudo-terminal: {reason}")
    process = subprocess.Popen(words, stdout=child, stderr=child, env={**os.environ, **(env or {})})
    os.close(child)
    text = b""
    while True:
        if select.select([parent], [], [], 20)[0]:
            try:
                block = os.read(parent, 65536)
            except OSError:  # the terminal is closed
                break
            if not block:
                break
            text += block
    os.close(parent)
    return process.wait(timeout=20), text.decode(errors="replace")


def test_progress_on_a_terminal(bench):
    case = models.mlp(width=256, layers=4)
    words = command(bench, "--samples", "4000", case=case)
    words[words.index("--random-data") + 1] = "4000"
    code, text = on_a_terminal(words)
    assert code == 0, text
    assert re.search(r"\r\x1b\[Kcalibrate +\[#* *\] \d+/\d+  [\d.]+ samples/s", text), text
    summary = text[text.rindex("\r\x1b[K") :]
    assert "Quantized" in summary and "samples/s" not in summary


def test_progress_tells_rate_and_time_left(bench):
    case = models.mlp(width=256, layers=4)
    words = command(bench, case=case)
    words[words.index("--random-data") + 1] = "3000"
    _, text = on_a_terminal(words)
    frames = re.findall(r"calibrate +\[[# ]*\] (\d+)/(\d+)  ([\d.]+) samples/s  (\d+) s left", text)
    assert len(frames) >= 2, text
    for done, total, rate, left in frames:
        assert float(left) == pytest.approx((int(total) - int(done)) / float(rate), abs=0.51)


@pytest.mark.parametrize("columns", [20, 72])
def test_progress_on_a_narrow_terminal(bench, columns):
    """The bar gives way, so that the line does not wrap more than its numbers make it."""
    case = models.mlp(width=256, layers=4)
    words = command(bench, case=case)
    words[words.index("--random-data") + 1] = "3000"
    code, text = on_a_terminal(["sh", "-c", f'stty cols {columns} <&1; exec "$@"', "sh", *words])
    bars = re.findall(r"calibrate +\[([# ]*)\]", text)
    assert code == 0 and {len(bar) for bar in bars} == {max(0, columns - 60)}, text


def progress_lines(run):
    lines = [json.loads(line) for line in run.err.splitlines()]
    keys = {"stage", "done", "total", "seconds", "samples_per_second", "seconds_left"}
    assert all(set(line) == keys for line in lines)
    return lines


@pytest.mark.parametrize("args", [[], ["--quiet"], ["--json"]], ids=" ".join)
def test_progress_for_machines(bench, args):
    case = models.mlp(width=256, layers=4)
    words = command(bench, "--progress", "json", *args, case=case)
    words[words.index("--random-data") + 1] = "2000"
    run = harness.run_cli(*words[1:]).ok()
    lines = progress_lines(run)
    stages = list(dict.fromkeys(line["stage"] for line in lines))
    assert stages[:2] == ["trace", "calibrate"] and stages[-1] == "check"
    for stage in stages:
        steps = [line for line in lines if line["stage"] == stage]
        done = [line["done"] for line in steps]
        assert done == sorted(set(done)) and done[-1] == steps[-1]["total"]
        assert steps[0]["samples_per_second"] is None and steps[0]["seconds"] == 0
    calibrate = [line for line in lines if line["stage"] == "calibrate"]
    assert calibrate[0]["done"] == 1 and calibrate[-1]["total"] == 1750
    assert 2 <= len(calibrate) <= 3 + 10 * calibrate[-1]["seconds"]
    for line in calibrate[1:]:
        rate, left = line["samples_per_second"], line["seconds_left"]
        assert rate == pytest.approx((line["done"] - 1) / line["seconds"], rel=0.1, abs=1)
        assert left == pytest.approx((line["total"] - line["done"]) / rate, abs=0.01)


def test_progress_switched_off(bench):
    code, text = on_a_terminal(command(bench, "--progress", "off"))
    assert code == 0 and "\x1b[K" not in text and "Quantized" in text


def test_an_error_ends_the_lines_of_progress(bench):
    process = long_run(bench, "--progress", "json")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    *lines, last = err.splitlines()
    assert process.returncode == 1 and last == "onnxptq: interrupted; nothing was written"
    assert lines and all(json.loads(line)["done"] > 0 for line in lines)


def test_colours_on_a_terminal_unless_switched_off(bench):
    code, text = on_a_terminal(command(bench, "--force"))
    assert code == 0 and "\x1b[1m" in text
    code, text = on_a_terminal(command(bench, "--force"), env={"NO_COLOR": "1"})
    assert code == 0 and "\x1b[1m" not in text


def test_quiet_on_a_terminal(bench):
    assert on_a_terminal(command(bench, "--quiet")) == (0, "")


def test_names_do_not_reach_the_terminal_as_commands(bench):
    """A model's names are the model's author's; escape sequences in them are not for the user's terminal."""
    case = models.two_convolutions()
    case.model.graph.node[0].name = "conv\x1b]0;owned\x07\n1"
    code, text = on_a_terminal(command(bench, "--verbose", case=case), env={"NO_COLOR": "1"})
    assert code == 0 and "owned" in text
    assert "\x1b]" not in text and "\x07" not in text


def test_messages_are_one_line(bench):
    """Messages of the runtime may have several."""
    case = models.two_convolutions()
    case.data["X"] = np.zeros((2, 4, 9, 9), np.float32)
    bench.quantize(case).failed("X")
