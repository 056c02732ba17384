"""Element types: half precision keeps it, doubles and integers are left alone, and only float tensors are
quantized.

microsoft/onnxruntime #15341 and pull request #4469, NVIDIA/Model-Optimizer #18, qualcomm/aimet #3080."""

import re

import expect
import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from models import BOTH, FLOAT, INT64, Graph, noise
from onnx import TensorProto, helper, numpy_helper

HALF, DOUBLE, BOOL = TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL


# Half precision


def half(opset=19, ir=9, low=None, scale=1.0):
    g = Graph(opset=opset, ir=ir)
    a = g.node("Mul", [g.input("X", [4, 8], HALF), g.const("one", np.float16(1))], "a", "mul")
    w = g.const("w", (np.random.default_rng(3).standard_normal((8, 8)) * 0.3).astype(np.float16))
    g.node("MatMul", [a, w], "Y", "mm")
    g.output("Y", [4, 8], HALF)
    data = (noise(32, 8) * scale).astype(np.float16)
    if low is not None:
        data.flat[0] = low
    return models.Case(g.build(), {"X": data}, {"mm": BOTH})


@pytest.mark.parametrize("opset, ir", [(13, 7), (17, 8), (19, 9), (21, 10)])
def test_half_precision(bench, target, opset, ir):
    """Scales are of the model's type, for which QuantizeLinear needs opset 19."""
    case = half(opset, ir)
    run, view = expect.quantized(bench, case, target)
    assert {o.domain: o.version for o in run.model.opset_import} == {"": max(opset, 19)}
    assert view.params("mm", 0).scale.dtype == view.params("mm", 1).scale.dtype == np.float16
    assert view.params("mm", 1).scale.shape == (8,)


def test_half_precision_near_its_end(bench, target):
    """One value of 54800: twice that is infinite in half precision, and the range must not be."""
    case = half(low=54800)
    _, view = expect.quantized(bench, case, target, at_least=0)
    scale = float(view.params("mm", 0).scale)
    assert np.isfinite(scale) and scale == pytest.approx(54800 / 127, rel=0.6)


def test_half_precision_of_tiny_values(bench, target):
    """At 1e-6 a scale of max/127 is zero in half precision, or the least number there is."""
    expect.quantized(bench, half(scale=1e-6), target)


def test_half_precision_below_its_least_number(bench, target):
    """Nothing but zeros is left of the data; scales are positive all the same."""
    case = half(scale=1e-9)
    run = bench.quantize(case, target=target).ok()
    assert expect.valid(run, case).edges() == case.edges(target)


def half_network():
    """Convolution, Relu, pooling and a classifier, all in half precision."""
    g = Graph(opset=17, ir=8)

    def const(name, *shape, std=0.2):
        return g.const(name, (g.rng.standard_normal(shape) * std).astype(np.float16))

    x = g.input("X", [1, 4, 8, 8], HALF)
    inputs = [x, const("w1", 8, 4, 3, 3), const("b1", 8)]
    x = g.node("Relu", [g.node("Conv", inputs, "c", "conv", pads=[1] * 4)], "r", "relu")
    x = g.node("Flatten", [g.node("GlobalAveragePool", [x], "p", "pool")], "f", "flatten")
    g.node("Gemm", [x, const("w2", 5, 8), const("b2", 5)], "Y", "fc", transB=1)
    g.output("Y", [1, 5], HALF)
    return models.Case(g.build(), {"X": noise(8, 4, 8, 8).astype(np.float16)})


@pytest.mark.runtime
def test_half_precision_network(bench, target):
    case = half_network()
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert {view.nodes[n].op_type for n, e in view.edges().items() if e == BOTH} >= {"Conv", "Gemm"}
    harness.assert_quality(case, run.model, 25)


def test_mixed_precision(bench, target):
    """Half precision in the middle of a float32 model, between Casts."""
    g = Graph(opset=17, ir=8)
    x = g.matmul(g.input("X", [4, 8]), "a", 8, 8, "mm1")
    x = g.node("Cast", [x], "h", "down", to=HALF)
    w = g.const("w", (g.rng.standard_normal((8, 8)) * 0.3).astype(np.float16))
    x = g.node("Cast", [g.node("MatMul", [x, w], "m", "mm2")], "f", "up", to=FLOAT)
    g.matmul(x, "Y", 8, 8, "mm3")
    g.output("Y", [4, 8])
    edges = {"mm1": BOTH, "mm2": BOTH, "mm3": BOTH}
    case = models.Case(g.build(), {"X": noise(32, 8)}, edges)
    _, view = expect.quantized(bench, case, target, at_least=25)
    types = [view.params(n, 0).scale.dtype for n in ("mm1", "mm2", "mm3")]
    assert types == [np.float32, np.float16, np.float32]


# Double precision, integers, booleans


def test_double_precision_is_left_alone(bench, target):
    g = Graph()
    x = g.input("X", [4, 8], DOUBLE)
    w = g.const("w", np.random.default_rng(0).standard_normal((8, 4)))
    m = g.node("MatMul", [x, w], "m", "mm")
    g.node("Gemm", [m, g.const("v", np.ones((4, 4))), g.const("c", np.ones(4))], "Y", "gemm")
    g.output("Y", [4, 4], DOUBLE)
    case = models.Case(g.build(), {"X": noise(32, 8).astype(np.float64)})
    run = expect.unchanged(bench, case, target)
    expect.left_float(run, "mm", "gemm")


def test_integers_and_booleans_around_a_product(bench, target):
    """An embedding, positions from an integer table, a mask, and comparisons of the result, which are
    exact where rounding does not decide."""
    g = Graph()
    ids = g.input("ids", [1, 6], INT64)
    mask = g.input("mask", [1, 6, 1], BOOL)
    e = g.node("Gather", [g.weight("E", 50, 8, std=1), ids], "e", "embed")
    e = g.node("Mul", [e, g.node("Cast", [mask], "m", "cast", to=FLOAT)], "masked", "mul")
    p = g.node("Gather", [g.const("pos", np.arange(50)), ids], "p", "positions")
    p = g.node("Cast", [p], "pf", "cast_positions", to=FLOAT)
    p = g.node("Unsqueeze", [p, g.const("last", np.array([2]))], "pu", "unsqueeze")
    p = g.node("Mul", [p, g.const("hundredth", np.float32(0.01))], "ps", "scale")
    x = g.node("Add", [e, p], "x", "add")
    g.matmul(x, "Y", 8, 8, "mm")
    g.node("Greater", ["Y", g.const("zero", np.float32(0))], "G", "greater")
    g.node("Where", ["G", "Y", "zero"], "Z", "where")
    g.output("Y", [1, 6, 8])
    g.output("Z", [1, 6, 8])
    g.node("Add", [ids, g.const("one", np.array(1))], "next", "next")
    g.output("next", [1, 6], INT64)
    rng = np.random.default_rng(5)
    data = {
        "ids": rng.integers(0, 50, (8, 6)),
        "mask": rng.integers(0, 2, (8, 6, 1)).astype(bool),
    }
    case = models.Case(g.build(), data, {"mm": BOTH})
    _, view = expect.quantized(bench, case, target)
    floats = {n.input[0] for n in view.graph.node if n.op_type == "QuantizeLinear"}
    assert floats == {"x"}


def test_images_of_bytes(bench, target):
    """uint8 in, through integer pooling and Cast to a convolution; int32 arithmetic beside it."""
    g = Graph()
    x = g.input("X", [1, 3, 8, 8], TensorProto.UINT8)
    p = g.node("MaxPool", [x], "p", "pool", kernel_shape=[2, 2], strides=[2, 2])
    f = g.node("Cast", [p], "f", "cast", to=FLOAT)
    g.node("Conv", [f, g.weight("w", 4, 3, 3, 3, std=0.01)], "Y", "conv")
    c = g.node("Cast", [x], "i", "cast_int", to=TensorProto.INT32)
    c = g.node("Concat", [c, c], "cc", "concat", axis=1)
    g.node("Add", [c, g.const("seven", np.int32(7))], "Z", "add")
    g.output("Y", [1, 4, 2, 2])
    g.output("Z", [1, 6, 8, 8], TensorProto.INT32)
    data = {"X": np.random.default_rng(0).integers(0, 256, (8, 3, 8, 8)).astype(np.uint8)}
    case = models.Case(g.build(), data, {"conv": BOTH})
    run, view = expect.quantized(bench, case, target)
    floats = {n.input[0] for n in view.graph.node if n.op_type == "QuantizeLinear"}
    assert floats <= {"f", *view.nodes["conv"].output}
    assert {o["name"]: o["exact"] for o in run.json["check"]["outputs"]}["Z"]


def test_bool_and_int_inputs_of_data_movement(bench, target):
    """Operators that move elements move integers too; those stay as they are between quantized parts."""
    g = Graph()
    x = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv1")
    shape = g.node("Shape", [x], "shape", "shape")
    head = g.node(
        "Slice",
        [shape, g.const("from", np.array([0])), g.const("to", np.array([2]))],
        "head",
        "slice",
    )
    flat = g.node("Concat", [head, g.const("rest", np.array([-1]))], "target", "concat", axis=0)
    y = g.node("Reshape", [x, flat], "y", "reshape1")
    y = g.node("Reshape", [y, shape], "z", "reshape2")
    g.conv(y, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 6, 6])
    edges = {"conv1": BOTH, "conv2": BOTH}
    moved = {"shape": {0}, "reshape1": {0}, "reshape2": {0}}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges, {**edges, **moved})
    expect.quantized(bench, case, target)


# bfloat16


def test_bfloat16_weights_behind_casts(bench, target):
    """The CPU runs such a model in float32, with weights kept in bfloat16 and cast at run time."""
    from ml_dtypes import bfloat16

    g = Graph()
    w = (np.random.default_rng(3).standard_normal((8, 16)) * 0.3).astype(bfloat16)
    raw = helper.make_tensor("w16", TensorProto.BFLOAT16, w.shape, w.tobytes(), raw=True)
    g.initializers.append(raw)
    w = g.node("Cast", ["w16"], "w", "cast", to=FLOAT)
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm": BOTH})
    expect.quantized(bench, case, target, gone=["cast"])


def test_types_of_the_interface_are_kept(bench, target):
    case = half_network()
    run = bench.quantize(case, target=target).ok()
    for value in (*run.model.graph.input, *run.model.graph.output):
        assert value.type.tensor_type.elem_type == HALF
    tensors = {t.name: t for t in run.model.graph.initializer}
    kept = [t for t in tensors.values() if t.data_type == onnx.TensorProto.FLOAT]
    assert not kept, [t.name for t in kept]
    assert all(np.all(np.isfinite(numpy_helper.to_array(t))) for t in tensors.values())


def bfloat_model(dtype):
    g = Graph(opset=22, ir=10)
    c = g.conv(g.input("X", [1, 4, 8, 8], dtype), "c", 4, 8, name="conv")
    q = g.node(
        "Reshape",
        [g.node("Relu", [c], "r", "relu"), g.const("to", np.array([1, -1]))],
        "q",
        "reshape",
    )
    g.matmul(q, "Y", 512, 16, "mm")
    g.output("Y", [1, 16], dtype)
    return retyped(g.build(), FLOAT, dtype)


def retyped(model, old, new):
    """The same model, its tensors of one float type in another."""
    for i in model.graph.initializer:
        if i.data_type == old:
            values = numpy_helper.to_array(i).astype(np.float32)
            i.CopyFrom(helper.make_tensor(i.name, new, values.shape, values.ravel()))
    for info in (*model.graph.input, *model.graph.output):
        if info.type.tensor_type.elem_type == old:
            info.type.tensor_type.elem_type = new
    return model


def test_bfloat16_with_saved_ranges(bench, target):
    """No provider here runs it: its ranges come from elsewhere (here from a float32 twin). Scales in bfloat16, as the
    model's own tensors; computed in float32 the result is as close as eight bits are."""
    twin = models.Case(bfloat_model(FLOAT), {"X": noise(16, 4, 8, 8)}, {})
    saved = bench.folder / "ranges.json"
    words = ("--target", target, "--size-rules", "off")
    calibrate = harness.run_cli(
        "calibrate",
        bench.write_model(twin.model),
        "-o",
        saved,
        "--data",
        bench.write_data(twin.data),
        *words,
    )
    calibrate.ok()
    text = re.sub(r'"model_hash":"\w+",', "", saved.read_text())
    saved.write_text(text.replace('"type":"float"', '"type":"bfloat16"'))

    case = models.Case(bfloat_model(TensorProto.BFLOAT16), {}, {"conv": BOTH, "mm": BOTH})
    run = bench.quantize(case, "--ranges", saved, target=target, data=False, out="b.onnx").ok()
    onnx.checker.check_model(run.model, full_check=True)
    assert qdq.View(run.model).edges() == case.edges(target)
    scales = [i for i in run.model.graph.initializer if i.name.endswith("_scale")]
    assert scales and {i.data_type for i in scales} == {TensorProto.BFLOAT16}
    assert any("not measured" in note for note in run.json["notes"])
    assert any("nor was it loaded" in note for note in run.json["notes"])
    assert harness.compare(twin, retyped(run.model, TensorProto.BFLOAT16, FLOAT))["Y"] > 28
