"""Operator sets and format versions as real exporters stamp them: missing, repeated, misspelled, old, new."""

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, FLOAT, Graph, noise
from onnx import helper

OLDER_RUNTIME = harness.ROOT / ".deps/onnxruntime-1.21.1/libonnxruntime.so.1.21.1"


def imports(model):
    return {o.domain: o.version for o in model.opset_import}


def matmul_relu(opset=17, ir=8):
    g = Graph(opset=opset, ir=ir)
    g.node("Relu", [g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")], "Y", "relu")
    g.output("Y", [4, 8])
    return models.Case(g.build(), {"X": noise(32, 8)}, {"mm": BOTH})


def with_imports(case, *pairs):
    del case.model.opset_import[:]
    case.model.opset_import.extend(helper.make_opsetid(*pair) for pair in pairs)
    return case


# Missing imports: microsoft/onnxruntime #23191 and #5971


def test_domain_without_import(bench, target):
    """The runtime takes such a model; strict shape inference refuses it. The result imports what it
    uses, and a note says so."""
    g = Graph()
    a = g.matmul(g.input("X", ["N", 16]), "a", 16, 16, "mm")
    g.node("Gelu", [a], "Y", "gelu", "com.microsoft")
    g.output("Y", ["N", 16])
    case = models.Case(g.build(), {"X": noise(8, 16)}, {"mm": BOTH})
    run, _ = expect.quantized(bench, case, target)
    assert imports(run.model) == {"": 17, "com.microsoft": 1}
    assert any("com.microsoft" in note for note in run.json["notes"])


def test_domains_without_import_inside_a_body(bench, target):
    g = Graph()
    x = g.matmul(g.input("X", [4, 16]), "a", 16, 16, "mm")
    branches = {}
    for key, op in (("then_branch", "Gelu"), ("else_branch", "QuickGelu")):
        node = helper.make_node(op, [x], [f"{key}.y"], name=key, domain="com.microsoft")
        out = helper.make_tensor_value_info(f"{key}.y", FLOAT, None)
        branches[key] = helper.make_graph([node], key, [], [out])
    g.node("If", [g.const("yes", np.array(True))], "c", "if", **branches)
    g.matmul("c", "Y", 16, 8, "mm2")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(8, 16)}, {"mm": BOTH, "mm2": BOTH})
    run, _ = expect.quantized(bench, case, target)
    assert imports(run.model) == {"": 17, "com.microsoft": 1}


def test_unused_imports_are_kept(bench, target):
    case = with_imports(matmul_relu(), ("", 17), ("ai.onnx.ml", 3), ("com.microsoft", 1))
    run, _ = expect.quantized(bench, case, target)
    assert imports(run.model) == {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}


# Repeated and oddly spelled imports: microsoft/onnxruntime #15563


@pytest.mark.parametrize(
    "pairs",
    [
        [("", 14), ("", 14)],
        [("ai.onnx", 14)],
        [("", 14), ("ai.onnx", 14)],
        [("ai.onnx", 14), ("ai.onnx.ml", 3), ("", 14)],
    ],
    ids=["twice", "long name", "both names", "long name first"],
)
def test_equal_imports_are_merged(bench, target, pairs):
    """The long name of the default domain means the short one."""
    case = with_imports(matmul_relu(14), *pairs)
    run, _ = expect.quantized(bench, case, target)
    versions = [o.version for o in run.model.opset_import if o.domain in ("", "ai.onnx")]
    assert versions == [14]
    assert imports(run.model).get("ai.onnx.ml") == dict(pairs).get("ai.onnx.ml")


def test_nodes_that_spell_the_default_domain_out(bench, target):
    case = matmul_relu()
    for node in case.model.graph.node:
        node.domain = "ai.onnx"
    run = bench.quantize(case, target=target).ok()  # ONNX's checker refuses the original too
    assert qdq.View(run.model).edges() == case.edges(target)
    qdq.assert_rest_unchanged(case.model, run.model)
    harness.assert_quality(case, run.model)


@pytest.mark.parametrize("pairs", [[("", 13), ("", 14)], [("ai.onnx", 14), ("", 13)]])
def test_conflicting_imports_are_an_error_that_names_both(bench, target, pairs):
    case = with_imports(matmul_relu(14), *pairs)
    bench.quantize(case, target=target).failed("cannot", "13", "14")
    assert harness.files_in(bench.out) == []


# Old opsets: openvinotoolkit/nncf pull request #1537, microsoft/onnxruntime #9197 and #1950


@pytest.mark.parametrize("opset", range(7, 13))
def test_old_opset(bench, target, opset):
    """Scales per channel need opset 13, so the model is converted; an `axis` below it is not valid."""
    case = matmul_relu(opset, ir=4 if opset < 10 else 6)
    run, view = expect.quantized(bench, case, target)
    assert view.params("mm", 1).scale.shape == (8,)
    assert imports(run.model) == {"": 13}


@pytest.mark.parametrize("asked", [14, 17, 21])
def test_opset_that_the_user_wants(bench, target, asked):
    """Raised as far as asked, with the same decisions and the same results."""
    case = matmul_relu(11, ir=6)
    usual, _ = expect.quantized(bench, case, target)
    run, _ = expect.quantized(bench, case, target, "--opset", asked, out="asked.onnx")
    assert imports(run.model) == {"": asked}
    before, after = (harness.run_model(m, case.feeds()[:4]) for m in (usual.model, run.model))
    np.testing.assert_array_equal([r["Y"] for r in before], [r["Y"] for r in after])


def test_opset_below_the_needed_one_is_a_note(bench, target):
    run = bench.quantize(matmul_relu(11, ir=6), "--opset", 12, target=target).ok()
    assert imports(run.model) == {"": 13}
    assert any(
        "--opset 12 has no effect: quantization needs opset 13" in n for n in run.json["notes"]
    )
    run = bench.quantize(matmul_relu(17), "--opset", 15, target=target, out="b.onnx").ok()
    assert imports(run.model) == {"": 17}
    assert any("--opset 15 has no effect: the model has opset 17" in n for n in run.json["notes"])


@pytest.mark.parametrize("asked", [6, 27, 10**12])
def test_opset_that_nobody_knows(bench, asked):
    bench.quantize(matmul_relu(13), "--opset", asked).failed("cannot", "--opset", "7 to 26", code=2)
    assert harness.files_in(bench.out) == []


def test_opset_is_raised_where_nothing_is_quantized(bench, target):
    g = Graph(opset=11, ir=6)
    x = g.node("Squeeze", [g.input("X", [1, 8])], "q", "squeeze", axes=[0])
    g.node("Relu", [x], "Y", "relu")
    g.output("Y", [8])
    case = models.Case(g.build(), {"X": noise(4, 8)}, {})
    run = bench.quantize(case, "--opset", 13, target=target).ok()
    assert imports(run.model) == {"": 13}
    assert [n.op_type for n in run.model.graph.node if n.op_type != "Constant"] == [
        "Squeeze",
        "Relu",
    ]
    assert any("opset raised" in n for n in run.json["notes"])


def reduction(opset):
    g = Graph(opset=opset, ir=6)
    x = g.conv(g.input("X", [1, 4, 8, 8]), "c", 4, 8, name="conv")
    x = g.node("ReduceSum", [x], "s", "sum", axes=[2, 3], keepdims=1)
    x = g.node("Squeeze", [x], "q", "squeeze", axes=[2, 3])
    g.node("Unsqueeze", [x], "Y", "unsqueeze", axes=[0])
    g.output("Y", [1, 1, 8])
    tensorrt = {"conv": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, tensorrt, {**tensorrt, "sum": {0}})


def upsample(opset):
    g = Graph(opset=opset, ir=4)
    x = g.conv(g.input("X", [1, 4, 8, 8]), "c", 4, 8, name="conv")
    scales = [1.0, 1.0, 2.0, 2.0]
    if opset < 9:
        g.node("Upsample", [x], "Y", "up", mode="nearest", scales=scales)
    else:
        g.node("Upsample", [x, g.const("by", np.float32(scales))], "Y", "up", mode="nearest")
    g.output("Y", [1, 8, 16, 16])
    tensorrt = {"conv": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, tensorrt, {**tensorrt, "up": {0}})


def classifier(opset):
    """Dropout in both old forms, Clip and Pad with attributes, BatchNormalization, Flatten."""
    g = Graph(opset=opset, ir=4)
    x = g.node("Pad", [g.input("X", [1, 4, 8, 8])], "pad", "pad", pads=[0, 0, 1, 1, 0, 0, 1, 1])
    x = g.conv(x, "c", 4, 8, name="conv", pads=[0] * 4)
    x = g.node("Clip", [x], "clip", "clip", min=0.0, max=6.0)
    x = g.node("Dropout", [x], "d", "dropout", ratio=0.3)
    x = g.node("GlobalAveragePool", [x], "gap", "gap")
    x = g.node("Flatten", [x], "f", "flatten")
    g.node("Gemm", [x, g.weight("w", 5, 8), g.weight("b", 5)], "Y", "fc", transB=1)
    g.output("Y", [1, 5])
    tensorrt = {"conv": BOTH, "fc": BOTH, "gap": {0}}
    onnxruntime = {"conv": BOTH, "dropout": {0}, "gap": {0}, "flatten": {0}, "fc": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, tensorrt, onnxruntime)


@pytest.mark.parametrize(
    "case, types",
    [
        (reduction(11), ["Conv", "ReduceSum", "Squeeze", "Unsqueeze"]),
        (upsample(7), ["Conv", "Resize"]),
        (upsample(9), ["Conv", "Resize"]),
        (classifier(9), ["Pad", "Conv", "Clip", "Dropout", "GlobalAveragePool", "Flatten", "Gemm"]),
    ],
    ids=["reduction", "upsample 7", "upsample 9", "classifier"],
)
def test_operators_are_converted_with_the_opset(bench, target, case, types):
    """The number alone is not raised: attributes become inputs, Upsample becomes Resize."""
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == case.edges(target)
    assert [n.op_type for n in run.model.graph.node if not qdq.is_pair(n)] == types
    assert imports(run.model) == {"": 13}
    harness.assert_quality(case, run.model)


def test_opset_that_no_runtime_knows_well(bench, target):
    """Below 7 nothing is promised by the runtime either."""
    bench.quantize(matmul_relu(6, ir=3), target=target).failed("cannot", "opset", "6")
    assert harness.files_in(bench.out) == []


# New opsets: microsoft/onnxruntime #25932, #20559 and #25784


@pytest.mark.parametrize(
    "opset, ir", [(18, 8), (20, 9), (21, 10), (22, 10), (23, 11), (24, 11), (25, 12), (26, 13)]
)
def test_a_new_opset_is_left_as_it_is(bench, target, opset, ir):
    case = matmul_relu(opset, ir)
    run, _ = expect.quantized(bench, case, target)
    assert imports(run.model) == {"": opset} and run.model.ir_version == ir


@pytest.mark.parametrize("opset, ir", [(26, 10), (17, 13)], ids=["opset", "IR version"])
def test_a_runtime_that_is_too_old_says_what_it_supports(bench, opset, ir):
    if not OLDER_RUNTIME.exists():
        pytest.skip(f"{OLDER_RUNTIME} is missing: run tools/setup test")
    case = matmul_relu(opset, ir)
    run = bench.quantize(case, "--ort-lib", OLDER_RUNTIME)
    run.failed("cannot", "opset 26" if opset == 26 else "13", "22" if opset == 26 else "10")
    assert harness.files_in(bench.out) == []


# Initializers that are inputs: microsoft/onnxruntime pull request #3853, #7977


def initializers_as_inputs(ir):
    g = Graph(opset=11 if ir == 3 else 17, ir=ir)
    x = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv", pads=[0] * 4)
    x = g.node("Reshape", [x, g.const("shape", np.array([1, 128]))], "r", "reshape")
    g.matmul(x, "Y", 128, 16, "mm")
    g.output("Y", [1, 16])
    for tensor in g.initializers:
        g.input(tensor.name, list(tensor.dims), tensor.data_type)
    edges = {"conv": BOTH, "mm": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges, {**edges, "reshape": {0}})


@pytest.mark.parametrize("ir", [3, 4, 8])
def test_initializers_that_are_inputs_are_weights(bench, target, ir):
    """Calibration and the result are fed X alone. In IR 3 every initializer would have to be an
    input; from 4 on one that is can be overridden, which a weight that became int8 cannot."""
    case = initializers_as_inputs(ir)
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == case.edges(target)
    assert run.model.ir_version == (7 if ir == 3 else ir)  # what opset 13 needs
    assert ir > 3 or [i.name for i in run.model.graph.input] == ["X"]
    assert not {"conv.weight", "mm.weight"} & set(view.initializers)
    assert [i["name"] for i in run.json["inputs"]] == ["X"]
    assert [i.name for i in harness.session(run.model).get_inputs()] == ["X"]
    harness.assert_quality(case, run.model)
