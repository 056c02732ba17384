"""Models with operators that only a user's library knows, on both targets.

Quantizers that open sessions of their own without the library refuse such models:
microsoft/onnxruntime #10082 and #23191, NVIDIA/Model-Optimizer #503 and #2016."""

import os

import harness
import models
import numpy as np
import onnx
import pytest
import qdq

MIN_SQNR = 30.0


def foreign_nodes(model):
    return [n for n in model.graph.node if n.domain not in ("", "ai.onnx")]


def assert_quantized_as_planned(case, run, target, edges=None):
    """The exact set of quantized inputs, the foreign nodes as they were, and a result that runs
    and is close."""
    model = run.ok().model
    view = qdq.View(model)
    assert view.edges() == (case.edges(target) if edges is None else edges)
    qdq.assert_well_formed(model)
    qdq.assert_rest_unchanged(case.model, model)
    for old, new in zip(foreign_nodes(case.model), foreign_nodes(model), strict=True):
        assert new == old  # edges, attributes, domain and name
    imports = {o.domain: o.version for o in model.opset_import}
    assert {
        o.domain: o.version for o in case.model.opset_import if o.domain
    }.items() <= imports.items()
    harness.assert_quality(case, model, MIN_SQNR)
    return view


@pytest.mark.runtime
@pytest.mark.parametrize("name", models.FOREIGN)
def test_quantizes_around_a_foreign_operator(bench, target, name):
    case = models.FOREIGN[name]()
    libs = None
    if name == "named_entry_point":
        libs = [f"{harness.library('entry')}@RegisterMyOps"]
    run = bench.quantize(case, target=target, libs=libs)
    assert_quantized_as_planned(case, run, target)

    decisions = {n["name"]: n["decision"] for n in run.json["nodes"]}
    matrix = {
        n.name for n in case.model.graph.node if n.op_type in ("Conv", "MatMul") and not n.domain
    }
    assert {n for n in matrix if decisions[n] == "quantized"} == set(case.edges(target))
    assert {n for n, d in decisions.items() if d == "foreign"} == {
        n.name for n in foreign_nodes(case.model)
    }
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


@pytest.mark.parametrize(
    "exclusion",
    [
        ("--exclude-op-types", "DummyOp"),
        ("--exclude-op-types", "custom_domain::DummyOp"),
        ("--exclude-nodes", "/block/custom"),
        ("--exclude-nodes", "/block/.*"),
    ],
)
def test_excluding_the_foreign_operator_changes_nothing(bench, target, exclusion):
    """It was float before; to say so again is no error."""
    case = models.motivating()
    plain = bench.quantize(case, target=target, out="plain.onnx").ok()
    excluded = bench.quantize(case, *exclusion, target=target)
    assert_quantized_as_planned(case, excluded, target)
    assert excluded.model.graph == plain.model.graph


def test_a_model_without_anything_to_quantize_comes_out_unchanged(bench, target):
    case = models.custom_only()
    run = bench.quantize(case, target=target).ok()
    assert run.model.graph.node == case.model.graph.node
    assert run.json["summary"]["quantized"] == {}
    assert run.json["check"]["outputs"][0]["exact"] is True


def test_the_same_library_twice(bench, target):
    """ONNX Runtime refuses a domain that is registered twice; the tool drops the repetition,
    however it is spelled."""
    case = models.motivating()
    lib = harness.library("dummy")
    link = bench.inside / "link.so"
    link.symlink_to(lib)
    relative = os.path.relpath(lib, bench.folder)
    run = bench.quantize(case, target=target, libs=[lib, lib, link, relative], cwd=bench.folder)
    assert_quantized_as_planned(case, run, target)


@pytest.mark.parametrize(
    "spelling", ["libdummy.so", "./libdummy.so", "libs/libdummy.so", "../folder/libdummy.so"]
)
def test_a_relative_path(bench, spelling):
    """Relative to the current folder, also without a slash, where the loader would search its
    own path."""
    case = models.motivating()
    folder = bench.folder / "folder"
    (folder / "libs").mkdir(parents=True)
    for place in (folder, folder / "libs"):
        (place / "libdummy.so").write_bytes(harness.library("dummy").read_bytes())
    run = bench.quantize(case, libs=[spelling], cwd=folder)
    assert_quantized_as_planned(case, run, "tensorrt")


def test_a_symbolic_link(bench, target):
    case = models.motivating()
    link = bench.inside / "ops with spaces.so"
    link.symlink_to(harness.library("dummy"))
    assert_quantized_as_planned(case, bench.quantize(case, target=target, libs=[link]), target)


def test_an_at_sign_in_the_path_is_part_of_the_path(bench):
    case = models.motivating()
    lib = bench.inside / "v@2" / "libdummy.so"
    lib.parent.mkdir()
    lib.write_bytes(harness.library("dummy").read_bytes())
    assert_quantized_as_planned(case, bench.quantize(case, libs=[lib]), "tensorrt")


def test_two_libraries_in_either_order(bench, target):
    case = models.two_libraries()
    forward = bench.quantize(case, target=target, out="forward.onnx").ok()
    libs = [harness.library(name) for name in reversed(case.libs)]
    backward = bench.quantize(case, target=target, libs=libs).ok()
    assert forward.path.read_bytes() == backward.path.read_bytes()


def test_an_empty_optional_stays_empty(bench, target):
    case = models.empty_optionals()
    top = qdq.View(bench.quantize(case, target=target).ok().model).nodes["top"]
    assert list(top.input)[1:] == ["", "gain"] and list(top.output) == ["v", ""]


def test_constants_of_a_foreign_operator_stay_float_bit_for_bit(bench, target):
    """Also where a MatMul has the same initializer as its weight, or a Mul as an operand."""
    case = models.shared_constants()
    view = qdq.View(bench.quantize(case, target=target).ok().model)
    before = qdq.View(case.model)
    for node, index in (("lookup1", 1), ("lookup2", 1), ("lookup1", 2)):
        name = view.nodes[node].input[index]
        assert name == before.nodes[node].input[index]
        assert view.initializers[name] == before.initializers[name]
    weight = view.params("mm1", 1)
    assert weight.type == np.int8 and weight.weight.shape == (16, 16)


def test_integer_edges_are_never_touched(bench, target):
    case = models.mixed_types()
    view = qdq.View(bench.quantize(case, target=target).ok().model)
    assert (
        list(view.nodes["route"].input)[1] == "ids"
        and list(view.nodes["route"].output)[1] == "next"
    )
    report = bench.quantize(case, "--force", target=target).json["check"]["outputs"]
    assert {o["name"]: o["exact"] for o in report}["next"] is True


@pytest.mark.parametrize(
    "name, tensor, shape",
    [
        ("motivating", "d", [1, 32, 8, 8]),
        ("custom_first", "d", [1, 3, 8, 8]),
        ("two_libraries", "s", [1, 16, 8, 8]),
        ("data_dependent_shape", "rows", [None, 8]),
        ("empty_optionals", "v", [2, 4]),
    ],
)
def test_results_of_foreign_operators_carry_their_traced_shape(bench, target, name, tensor, shape):
    """Static inference stops there; runtimes that need a rank find it in value_info. Dimensions
    that differ are symbolic."""
    model = bench.quantize(models.FOREIGN[name](), target=target).ok().model
    info = {v.name: v.type.tensor_type for v in model.graph.value_info}[tensor]
    assert info.elem_type == onnx.TensorProto.FLOAT
    dims = [d.dim_value if d.HasField("dim_value") else None for d in info.shape.dim]
    assert dims == shape


def test_an_excluded_convolution_keeps_its_float_weight(bench, target):
    case = models.motivating()
    run = bench.quantize(case, "--exclude-nodes", "conv1", target=target)
    view = assert_quantized_as_planned(case, run, target, {"conv2": {0, 1}})
    assert view.nodes["conv1"].input[1] == "conv1.weight"
    assert {n["name"]: n["decision"] for n in run.json["nodes"]}["conv1"] == "excluded"


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_a_foreign_operator_that_shares_a_standard_name_is_foreign(bench, target, op):
    """Operators are known by domain and type: custom_domain::Conv is no convolution, and what it
    reads is no weight."""
    g = models.Graph(custom_domain=1)
    x = g.conv(g.input("X", [1, 3, 8, 8]), "c", 3, 8, name="conv1")
    g.node(op, [x, g.weight("w", 8, 8, 1, 1)], "Y", "foreign", "custom_domain")
    g.output("Y", [1, 8, 8, 8])
    data = {"X": models.noise(8, 3, 8, 8)}
    case = models.Case(g.build(), data, {"conv1": {0, 1}}, libs=("dummy",))
    view = assert_quantized_as_planned(case, bench.quantize(case, target=target), target)
    assert "w" in view.initializers


def test_the_end_of_the_report_says_how_to_run_the_result(bench):
    """A snippet that registers the library and, for TensorRT, a trtexec line."""
    case = models.motivating()
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    out = bench.out / "q.onnx"
    text = (
        harness.run_cli(
            "quantize",
            model,
            "-o",
            out,
            "--data",
            data,
            "--size-rules",
            "off",
            "--custom-op-lib",
            harness.library("dummy"),
        )
        .ok()
        .out
    )
    for part in (
        "trtexec",
        "libdummy.so",
        "register_custom_ops_library",
        str(out.name),
        "SQNR",
        "dB",
        "Conv",
        "custom_domain::DummyOp",
    ):
        assert part.lower() in text.lower(), part
