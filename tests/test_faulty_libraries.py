"""Libraries whose operators crash, abort, exit, throw, hang, fail, leak, write NaN or change their
shape: the tool survives them, names library, node and sample where something went wrong, and
leaves nothing behind."""

import os
import resource
import signal
import subprocess
import time

import harness
import models
import numpy as np
import pytest
from onnx import TensorProto, helper

N_SAMPLES = 6
LIBRARY = "libfaults.so"


def faulty(op, after=0, rank=4, name="/a/faulty"):
    """Two good nodes of the same library around the faulty one, which holds until its run number
    `after`; every session starts anew, so the trace is one run, and the calibration is the rest."""
    g = models.Graph(my_dot_faults=1)
    shape = [4, 3, 6, 6][-rank:]
    x = g.input("X", ["n", *shape[1:]])
    x = g.node("Relu", [g.conv(x, "c1", 3, 8, name="conv1")], "r1", "relu1") if rank == 4 else x
    x = g.node("Good", [x], "g1", "/a/good1", "my.faults")
    x = g.node(op, [x], "f", name, "my.faults", alpha=float(after))
    x = g.node("Good", [x], "g2", "/a/good2", "my.faults")
    if rank == 4:
        g.conv(x, "Y", 8, 4, kernel=1, name="conv2")
        g.output("Y", ["m", 4, 6, 6])
    else:
        g.matmul(x, "Y", shape[-1], 8, "mm")
        g.output("Y", ["m", 8])
    return models.Case(g.build(), {"X": models.noise(N_SAMPLES, *shape[1:])}, libs=("faults",))


def assert_blamed(bench, run, *words, node="/a/faulty", code=1):
    assert run.code == code, str(run)
    lines = [line for line in run.err.splitlines() if line.strip()]
    assert len(lines) == 1, str(run)
    for word in (node, LIBRARY, *words):
        assert word in lines[0], f"{word!r} is not in the message\n{run}"
    for good in ("/a/good1", "/a/good2"):
        assert good not in lines[0], str(run)
    assert harness.files_in(bench.out) == []


# Those that end the process, or would


@pytest.mark.runtime
@pytest.mark.parametrize("op, how", [("Crash", "signal 11"), ("Abort", "signal 6"),
                                     ("Exit", "exit code 0")])  # fmt: skip
@pytest.mark.parametrize("after, sample, stage", [(0, 0, "trace"), (3, 3, "calibrate")])
def test_an_operator_that_ends_the_process(bench, op, how, after, sample, stage):
    run = bench.quantize(faulty(op, after))
    assert_blamed(bench, run, f"my.faults::{op}", how, f"sample {sample} of {stage}")


@pytest.mark.runtime
@pytest.mark.parametrize("after, sample, stage", [(0, 0, "trace"), (3, 3, "calibrate")])
def test_an_operator_that_returns_an_error(bench, after, sample, stage):
    run = bench.quantize(faulty("Fail", after))
    assert_blamed(bench, run, "out of cheese", f"cannot {stage} with sample {sample}")


@pytest.mark.runtime
def test_an_operator_that_throws(bench):
    run = bench.quantize(faulty("Throw", 2))
    assert_blamed(bench, run, "out of cheese", "sample 2")


@pytest.mark.runtime
def test_an_operator_that_throws_what_nobody_expects(bench):
    run = bench.quantize(faulty("ThrowNumber", 2))
    assert_blamed(bench, run, "sample 2")


@pytest.mark.runtime
@pytest.mark.parametrize("after, sample, stage", [(0, 0, "trace"), (3, 3, "calibrate")])
def test_an_operator_that_hangs(bench, after, sample, stage):
    start = time.monotonic()
    run = bench.quantize(faulty("Hang", after), "--timeout", "2")
    assert 2 <= time.monotonic() - start < 15
    assert_blamed(bench, run, "2 s (--timeout)", f"sample {sample} of {stage}")


def test_work_of_our_own_is_not_timed(bench):
    """Many samples take longer in all than one run may."""
    case = faulty("Good")
    case.data = {"X": models.noise(4000, 3, 6, 6)}
    bench.quantize(case, "--timeout", "1").ok()


def test_the_first_of_several_faulty_nodes_is_named(bench):
    """Also where several could run next: two branches, one of them good."""
    g = models.Graph(my_dot_faults=1)
    x = g.input("X", [1, 3, 6, 6])
    a = g.node("Good", [x], "a", "/a/good1", "my.faults")
    b = g.node("Crash", [x], "b", "/b/crash", "my.faults", alpha=2.0)
    c = g.node("Good", [x], "c", "/a/good2", "my.faults")
    y = g.node("Add", [g.node("Add", [a, b], "ab", "add1"), c], "abc", "add2")
    g.conv(y, "Y", 3, 4, name="conv")
    g.output("Y", [1, 4, 6, 6])
    case = models.Case(g.build(), {"X": models.noise(5, 3, 6, 6)}, libs=("faults",))
    assert_blamed(bench, bench.quantize(case), "sample 2 of calibrate", node="/b/crash")


def test_a_node_in_a_branch_of_control_flow(bench):
    def branch(name, op):
        node = helper.make_node(op, ["X"], [name + "_out"], name=f"/{name}/{op}",
                                domain="my.faults", alpha=1.0)  # fmt: skip
        out = helper.make_tensor_value_info(name + "_out", TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [out])

    g = models.Graph(my_dot_faults=1)
    g.input("X", [1, 3, 6, 6])
    g.const("yes", np.array(True))
    g.node("If", ["yes"], "i", "if", then_branch=branch("then", "Abort"),
           else_branch=branch("else", "Good"))  # fmt: skip
    g.conv("i", "Y", 3, 4, name="conv")
    g.output("Y", [1, 4, 6, 6])
    model = g.build()
    case = models.Case(model, {"X": models.noise(5, 3, 6, 6)}, libs=("faults",))
    run = bench.quantize(case)
    assert run.code == 1 and "/then/Abort" in run.err and "sample 1" in run.err, str(run)
    assert harness.files_in(bench.out) == []


def test_a_library_that_dies_while_it_is_loaded(bench):
    run = bench.quantize(models.motivating(), libs=[harness.library("loadcrash")])
    run.failed("libloadcrash.so", "signal 6", "loaded")
    model = bench.write_model(models.motivating().model)
    harness.run_cli("inspect", model, "--custom-op-lib", harness.library("loadcrash")).failed(
        "libloadcrash.so", "signal 6"
    )


def test_a_library_that_dies_when_the_process_exits(bench, target):
    """All is done by then."""
    run = bench.quantize(models.motivating(), target=target, libs=[harness.library("exitcrash")])
    assert run.ok().json["check"]["outputs"][0]["sqnr_db"] > 30
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


@pytest.mark.parametrize("op", ["Crash", "Hang"])
def test_an_output_that_exists_stays(bench, op):
    path = bench.out / "model.int8.onnx"
    path.write_bytes(b"the old one")
    run = bench.quantize(faulty(op, 2), "--force", "--timeout", "2")
    assert run.code == 1
    assert path.read_bytes() == b"the old one" and harness.files_in(bench.out) == [path.name]


# Those that only look bad


def test_an_operator_that_leaks(bench):
    """Not our memory, and no reason to fail."""
    bench.quantize(faulty("Leak")).ok()


@pytest.mark.serial
def test_an_operator_that_leaks_until_there_is_no_memory(bench):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    case = faulty("Leak")
    case.data = {"X": models.noise(40, 3, 6, 6)}
    run = bench.quantize(case, preexec_fn=limit)
    assert_blamed(bench, run, "memory")


def test_an_operator_that_writes_nan(bench, target):
    """Ranges leave such values out; a note says which node of which library wrote them."""
    case = faulty("Nan", 2)
    run = bench.quantize(case, target=target).ok()
    notes = [note for note in run.json["notes"] if "NaN" in note]
    assert notes and any("sample 2" in note for note in notes), str(run)
    assert any("/a/faulty" in note and LIBRARY in note for note in notes), str(run)
    for tensor in run.json["tensors"]:
        assert np.isfinite([tensor["scale"], tensor["min"], tensor["max"]]).all()


@pytest.mark.runtime
def test_an_operator_whose_shape_changes_from_run_to_run(bench, target):
    case = faulty("LoseRows")
    run = bench.quantize(case, "--batch", "3", target=target).ok()
    info = {v.name: v.type.tensor_type for v in run.model.graph.value_info}["f"]
    assert not info.shape.dim[0].HasField("dim_value")


def test_an_operator_whose_rank_changes_from_run_to_run(bench):
    """The model itself cannot run so; the error is that of the node that cannot take it, which the
    runtime may have renamed."""
    run = bench.quantize(faulty("ChangeRank", 2))
    assert run.code == 1 and "Conv" in run.err and "sample 2" in run.err, str(run)
    assert harness.files_in(bench.out) == []


# In this process


def test_in_process_for_debuggers(bench):
    """The result is the same; a crash is one of the command itself."""
    case = models.motivating()
    worker = bench.quantize(case, out="worker.onnx").ok()
    here = bench.quantize(case, "--in-process", out="here.onnx").ok()
    assert here.path.read_bytes() == worker.path.read_bytes()
    model, data = bench.write_model(faulty("Abort", 1).model), bench.inside / "calib.npz"
    done = subprocess.run(
        [harness.CLI, "quantize", model, "-o", bench.out / "x.onnx", "--random-data", "4",
         "--custom-op-lib", harness.library("faults"), "--in-process"],
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGABRT and data.exists()


def test_a_timeout_needs_a_worker(bench):
    bench.quantize(models.motivating(), "--in-process", "--timeout", "5").failed(
        "--timeout", "--in-process", code=2
    )


def test_a_killed_worker(bench):
    """As by the system when memory is short: the parent says so and clears up."""
    case = faulty("Hang", 2)
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    process = subprocess.Popen(
        [harness.CLI, "quantize", model, "-o", bench.out / "x.onnx", "--data", data,
         "--custom-op-lib", harness.library("faults")],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and len(harness.files_in(bench.out)) == 0:
        time.sleep(0.05)
    worker = int(open(children).read().split()[0])
    time.sleep(0.5)
    os.kill(worker, signal.SIGKILL)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and out == "" and "memory" in err and "/a/faulty" in err
    assert harness.files_in(bench.out) == []
