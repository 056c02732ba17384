"""Graphs on which other quantizers fail, with the exact set of quantized nodes on both targets.
Size rules are off."""

import time

import harness
import models
import numpy as np
import onnx
import pytest
import qdq


def quantized_edges(bench, case, target, *args):
    run = bench.quantize(case, *args, target=target).ok()
    edges = qdq.View(run.model).edges()
    matrix = {n.name for n in case.model.graph.node if n.op_type in ("Conv", "MatMul", "Gemm")}
    reported = {n["name"] for n in run.json["nodes"] if n["decision"] == "quantized"}
    assert reported & matrix == set(edges) & matrix
    return run, edges


@pytest.mark.runtime
def test_library_is_registered_in_every_session(bench, target):
    """Calibration, tracing and the final check all need it: microsoft/onnxruntime #10082,
    NVIDIA/Model-Optimizer #2016.

    The activation behind the foreign operator is quantized like any other."""
    case = models.between_convolutions()
    run, edges = quantized_edges(bench, case, target)
    assert edges == {"conv1": {0, 1}, "conv2": {0, 1}}
    view = qdq.View(run.model)
    assert view.params("conv2", 0).source == "s"
    largest = max(np.abs(s).max() for s in activations(case, "s"))
    if target == "tensorrt":
        assert view.params("conv2", 0).scale == pytest.approx(largest / 127, rel=1e-5)
    harness.assert_quality(case, run.model)


def activations(case, tensor):
    """A float tensor's value in every calibration run."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.output.append(onnx.ValueInfoProto(name=tensor))
    return [r[tensor] for r in harness.run_model(model, case.feeds(), case.run_libs)]


def test_softmax_has_its_own_range(bench, target):
    """Probabilities lie in [0, 1] whatever the calibration rows were, so a peaked row later on
    does not saturate.

    microsoft/onnxruntime pull request #18589."""
    case = models.softmax_then_matmul()
    run, edges = quantized_edges(bench, case, target)
    assert edges == {"mm": {0, 1}}
    p = qdq.View(run.model).params("mm", 0)
    if target == "tensorrt":
        assert (
            p.type == np.int8 and p.scale == pytest.approx(1 / 127, rel=1e-6) and p.zero_point == 0
        )
    else:
        assert (
            p.type == np.uint8
            and p.scale in (np.float32(1 / 255), np.float32(1 / 256))
            and p.zero_point == 0
        )
    peaked = np.eye(4, 16, dtype=np.float32) * 12
    for optimize in (True, False):
        assert harness.compare(case, run.model, optimize, [{"X": peaked}])["Y"] > 30


def test_excluded_softmax_keeps_its_observed_range(bench, target):
    """microsoft/onnxruntime pull request #22676."""
    case = models.softmax_then_matmul()
    run, edges = quantized_edges(bench, case, target, "--exclude-nodes", "softmax")
    assert edges == {"mm": {0, 1}}
    largest = max(p.max() for p in activations(case, "p"))
    steps = 127 if target == "tensorrt" else 255
    assert qdq.View(run.model).params("mm", 0).scale == pytest.approx(largest / steps, rel=1e-5)


def test_residual_block_for_tensorrt(bench):
    """No Q/DQ on biases, none on outputs, zero points int8 and 0, one pair on the shortcut, none
    between Conv, Add and Relu.

    microsoft/onnxruntime #14229 and #17738, NVIDIA/TensorRT #2604 and #1992."""
    case = models.residual_block()
    run, edges = quantized_edges(bench, case, "tensorrt")
    assert edges == {"conv1": {0, 1}, "conv2": {0, 1}, "add": {1}}
    view = qdq.View(run.model)
    assert view.bias("conv1") == view.bias("conv2") == "float"
    assert view.quantized_outputs() == {"relu1"}
    assert view.producer["Y"].name == "relu2"
    assert len([n for n in view.consumers("X") if n.op_type == "QuantizeLinear"]) == 1
    for node, index in (("conv1", 0), ("conv1", 1), ("conv2", 0), ("conv2", 1), ("add", 1)):
        params = view.params(node, index)
        assert params.type == np.int8 and not params.zero_point.any(), (node, index)
    harness.assert_quality(case, run.model)


def test_residual_block_for_onnxruntime(bench):
    """Inputs and outputs of the convolutions. The Add at the end stays float: nobody reads its
    result in int8."""
    case = models.residual_block()
    run, edges = quantized_edges(bench, case, "onnxruntime")
    assert edges == {"conv1": {0, 1}, "conv2": {0, 1}, "add": {0}}
    view = qdq.View(run.model)
    assert view.bias("conv1") == view.bias("conv2") == "int32"
    assert view.quantized_outputs() == {"relu1", "conv2"}
    harness.assert_quality(case, run.model)


def test_decomposed_layer_norm_stays_float(bench, target):
    """Sub to Mul lose everything in eight bits when rows differ in scale: microsoft/onnxruntime
    #16219 and #8770."""
    case = models.decomposed_layer_norm()
    run, edges = quantized_edges(bench, case, target)
    assert edges == {"mm": {0, 1}}
    harness.assert_quality(case, run.model, 25)


def optimized_operators(bench, model, libs=()):
    """Operator types, counted, of the graph that the runtime's optimizer leaves."""
    path = bench.folder / "optimized.onnx"
    harness.session(model, libs, save_to=path)
    counts = {}
    for node in onnx.load(path).graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


@pytest.mark.parametrize(
    "name, integer",
    [
        ("residual_block", {"QLinearConv": 2}),
        ("downsample_block", {"QLinearConv": 6, "QLinearAdd": 2, "QGemm": 1}),
        ("mlp", {"QGemm": 4}),
    ],
)
def test_every_quantized_operator_becomes_an_integer_kernel(bench, name, integer):
    """A pair that no kernel fuses makes a model slower than float: microsoft/onnxruntime #5319."""
    case = models.STANDARD[name]()
    run, edges = quantized_edges(bench, case, "onnxruntime")
    assert edges == case.edges("onnxruntime")
    counts = optimized_operators(bench, run.model)
    assert integer.items() <= counts.items(), counts
    assert not {"Conv", "FusedConv", "MatMul", "Gemm", "FusedGemm", "FusedMatMul"} & set(counts), (
        counts
    )
    harness.assert_quality(case, run.model)


def test_matmul_chain_for_tensorrt(bench):
    case = models.mlp()
    run, edges = quantized_edges(bench, case, "tensorrt")
    assert edges == {f"mm{k}": {0, 1} for k in range(1, 5)}
    assert qdq.View(run.model).quantized_outputs() == {"relu1", "relu2", "relu3"}
    harness.assert_quality(case, run.model)


def test_what_stayed_float_has_a_reason(bench, target):
    run = bench.quantize(models.encoder_layer(), target=target).ok()
    left = [n for n in run.json["nodes"] if n["decision"] == "float"]
    assert {"norm1", "softmax", "gelu.erf"} <= {n["name"] for n in left}
    assert all(n["rule"] and n["reason"] for n in run.json["nodes"])


@pytest.mark.full
@pytest.mark.serial
def test_wide_mlp_is_no_slower_than_float(bench):
    case = models.mlp(width=1024)
    run, _ = quantized_edges(bench, case, "onnxruntime")
    lives = [harness.session(model) for model in (case.model, run.model)]
    times = [[], []]
    for _ in range(30):
        for live, taken in zip(lives, times):
            start = time.perf_counter()
            live.run(None, case.feeds()[0])
            taken.append(time.perf_counter() - start)
    float_time, int8_time = (float(np.median(t)) for t in times)
    assert int8_time <= float_time, (int8_time, float_time)


def test_random_numbers_are_the_same_in_both_models(bench, target):
    """A generator without a seed draws others in every model that the runtime loads: no range and
    no comparison would mean anything."""
    g = models.Graph()
    x = g.input("X", [4, 16])
    r = g.node("RandomNormalLike", [x], "r", "random")
    g.matmul(g.node("Add", [x, r], "a", "add"), "Y", 16, 8, "mm")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": models.noise(32, 16)})
    run = bench.quantize(case, target=target).ok()
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 20, str(run)
    assert not any("LOW QUALITY" in note for note in run.json["notes"]), str(run)
    random = next(n for n in run.model.graph.node if n.op_type == "RandomNormalLike")
    assert not random.attribute  # the result draws as the user's model does
    again = bench.quantize(case, "--force", target=target).ok()
    assert again.json["tensors"] == run.json["tensors"]
