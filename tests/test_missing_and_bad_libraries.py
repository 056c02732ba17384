"""An operator that nobody provides, and libraries that do not provide it: refused before any
other work, in one message.

Public reports of the opposite: microsoft/onnxruntime #8730, onnx/onnx #3654."""

import os
import re

import harness
import models
import pytest


def assert_refused(bench, run, *words):
    run.failed(*words)
    assert harness.files_in(bench.out) == []


def test_without_the_library_every_missing_operator_is_listed(bench, target):
    """With its domain and type, how many nodes, the first one's name, and the option to use."""
    g = models.Graph(custom_domain=1, my_dot_ops=1)
    x = g.conv(g.input("X", [1, 3, 8, 8]), "c1", 3, 16, name="conv1")
    x = models.dummy_op(g, models.dummy_op(g, x, "d1", "first dummy"), "d2", "second dummy")
    g.node("ScaleBy2", [x], "Y", "the scale", "my.ops")
    g.output("Y", [1, 16, 8, 8])
    case = models.Case(g.build(), {"X": models.noise(2, 3, 8, 8)})
    run = bench.quantize(case, target=target)
    assert run.code == 1, str(run)
    assert harness.files_in(bench.out) == []
    for word in (
        "custom_domain::DummyOp",
        "first dummy",
        "my.ops::ScaleBy2",
        "the scale",
        "--custom-op-lib",
    ):
        assert word in run.err, str(run)
    assert re.search(r"DummyOp\b.*\b2\b", run.err) and "second dummy" not in run.err, str(run)


def test_the_missing_operator_is_found_before_the_data_is_read(bench):
    run = bench.quantize(models.motivating(), libs=[], data=bench.inside / "no such data.npz")
    assert (
        run.code == 1 and "custom_domain::DummyOp" in run.err and "no such data" not in run.err
    ), str(run)


def test_one_of_two_libraries_is_missing(bench):
    run = bench.quantize(models.two_libraries(), libs=[harness.library("dummy")])
    assert run.code == 1 and "my.ops::ScaleBy2" in run.err and "DummyOp" not in run.err, str(run)


def test_excluding_an_operator_does_not_make_it_runnable(bench):
    run = bench.quantize(models.motivating(), "--exclude-op-types", "DummyOp", libs=[])
    assert run.code == 1 and "custom_domain::DummyOp" in run.err, str(run)
    assert harness.files_in(bench.out) == []


def test_an_unnamed_node_is_called_by_its_first_output(bench):
    case = models.motivating()
    next(n for n in case.model.graph.node if n.op_type == "DummyOp").name = ""
    run = bench.quantize(case, libs=[])
    assert run.code == 1 and "@d" in run.err, str(run)


def test_a_library_that_does_not_exist(bench):
    path = bench.inside / "missing.so"
    assert_refused(bench, bench.quantize(models.motivating(), libs=[path]), path, "no such file")


@pytest.mark.parametrize("content", [b"", b"not a library", b"\x7fELF\x02\x01\x01" + bytes(100)])
def test_a_file_that_is_no_library(bench, content):
    path = bench.inside / "broken.so"
    path.write_bytes(content)
    assert_refused(bench, bench.quantize(models.motivating(), libs=[path]), path)


def test_a_folder(bench):
    path = bench.inside / "folder.so"
    path.mkdir()
    assert_refused(bench, bench.quantize(models.motivating(), libs=[path]), path, "director")


@pytest.mark.parametrize("suffix", ["", "@Register"])
def test_a_pipe_is_not_waited_for(bench, suffix):
    """The system's loader would wait until somebody writes into it."""
    path = bench.folder / "libpipe.so"
    os.mkfifo(path)
    run = bench.quantize(models.motivating(), libs=[f"{path}{suffix}"])
    assert_refused(bench, run, "libpipe.so", "not a regular file", "--custom-op-lib")
    run = bench.quantize(models.motivating(), "--ort-lib", path)
    assert_refused(bench, run, "libpipe.so", "not a regular file", "--ort-lib")


def test_an_empty_path(bench):
    """The loader would take it for the program itself."""
    bench.quantize(models.motivating(), libs=[""]).failed("--custom-op-lib", code=(1, 2))
    assert harness.files_in(bench.out) == []


def test_a_library_without_an_entry_point(bench):
    path = harness.library("noentry")
    assert_refused(
        bench, bench.quantize(models.motivating(), libs=[path]), path, "RegisterCustomOps"
    )


def test_a_library_without_the_named_entry_point(bench):
    path = harness.library("scaleby2")
    run = bench.quantize(models.between_convolutions(), libs=[f"{path}@RegisterMyOps"])
    assert_refused(bench, run, path, "RegisterMyOps")


def test_the_usual_entry_point_of_a_library_that_has_another(bench):
    path = harness.library("entry")
    assert_refused(
        bench, bench.quantize(models.between_convolutions(), libs=[path]), path, "RegisterCustomOps"
    )


def test_an_entry_point_that_returns_an_error(bench):
    path = harness.library("refusing")
    run = bench.quantize(models.motivating(), libs=[path])
    assert_refused(bench, run, path, "licence of the operators has expired")


def test_a_library_that_lacks_the_operator(bench):
    """It registers the right domain with another operator in it."""
    path = harness.library("other")
    run = bench.quantize(models.motivating(), libs=[path])
    assert run.code == 1 and "custom_domain::DummyOp" in run.err and str(path) in run.err, str(run)
    assert harness.files_in(bench.out) == []


def test_a_kernel_that_crashes(bench):
    """The tool survives it, and names the library and the node that was running."""
    path = harness.library("crashing")
    run = bench.quantize(models.motivating(), libs=[path])
    assert run.code == 1 and str(path) in run.err and "/block/custom" in run.err, str(run)
    assert harness.files_in(bench.out) == []


def test_inspect_tells_what_can_run_and_what_not(bench):
    model = bench.write_model(models.two_libraries().model)
    report = (
        harness.run_cli("inspect", model, "--custom-op-lib", harness.library("dummy"), "--json")
        .ok()
        .json
    )
    runnable = {o["op"]: o["runnable"] for o in report["operators"]}
    assert runnable == {"Conv": True, "custom_domain::DummyOp": True, "my.ops::ScaleBy2": False}


def test_inspect_refuses_a_broken_library_too(bench):
    model = bench.write_model(models.motivating().model)
    path = bench.inside / "missing.so"
    harness.run_cli("inspect", model, "--custom-op-lib", path).failed(path)
