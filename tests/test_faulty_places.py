"""Libraries that crash, end the process or hang outside the work of their kernels: while they are
loaded, registered, asked, when kernels are made and destroyed, when the process ends. And those
that do not let the user stop the tool."""

import json
import os
import re
import signal
import subprocess
import time

import harness
import models
import numpy as np
import pytest
from onnx import TensorProto, helper

NODE = "/block/custom"
LIBRARY = "libplaces.so"
HOW = {"crash": "signal 11", "exit": "exit code 7", "hang": "1 s (--timeout)",
       "stop": "1 s (--timeout)"}  # fmt: skip


def quantize(bench, place, how, *args):
    env = {"FAULT_PLACE": place, "FAULT_HOW": how}
    libs = [harness.library("places")]
    return bench.quantize(models.motivating(), "--timeout", "1", *args, libs=libs, env=env)


def assert_failed(bench, run, *words):
    run.failed(LIBRARY, *words)
    assert len(run.err.splitlines()) == 1 and harness.files_in(bench.out) == [], str(run)
    assert json.loads(run.out)["error"]["message"] in run.err


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("place", ["load", "register", "describe"])
def test_a_library_at_fault_before_any_model_is_loaded(bench, place, how):
    assert_failed(
        bench, quantize(bench, place, how), "cannot load custom operator library", HOW[how]
    )


@pytest.mark.runtime
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "place, where", [("create", "a model was loaded for trace"), ("destroy", "was closed")]
)
def test_a_library_at_fault_around_its_kernels(bench, place, where, how):
    """Which of the nodes it is cannot be known; all of the libraries' are named."""
    assert_failed(bench, quantize(bench, place, how), where, NODE, HOW[how])


@pytest.mark.runtime
def test_a_kernel_that_cannot_be_made(bench):
    run = quantize(bench, "create", "refuse")
    assert_failed(bench, run, "no cheese today", "trace", NODE, "custom_domain::DummyOp")


@pytest.mark.parametrize("how", HOW)
def test_a_library_at_fault_when_all_is_done(bench, how):
    start = time.monotonic()
    run = quantize(bench, "exit", how).ok()
    assert time.monotonic() - start < 8
    assert run.json["check"]["samples"] == 8 and not run.err, str(run)
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


def test_inspecting_names_the_library_too(bench):
    model = bench.write_model(models.motivating().model)
    env = {"FAULT_PLACE": "describe", "FAULT_HOW": "hang"}
    harness.run_cli(
        "inspect", model, "--custom-op-lib", harness.library("places"), "--timeout", "1", env=env
    ).failed(LIBRARY, "1 s (--timeout)")


@pytest.mark.parametrize(
    "args", [(), ("--method", "max"), ("--target", "onnxruntime"), ("--jobs", "2")]
)
def test_wherever_it_happens_node_and_sample_are_named(bench, args):
    """The first run of the operator fails, the second one, and so on, until there are no more."""
    case = models.motivating()
    case.data = {"X": models.noise(3, 3, 8, 8)}
    words = ["quantize", bench.write_model(case.model), "-o", bench.out / "q.onnx", "--data",
             bench.write_data(case.data), "--custom-op-lib", harness.library("places"), *args]  # fmt: skip
    stages = set()
    for after in range(200):
        env = {"FAULT_PLACE": "run", "FAULT_HOW": "exit", "FAULT_AFTER": str(after)}
        run = harness.run_cli(*words, env=env)
        if run.code == 0:
            break
        run.failed(NODE, "custom_domain::DummyOp", LIBRARY, "exit code 7")
        stages.add(re.search(r"at sample [0-2] of ([a-z]+);", run.err)[1])
        assert harness.files_in(bench.out) == []
    assert 8 < after < 199 and {"trace", "calibrate", "check"} <= stages


@pytest.mark.parametrize("after", range(7, 15))
def test_no_run_escapes_the_timeout(bench, after):
    """Of the check, with its two models in turn."""
    case = models.motivating()
    case.data = {"X": models.noise(3, 3, 8, 8)}
    env = {"FAULT_PLACE": "run", "FAULT_HOW": "hang", "FAULT_AFTER": str(after)}
    libs = [harness.library("places")]
    run = bench.quantize(case, "--timeout", "1", "--method", "max", libs=libs, env=env)
    if run.code == 0:
        assert after > 9
    else:
        run.failed(NODE, "1 s (--timeout)", "of check")


@pytest.mark.parametrize("data", ["X", "w"])
def test_a_model_that_never_comes_to_an_end(bench, data):
    """A loop of 2^62 turns, in the way of the data or behind a weight. Nobody's library is blamed."""
    declare = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Neg", ["v"], ["v2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [declare("i", TensorProto.INT64, []), declare("c", TensorProto.BOOL, []),
         declare("v", TensorProto.FLOAT, [8, 8])],
        [declare("c2", TensorProto.BOOL, []), declare("v2", TensorProto.FLOAT, [8, 8])],
    )  # fmt: skip
    g = models.Graph()
    g.input("X", [8, 8])
    g.const("w", np.eye(8, dtype=np.float32))
    g.const("n", np.array(2**62))
    x = g.node("Loop", ["n", "", data], "L", "loop", body=body)
    g.node("MatMul", ["X" if data == "w" else "w", x], "Y", "mm")
    g.output("Y", [8, 8])
    case = models.Case(g.build(), {"X": models.noise(3, 8, 8)})
    run = bench.quantize(case, "--timeout", "1")
    run.failed("1 s (--timeout)", "never come to an end")
    assert harness.files_in(bench.out) == []


# The user's own patience


def start_quantize(bench, how, *args):
    """Gives the process back when it is about to run the model."""
    case = models.motivating()
    words = ["quantize", bench.write_model(case.model), "-o", bench.out / "q.onnx", "--quiet"]
    words += ["--data", bench.write_data(case.data), "--custom-op-lib", harness.library("places")]
    process = subprocess.Popen(
        [harness.CLI, *map(str, words), *args],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FAULT_PLACE": "run", "FAULT_HOW": how},
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not harness.files_in(bench.out) and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def interrupt(bench, how, *pauses, number=signal.SIGINT):
    """Sends a signal after each pause; the seconds that the end then took."""
    process = start_quantize(bench, how)
    for pause in pauses:
        time.sleep(pause)
        process.send_signal(number)
    start = time.monotonic()
    err = process.communicate(timeout=30)[1]
    assert err == "onnxptq: interrupted; nothing was written\n"
    assert process.returncode == 1 and harness.files_in(bench.out) == []
    return time.monotonic() - start


@pytest.mark.parametrize("how", ["deaf", "stop"])
def test_a_library_that_takes_the_signals_away(bench, how):
    assert interrupt(bench, how, 0.5) < 12


@pytest.mark.parametrize("how", ["hang", "deaf"])
def test_no_worker_outlives_the_command(bench, how):
    """Killed itself, it cannot end the worker, which holds its end of the pipe."""
    process = start_quantize(bench, how)
    time.sleep(0.3)
    process.kill()
    process.communicate(timeout=15)


@pytest.mark.parametrize("how", ["hang", "deaf", "stop"])
def test_a_second_interrupt_is_heard_sooner(bench, how):
    assert interrupt(bench, how, 0.5, 0.1, number=signal.SIGTERM) < 4


def test_a_pause_is_no_hang(bench):
    """Stopped for longer than the timeout while a library is at work, as by Ctrl-Z and fg."""
    process = start_quantize(bench, "work", "--timeout", "3")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(4)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGCONT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0 and err == ""
