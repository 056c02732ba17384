"""Models that are quantized already, in whole or in part: what is quantized stays, the rest is quantized, and
with nothing left to do the model is copied."""

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, FLOAT, Graph, noise


@pytest.mark.parametrize("first", ["tensorrt", "onnxruntime"])
@pytest.mark.parametrize(
    "name",
    [
        "two_convolutions",
        "residual_block",
        "mlp",
        "encoder_layer",
    ],
)
def test_a_result_of_our_own_is_copied(bench, target, first, name):
    """Whichever target it was made for, by either."""
    case = models.STANDARD[name]()
    model = bench.quantize(case, target=first, out="first.onnx").ok().model
    expect.unchanged(bench, models.Case(model, case.data), target)


@pytest.mark.parametrize("name", ["two_convolutions", "mlp", "encoder_layer"])
def test_quantized_in_two_steps(bench, target, name):
    """A part first, the rest later: the same inputs are quantized as in one step, with the same
    parameters where both saw the float tensor."""
    case = models.STANDARD[name]()
    whole = qdq.View(bench.quantize(case, target=target, out="whole.onnx").ok().model)
    weighted = [n for n in whole.edges() if whole.nodes[n].op_type in expect.WEIGHTED]
    part = bench.quantize(case, "--nodes", weighted[-1], target=target, out="part.onnx").ok()
    second = models.Case(part.model, case.data)
    run = bench.quantize(second, "--force", target=target).ok()
    view = qdq.View(run.model)
    assert {n: view.edges()[n] for n in weighted} == {n: whole.edges()[n] for n in weighted}
    qdq.assert_well_formed(run.model)
    assert not [n for n in view.graph.node if n.op_type == "QuantizeLinear" and is_double(view, n)]
    before = qdq.View(part.model)
    for node in filter(qdq.is_pair, before.graph.node):
        assert node in list(view.graph.node), f"{node.name} was changed"
    harness.assert_quality(case, run.model, 25)


def is_double(view, quantize):
    """Whether a tensor is quantized that comes out of DequantizeLinear."""
    producer = view.producer.get(quantize.input[0])
    return producer is not None and producer.op_type == "DequantizeLinear"


def pair(g, x, output, scale, type=np.int8):
    """Q/DQ by someone else's hand."""
    args = [g.const(f"{output}.s", np.float32(scale)), g.const(f"{output}.z", type(0))]
    q = g.node("QuantizeLinear", [x, *args], f"{output}.q", f"{output}.quantize")
    return g.node("DequantizeLinear", [q, *args], output, f"{output}.dequantize")


def test_the_users_own_pairs_keep_their_scales(bench, target):
    """On activations; the second product has none and gets them."""
    g = Graph()
    x = pair(g, g.input("X", [4, 8]), "xd", 0.05)
    w = g.const("w1", np.random.default_rng(0).integers(-100, 100, (8, 8)).astype(np.int8))
    s = g.const("w1.s", np.float32(0.003))
    w = g.node("DequantizeLinear", [w, s, g.const("w1.z", np.int8(0))], "w1d", "w1.dequantize")
    m = g.node("MatMul", [x, w], "m", "mm1")
    g.matmul(g.node("Relu", [m], "r", "relu"), "Y", 8, 16, "mm2")
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm1": BOTH, "mm2": BOTH})
    _, view = expect.quantized(bench, case, target)
    assert view.params("mm1", 0).scale == np.float32(0.05)
    assert view.params("mm1", 1).scale == np.float32(0.003)
    assert view.params("mm2", 0).source == "r"


def test_an_activation_that_is_dequantized_already(bench, target):
    """The weight of its reader is quantized beside it."""
    g = Graph()
    x = pair(g, g.input("X", [1, 4, 8, 8]), "xd", 0.05)
    g.conv(x, "Y", 4, 8, name="conv")
    g.output("Y", [1, 8, 6, 6])
    g.nodes[-1].attribute[0].ints[:] = [3, 3]
    g.outputs[0].CopyFrom(models.helper.make_tensor_value_info("Y", FLOAT, [1, 8, 8, 8]))
    case = models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, {"conv": BOTH})
    _, view = expect.quantized(bench, case, target)
    assert view.params("conv", 0).scale == np.float32(0.05)
    assert view.params("conv", 0).source == "X"


def integer_matmul(g, x, output):
    """What dynamic quantization makes of a MatMul."""
    q, s, z = (f"{output}.{part}" for part in "qsz")
    g.node("DynamicQuantizeLinear", [x], [q, s, z], f"{output}.dynamic")
    w = np.random.default_rng(1).integers(-127, 128, (8, 8)).astype(np.int8)
    inputs = [q, g.const(f"{output}.w", w), z, g.const(f"{output}.wz", np.int8(0))]
    g.node("MatMulInteger", inputs, f"{output}.i", f"{output}.integer")
    f = g.node("Cast", [f"{output}.i"], f"{output}.f", f"{output}.cast", to=FLOAT)
    scale = g.const(f"{output}.ws", np.float32(0.003))
    scale = g.node("Mul", [s, scale], f"{output}.scale", f"{output}.scales")
    return g.node("Mul", [f, scale], output, f"{output}.mul")


def integer_conv(g, x, output):
    """What dynamic quantization makes of a Conv."""
    q, s, z = (f"{output}.{part}" for part in "qsz")
    g.node("DynamicQuantizeLinear", [x], [q, s, z], f"{output}.dynamic")
    w = np.random.default_rng(1).integers(0, 256, (4, 4, 1, 1)).astype(np.uint8)
    inputs = [q, g.const(f"{output}.w", w), z, g.const(f"{output}.wz", np.uint8(128))]
    g.node("ConvInteger", inputs, f"{output}.i", f"{output}.integer")
    f = g.node("Cast", [f"{output}.i"], f"{output}.f", f"{output}.cast", to=FLOAT)
    scale = g.const(f"{output}.ws", np.float32(0.003))
    scale = g.node("Mul", [s, scale], f"{output}.scale", f"{output}.scales")
    return g.node("Mul", [f, scale], output, f"{output}.mul")


def qlinear_matmul(g, x, output):
    names = [g.const(f"{output}.{k}s", np.float32(0.02)) for k in "awy"]
    zeros = [g.const(f"{output}.{k}z", np.int8(0)) for k in "awy"]
    w = np.random.default_rng(1).integers(-127, 128, (8, 8)).astype(np.int8)
    q = g.node("QuantizeLinear", [x, names[0], zeros[0]], f"{output}.q", f"{output}.quantize")
    inputs = [q, names[0], zeros[0], g.const(f"{output}.w", w), names[1], zeros[1], names[2]]
    y = g.node("QLinearMatMul", [*inputs, zeros[2]], f"{output}.y", f"{output}.qlinear")
    return g.node("DequantizeLinear", [y, names[2], zeros[2]], output, f"{output}.dequantize")


def qlinear_conv(g, x, output):
    names = [g.const(f"{output}.{k}s", np.float32(0.02)) for k in "xwy"]
    zeros = [g.const(f"{output}.{k}z", np.uint8(128)) for k in "xwy"]
    w = np.random.default_rng(1).integers(0, 256, (4, 4, 1, 1)).astype(np.uint8)
    q = g.node("QuantizeLinear", [x, names[0], zeros[0]], f"{output}.q", f"{output}.quantize")
    inputs = [q, names[0], zeros[0], g.const(f"{output}.w", w), names[1], zeros[1], names[2]]
    y = g.node("QLinearConv", [*inputs, zeros[2]], f"{output}.y", f"{output}.qlinear")
    return g.node("DequantizeLinear", [y, names[2], zeros[2]], output, f"{output}.dequantize")


def dynamic_matmul(g, x, output):
    """The runtime's own operator, fused."""
    w = np.random.default_rng(1).integers(-127, 128, (8, 8)).astype(np.int8)
    inputs = [x, g.const(f"{output}.w", w), g.const(f"{output}.ws", np.float32(0.003))]
    return g.node("DynamicQuantizeMatMul", inputs, output, f"{output}.dynamic", "com.microsoft")


def four_bit_matmul(g, x, output):
    """Weight-only, four bits in blocks."""
    rng = np.random.default_rng(1)
    packed = g.const(f"{output}.w", rng.integers(0, 256, (8, 1, 8)).astype(np.uint8))
    scales = g.const(f"{output}.ws", np.full(8, 0.05, np.float32))
    return g.node(
        "MatMulNBits",
        [x, packed, scales],
        output,
        f"{output}.matmul",
        "com.microsoft",
        K=8,
        N=8,
        bits=4,
        block_size=16,
    )


PRODUCTS = [integer_matmul, qlinear_matmul, dynamic_matmul, four_bit_matmul]
CONVOLUTIONS = [integer_conv, qlinear_conv]


def before_a_float_product(make):
    """The ready-made part, then a float operator of the same kind."""
    g = Graph(com_dot_microsoft=1)
    if make in CONVOLUTIONS:
        x = make(g, g.input("X", [1, 4, 6, 6]), "a")
        g.conv(x, "Y", 4, 8, name="rest")
        g.output("Y", [1, 8, 6, 6])
        return models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, {"rest": BOTH})
    x = make(g, g.input("X", [4, 8]), "a")
    g.matmul(g.node("Tanh", [x], "t", "tanh"), "Y", 8, 16, "rest")
    g.output("Y", [4, 16])
    edges = {"rest": BOTH, **({"tanh": {0}} if make is qlinear_matmul else {})}
    return models.Case(g.build(), {"X": noise(32, 8)}, edges)


@pytest.mark.parametrize("make", PRODUCTS + CONVOLUTIONS)
def test_the_rest_is_quantized(bench, target, make):
    expect.quantized(bench, before_a_float_product(make), target)


@pytest.mark.parametrize("make", PRODUCTS + CONVOLUTIONS)
def test_with_nothing_left_the_model_is_copied(bench, target, make):
    g = Graph(com_dot_microsoft=1)
    shape = [1, 4, 6, 6] if make in CONVOLUTIONS else [4, 8]
    make(g, g.input("X", shape), "Y")
    g.output("Y", shape)
    case = models.Case(g.build(), {"X": noise(8 * shape[0], *shape[1:])})
    expect.unchanged(bench, case, target)


@pytest.mark.parametrize("opset", [10, 11, 12])
def test_quantized_below_opset_13(bench, target, opset):
    """As old tools wrote it: nothing is to be done, so the opset stays too."""
    g = Graph(opset=opset, ir=5)
    qlinear_matmul(g, g.input("X", [4, 8]), "Y")
    g.output("Y", [4, 8])
    expect.unchanged(bench, models.Case(g.build(), {"X": noise(32, 8)}), target)


def test_nothing_to_quantize_at_all(bench, target):
    """No matrix operator: a copy, at the opset that it had."""
    g = Graph(opset=11, ir=6)
    g.node("Relu", [g.input("X", [4, 8])], "Y", "relu")
    g.output("Y", [4, 8])
    expect.unchanged(bench, models.Case(g.build(), {"X": noise(32, 8)}), target)
