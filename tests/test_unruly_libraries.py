"""Operator libraries that take liberties with the process they are loaded into: what they print,
change or break does not reach the results."""

import json
import os
import signal
import subprocess
import time

import harness
import models
import numpy as np
import onnx
import pytest


def quantize(bench, how, *args):
    case = models.motivating()
    env = {"UNRULY": how}
    return bench.quantize(case, *args, libs=[harness.library("unruly")], env=env)


def test_what_a_library_prints_is_no_part_of_the_report(bench):
    run = quantize(bench, "print").ok()
    assert run.json["check"]["samples"] == 8
    for when in ("loaded", "registered", "run", "unloaded"):
        assert f"unruly: {when}\n" in run.err, str(run)


def test_what_a_library_prints_is_no_part_of_an_error(bench):
    path = bench.write_data({"Z": np.zeros((8, 3, 8, 8), np.float32)}, "wrong.npz")
    case = models.motivating()
    libs, env = [harness.library("unruly")], {"UNRULY": "print"}
    run = bench.quantize(case, libs=libs, data=path, env=env)
    assert run.code == 1 and set(json.loads(run.out)) == {"error"}, str(run)


def test_inspecting_with_a_library_that_prints(bench):
    model = bench.write_model(models.motivating().model)
    lib = harness.library("unruly")
    run = harness.run_cli(
        "inspect", model, "--custom-op-lib", lib, "--json", env={"UNRULY": "print"}
    )
    assert "operators" in run.ok().json and "unruly: loaded" in run.err


def test_a_crash_at_unloading_changes_nothing(bench):
    """All is written and said by then."""
    run = quantize(bench, "unload").ok()
    assert run.json["check"]["samples"] == 8 and not run.err, str(run)
    onnx.checker.check_model(run.model)
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


def test_arithmetic_stays_as_it_was(bench, target):
    """Scales and weights equal to the bit."""
    calm = quantize(bench, "", "--target", target).ok().path.read_bytes()
    assert quantize(bench, "round", "--force", "--target", target).ok().path.read_bytes() == calm


@pytest.mark.full
def test_an_operator_that_hangs_does_not_outlive_an_interrupt(bench):
    case = models.motivating()
    words = ["quantize", bench.write_model(case.model), "-o", bench.out / "q.onnx"]
    words += ["--data", bench.write_data(case.data), "--custom-op-lib", harness.library("unruly")]
    process = subprocess.Popen(
        [harness.CLI, *map(str, words)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "UNRULY": "hang"},
    )
    deadline = time.monotonic() + 20
    while not harness.files_in(bench.out) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[1] == "onnxptq: interrupted; nothing was written\n"
    assert process.returncode == 1 and harness.files_in(bench.out) == []
