"""Placement and parameters on each target, checked structurally and by the runtime's own
optimizer."""

import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from models import BOTH

WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


def quantize(bench, case, target, *args, **options):
    run = bench.quantize(case, *args, target=target, **options).ok()
    return run, qdq.View(run.model)


# Parameters


@pytest.mark.parametrize(
    "case, axis",
    [
        (models.single("Conv", [1, 4, 8, 8], [1, 6, 6, 6], [("w", (6, 4, 3, 3)), ("b", (6,))]), 0),
        (models.single("Conv", [1, 4, 8], [1, 6, 6], [("w", (6, 4, 3))]), 0),
        (
            models.single(
                "Conv", [1, 4, 8, 8], [1, 4, 6, 6], [("w", (4, 1, 3, 3)), ("b", (4,))], group=4
            ),
            0,
        ),
        (models.single("Gemm", [3, 8], [3, 5], [("w", (5, 8)), ("b", (5,))], transB=1), 0),
        (models.single("Gemm", [3, 8], [3, 5], [("w", (8, 5)), ("b", (5,))]), 1),
        (models.single("MatMul", [3, 8], [3, 5], [("w", (8, 5))]), 1),
        (models.single("MatMul", [1, 3, 8], [1, 3, 5], [("w", (8, 5))]), 1),
    ],
    ids=["conv", "conv1d", "depthwise", "gemm_transposed", "gemm", "matmul", "matmul_rank3"],
)
def test_weights_are_int8_with_a_scale_per_output_channel(bench, target, case, axis):
    """scale = max|w| / 127 of each channel, values rounded half to even, zero points 0; the
    float weight is gone."""
    run, view = quantize(bench, case, target)
    params = view.params("op", 1)
    before = qdq.View(case.model).value("w")
    largest = np.abs(np.moveaxis(before, axis, 0).reshape(before.shape[axis], -1)).max(axis=1)
    assert params.weight.dtype == params.zero_point.dtype == np.int8 and not params.zero_point.any()
    assert params.axis % before.ndim == axis
    np.testing.assert_allclose(params.scale, largest / 127, rtol=1e-6)
    shape = [-1 if k == axis else 1 for k in range(before.ndim)]
    exact = before / params.scale.reshape(shape)
    np.testing.assert_array_equal(params.weight, np.clip(np.rint(exact), -127, 127))
    assert "w" not in view.initializers
    assert [(w["name"], w["axis"] % before.ndim, w["channels"]) for w in run.json["weights"]] == [
        ("w", axis, largest.size)
    ]
    harness.assert_quality(case, run.model)


def test_rank_3_matmul_weight_is_not_split_along_k(bench, target):
    """The last axis is the output channel; others hard-code axis 1, which is K here, and the
    runtime then fails."""
    case = models.single("MatMul", [2, 3, 8], [2, 3, 5], [("w", (2, 8, 5))])
    run, view = quantize(bench, case, target)
    params = view.params("op", 1)
    assert params.scale.size == 1 or (params.axis % 3 == 2 and params.scale.size == 5)
    harness.assert_quality(case, run.model)


def test_a_dead_channel_has_a_positive_scale(bench, target):
    case = models.single("Conv", [1, 4, 8, 8], [1, 6, 6, 6], [("w", (6, 4, 3, 3)), ("b", (6,))])
    weight = next(i for i in case.model.graph.initializer if i.name == "w")
    value = onnx.numpy_helper.to_array(weight).copy()
    value[2] = 0
    weight.CopyFrom(onnx.numpy_helper.from_array(value, "w"))
    run, view = quantize(bench, case, target)
    params = view.params("op", 1)
    assert (
        np.all(params.scale > 0)
        and np.all(np.isfinite(params.scale))
        and not params.weight[2].any()
    )
    harness.assert_quality(case, run.model)


@pytest.mark.parametrize("group", [1, 2])
def test_transposed_convolution_stays_float(bench, target, group):
    """Both compile it in float anyway; the axis of its scales is disputed too: NVIDIA/TensorRT
    #1694, #1934 and #2380."""
    weights = [("w", (4, 6 // group, 3, 3)), ("b", (6,))]
    case = models.single("ConvTranspose", [1, 4, 8, 8], [1, 6, 10, 10], weights, group=group)
    run, view = quantize(bench, case, target)
    assert view.edges() == {} and list(view.initializers) == ["w", "b"]
    assert (
        run.json["nodes"][0]["decision"] == "float"
        and "ConvTranspose" in run.json["nodes"][0]["reason"]
    )


def test_activation_scale_of_tensorrt(bench):
    """Symmetric int8: max|x| / 127 over the calibration samples, zero point 0."""
    case = models.two_convolutions()
    run, view = quantize(bench, case, "tensorrt")
    params = view.params("conv1", 0)
    assert params.type == np.int8 and params.zero_point == 0 and params.scale.dtype == np.float32
    assert params.scale == pytest.approx(np.abs(case.data["X"]).max() / 127, rel=1e-6)
    reported = {t["name"]: t for t in run.json["tensors"]}
    assert set(reported) == {"X", "r1"}
    assert (
        reported["X"]["scale"] == pytest.approx(float(params.scale), rel=1e-6)
        and reported["X"]["zero_point"] == 0
    )
    assert reported["X"]["min"] == pytest.approx(case.data["X"].min(), rel=1e-6)
    assert reported["X"]["max"] == pytest.approx(case.data["X"].max(), rel=1e-6)


def test_activation_range_of_onnxruntime(bench):
    """Asymmetric uint8 over [min, max] with zero inside; after a Relu the zero point is 0."""
    case = models.two_convolutions()
    _, view = quantize(bench, case, "onnxruntime", "--method", "max")
    low, high = float(case.data["X"].min()), float(case.data["X"].max())
    params = view.params("conv1", 0)
    assert params.type == np.uint8
    assert params.scale == pytest.approx((high - low) / 255, rel=1e-5)
    assert params.zero_point == np.rint(-low / params.scale)
    assert view.params("conv2", 0).zero_point == 0


def test_int32_bias_of_onnxruntime(bench):
    """round(b / (s_x * s_w[c])), with that scale, zero points 0 or absent."""
    case = models.residual_block()
    _, view = quantize(bench, case, "onnxruntime")
    x, w = view.params("conv1", 0), view.params("conv1", 1)
    bias = view.params("conv1", 2)
    before = qdq.View(case.model).value("conv1.bias")
    assert bias.weight.dtype == np.int32 and not bias.zero_point.any()
    np.testing.assert_allclose(bias.scale, x.scale * w.scale, rtol=1e-6)
    np.testing.assert_allclose(bias.weight, np.rint(before / bias.scale), atol=1)


# Placement for tensorrt


@pytest.mark.parametrize(
    "name", ["two_convolutions", "residual_block", "downsample_block", "conv_bn_relu"]
)
def test_exact_inputs_for_tensorrt(bench, name):
    """Inputs of weighted operators; of a residual Add the shortcut only, where both sides are
    convolutions the shorter one."""
    case = models.STANDARD[name]()
    run, view = quantize(bench, case, "tensorrt")
    assert view.edges() == case.edges("tensorrt")
    for node in view.nodes.values():
        for output in node.output:
            behind = [n for n in view.consumers(output) if n.op_type == "QuantizeLinear"]
            assert len(behind) <= 1, f"{output} is quantized twice"
        if node.op_type in WEIGHTED - {"MatMul"}:
            assert view.bias(node.name) in ("float", None)
    for node in filter(qdq.is_pair, run.model.graph.node):
        zero_point = view.value(node.input[2])
        assert zero_point.dtype == np.int8 and not zero_point.any()
    graph_outputs = {o.name for o in run.model.graph.output}
    assert not [
        n for n in run.model.graph.node if qdq.is_pair(n) and graph_outputs & {*n.input, *n.output}
    ]
    harness.assert_quality(case, run.model)


def test_nothing_inside_a_conv_bn_relu_chain(bench):
    """Q/DQ between Conv, BatchNormalization and Relu keeps runtimes from fusing them:
    microsoft/onnxruntime #9938."""
    case = models.conv_bn_relu()
    run, view = quantize(bench, case, "tensorrt")
    assert view.quantized() == {"conv1", "conv2"}
    inside = {"conv1.c", "conv1.n", "conv2.c", "conv2.n"}
    assert not [
        n for n in run.model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] in inside
    ]
    assert view.params("conv2", 0).source == "r1"
    harness.assert_quality(case, run.model)


def test_normalization_attention_and_gelu(bench, target):
    """LayerNormalization, Softmax and the operators of a GELU stay float; every matrix product
    is quantized."""
    case = models.encoder_layer()
    run, view = quantize(bench, case, target)
    products = {n.name for n in case.model.graph.node if n.op_type == "MatMul"}
    assert {n: e for n, e in view.edges().items() if n in products} == dict.fromkeys(products, BOTH)
    assert not {n for n in view.edges() if n.startswith(("norm", "gelu", "softmax"))}
    harness.assert_quality(case, run.model, 25)


def test_float_neighbours_keep_float(bench):
    """A quantized operator's input that a float operator reads as well: only the quantized one
    reads the pair."""
    g = models.Graph()
    x = g.input("X", [1, 4, 8, 8])
    g.conv(x, "Y", 4, 8, name="conv1")
    g.node("Exp", [x], "Z", "exp")
    g.output("Y", [1, 8, 8, 8])
    g.output("Z", [1, 4, 8, 8])
    case = models.Case(g.build(), {"X": models.noise(8, 4, 8, 8)})
    run, view = quantize(bench, case, "tensorrt")
    assert view.edges() == {"conv1": BOTH} and list(view.nodes["exp"].input) == ["X"]
    assert harness.compare(case, run.model)["Z"] == np.inf


@pytest.mark.parametrize("factor, shared", [(1.5, True), (100, False)])
def test_concat_shares_one_scale_for_tensorrt(bench, factor, shared):
    """The tensors of a Concat that are quantized have one scale, unless that costs one of them
    more than a bit."""
    g = models.Graph()
    x = g.input("X", [1, 4, 8, 8])
    a = g.node("Neg", [x], "a", "neg")
    b = g.node("Mul", [x, g.const("factor", np.float32(factor))], "b", "mul")
    g.conv(a, "ya", 4, 4, name="conv_ya")
    g.conv(b, "yb", 4, 4, name="conv_yb")
    cat = g.node("Concat", [a, b], "cat", "concat", axis=1)
    g.conv(cat, "yc", 8, 4, name="conv_c")
    for name in ("ya", "yb", "yc"):
        g.output(name, [1, 4, 8, 8])
    case = models.Case(g.build(), {"X": models.noise(8, 4, 8, 8)})
    _, view = quantize(bench, case, "tensorrt", "--method", "max")
    scales = {node: float(view.params(node, 0).scale) for node in ("conv_ya", "conv_yb", "conv_c")}
    largest = np.abs(case.data["X"]).max() / 127
    assert scales["conv_c"] == scales["conv_yb"] == pytest.approx(factor * largest, rel=1e-5)
    assert scales["conv_ya"] == (scales["conv_c"] if shared else pytest.approx(largest, rel=1e-5))


def test_movement_operators_share_one_scale_for_onnxruntime(bench):
    """Transpose, Reshape and MaxPool change no values, so what comes out has the scale of what
    went in."""
    g = models.Graph()
    x = g.input("X", [1, 4, 8, 8])
    x = g.node("Relu", [g.conv(x, "c1", 4, 8, name="conv1")], "r1", "relu1")
    x = g.node("MaxPool", [x], "p", "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("Transpose", [x], "t", "transpose", perm=[0, 1, 3, 2])
    x = g.node("Reshape", [x, g.const("shape", np.array([1, 8, 2, 8]))], "s", "reshape")
    g.conv(x, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 2, 8])
    case = models.Case(g.build(), {"X": models.noise(8, 4, 8, 8)})
    run, view = quantize(bench, case, "onnxruntime")
    behind_conv1 = {
        float(view.value(n.input[1]))
        for n in run.model.graph.node
        if n.op_type == "QuantizeLinear" and n.input[0] in ("c1", "r1", "p", "t", "s")
    }
    assert len(behind_conv1) == 1
    counts = optimized(bench, run.model)
    assert counts.get("QLinearConv") == 2 and "Conv" not in counts and "FusedConv" not in counts, (
        counts
    )
    harness.assert_quality(case, run.model)


# What the runtime's optimizer makes of it


def optimized(bench, model, libs=()):
    path = bench.folder / "optimized.onnx"
    harness.session(model, libs, save_to=path)
    counts = {}
    for node in onnx.load(path).graph.node:
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return counts


@pytest.mark.parametrize(
    "name, convolutions", [("two_convolutions", 2), ("residual_block", 2), ("downsample_block", 6)]
)
def test_every_convolution_is_fused_by_onnxruntime(bench, name, convolutions):
    case = models.STANDARD[name]()
    run, view = quantize(bench, case, "onnxruntime")
    assert view.edges() == case.edges("onnxruntime")
    counts = optimized(bench, run.model)
    assert counts.get("QLinearConv") == convolutions, counts
    assert not {"Conv", "FusedConv", "Gemm"} & set(counts), counts
    harness.assert_quality(case, run.model)


def test_onnxruntime_keeps_foreign_edges_float_unless_told(bench):
    """By default the convolution before a foreign operator loses its fusion; `--foreign-edges
    fuse` buys it back."""
    case = models.between_convolutions()
    _, view = quantize(bench, case, "onnxruntime")
    assert view.source(view.nodes["scale"].input[0]) == view.nodes["scale"].input[0] == "c1"
    run, view = quantize(bench, case, "onnxruntime", "--foreign-edges", "fuse", "--force")
    assert (
        "conv1" in view.quantized_outputs()
        and view.dequantizer(view.nodes["scale"].input[0]) is not None
    )
    assert optimized(bench, run.model, case.libs).get("QLinearConv", 0) >= 1
    harness.assert_quality(case, run.model)


# Size rules


def sized(op, x_shape, y_shape, *weights, **attributes):
    return models.single(op, x_shape, y_shape, list(zip(("w", "b"), weights)), rows=2, **attributes)


@pytest.mark.parametrize(
    "case, kept",
    [
        (
            sized(
                "Conv", [1, 3, 12, 12], [1, 64, 6, 6], (64, 3, 7, 7), strides=[2, 2], pads=[3] * 4
            ),
            True,
        ),
        (sized("Conv", [1, 16, 6, 6], [1, 16, 6, 6], (16, 16, 1, 1)), True),
        (sized("Conv", [1, 3, 8, 8], [1, 12, 4, 4], (12, 3, 5, 5)), False),
        (sized("Conv", [1, 8, 8, 8], [1, 8, 6, 6], (8, 1, 3, 3), group=8), True),
        (sized("Conv", [1, 8, 8, 8], [1, 8, 8, 6], (8, 1, 1, 3), group=8), False),
        (sized("MatMul", [4, 32], [4, 32], (32, 32)), True),
        (sized("MatMul", [4, 32], [4, 8], (32, 8)), False),
        (sized("MatMul", [4, 8], [4, 32], (8, 32)), False),
        (sized("Gemm", [1, 32], [1, 100], (100, 32), (100,), transB=1), False),
        (sized("Gemm", [4, 32], [4, 100], (100, 32), (100,), transB=1), True),
        (sized("MatMul", [2, 1, 32], [2, 1, 32], (32, 32)), True),
    ],
    ids=[
        "stem",
        "16_channels",
        "12_channels",
        "depthwise_3x3",
        "depthwise_1x3",
        "matmul_32",
        "narrow_n",
        "narrow_k",
        "one_row",
        "four_rows",
        "rank_3_one_token",
    ],
)
def test_size_rules_of_tensorrt(bench, case, kept):
    """On by default: what is too small for an int8 kernel to pay stays float, with the rule in
    the report."""
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    out = bench.out / "q.onnx"
    report = harness.run_cli("quantize", model, "-o", out, "--data", data, "--json").ok().json
    assert report["target"] == "tensorrt"
    (node,) = (n for n in report["nodes"] if n["name"] == "op")
    assert node["decision"] == ("quantized" if kept else "float"), node
    assert node["rule"] and node["reason"]
    assert kept or "--size-rules off" in node["reason"]
    assert qdq.View(onnx.load(out)).quantized() == ({"op"} if kept else set())


def test_size_rules_are_off_for_onnxruntime(bench):
    case = sized("MatMul", [4, 8], [4, 8], (8, 8))
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    harness.run_cli(
        "quantize", model, "-o", bench.out / "q.onnx", "--data", data, "--target", "onnxruntime"
    ).ok()
    assert qdq.View(onnx.load(bench.out / "q.onnx")).quantized() == {"op"}
