"""Weights and biases wherever exporters put them, of every form that their operators take: int8, one scale
per output channel, stored once, and no float copy left behind."""

import expect
import harness
import models
import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from models import BOTH, FLOAT, INT64, Graph, noise
from onnx import helper, numpy_helper

WIDTH = 64  # large enough that a float copy of the weight would show in the size of the file


def value(*shape, seed=3, std=0.3):
    return (np.random.default_rng(seed).standard_normal(shape) * std).astype(np.float32)


# Where a weight hides: microsoft/onnxruntime pull request #9869 and #13358, openvinotoolkit/nncf #1917 and
# #3662. Each function adds the nodes that compute `w` and returns its name.


def in_an_initializer(g, w):
    return g.const("w", w)


def in_a_constant(g, w):
    return g.node("Constant", [], "w", "make", value=numpy_helper.from_array(w))


def in_floats(g, w):
    flat = g.node("Constant", [], "flat", "floats", value_floats=w.ravel().tolist())
    return g.node("Reshape", [flat, g.const("to", np.array(w.shape))], "w", "reshape")


def in_ints(g, w):
    """Whole numbers, so that a Cast gives them back."""
    np.copyto(w, np.rint(w * 10))
    flat = g.node("Constant", [], "flat", "ints", value_ints=w.ravel().astype(int).tolist())
    cast = g.node("Cast", [flat], "cast", "cast", to=FLOAT)
    return g.node("Reshape", [cast, g.const("to", np.array(w.shape))], "w", "reshape")


def in_one_float(g, w):
    np.copyto(w, w.flat[0])
    one = g.node("Constant", [], "one", "float", value_float=float(w.flat[0]))
    return g.node("Expand", [one, g.const("to", np.array(w.shape))], "w", "expand")


def in_one_int(g, w):
    np.copyto(w, 3)
    one = g.node("Constant", [], "one", "int", value_int=3)
    cast = g.node("Cast", [one], "cast", "cast", to=FLOAT)
    return g.node("Expand", [cast, g.const("to", np.array(w.shape))], "w", "expand")


def sparse(w, name="w"):
    w[np.abs(w) < 0.3] = 0
    indices = np.flatnonzero(w)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(w.ravel()[indices], name),
        numpy_helper.from_array(indices, f"{name}.indices"),
        w.shape,
    )


def in_a_sparse_constant(g, w):
    return g.node("Constant", [], "w", "make", sparse_value=sparse(w))


def in_a_sparse_initializer(g, w):
    g.sparse = sparse(w)
    return "w"


def behind_identity(g, w):
    return g.node("Identity", [g.const("init", w)], "w", "identity")


def behind_transpose(g, w):
    order = list(range(w.ndim))[::-1]
    return g.node("Transpose", [g.const("init", w.T.copy())], "w", "transpose", perm=order)


def behind_reshape(g, w):
    shape = g.const("to", np.array(w.shape))
    return g.node("Reshape", [g.const("init", w.ravel()), shape], "w", "reshape")


def behind_squeeze(g, w):
    return g.node("Squeeze", [g.const("init", w[None]), g.const("at", np.array([0]))], "w", "sq")


def behind_unsqueeze(g, w):
    flat = g.const("init", w.reshape(w.shape[1:]) if w.shape[0] == 1 else w)
    axes = g.const("at", np.array([0]))
    lifted = g.node("Unsqueeze", [flat, axes], "lifted", "unsqueeze")
    return g.node("Squeeze", [lifted, axes], "w", "squeeze")


def behind_cast_from_half(g, w):
    np.copyto(w, w.astype(np.float16))
    return g.node("Cast", [g.const("init", w.astype(np.float16))], "w", "cast", to=FLOAT)


def behind_cast_from_bfloat16(g, w):
    np.copyto(w, w.astype(bfloat16).astype(np.float32))
    raw = w.astype(bfloat16).tobytes()
    tensor = helper.make_tensor("init", onnx.TensorProto.BFLOAT16, w.shape, raw, raw=True)
    g.initializers.append(tensor)
    return g.node("Cast", ["init"], "w", "cast", to=FLOAT)


def behind_cast_from_double(g, w):
    return g.node("Cast", [g.const("init", w.astype(np.float64))], "w", "cast", to=FLOAT)


def behind_a_chain(g, w):
    flat = np.ascontiguousarray(w.T).ravel().astype(np.float64)
    x = g.node("Cast", [g.const("init", flat)], "a", "cast", to=FLOAT)
    x = g.node("Reshape", [x, g.const("to", np.array(w.shape[::-1]))], "b", "reshape")
    x = g.node("Identity", [x], "c", "identity")
    return g.node("Transpose", [x], "w", "transpose", perm=list(range(w.ndim))[::-1])


def behind_weight_norm(g, w):
    """g * v / |v|, as exported from a training-time parametrization."""
    v = g.const("v", w)
    axes = list(range(1, w.ndim))
    norm = g.node("ReduceL2", [v], "norm", "norm", axes=axes, keepdims=1)
    x = g.node("Div", [v, norm], "unit", "div")
    gain = np.sqrt(np.sum(np.square(w), axis=tuple(axes), keepdims=True))
    return g.node("Mul", [x, g.const("gain", gain)], "w", "mul")


def behind_concat(g, w):
    a, b = np.split(w, [w.shape[0] // 2])
    return g.node("Concat", [g.const("a", a), g.const("b", b)], "w", "concat", axis=0)


HIDDEN = [
    in_a_constant,
    in_floats,
    in_ints,
    in_one_float,
    in_one_int,
    in_a_sparse_constant,
    in_a_sparse_initializer,
    behind_identity,
    behind_transpose,
    behind_reshape,
    behind_squeeze,
    behind_unsqueeze,
    behind_cast_from_half,
    behind_cast_from_bfloat16,
    behind_cast_from_double,
    behind_a_chain,
    behind_weight_norm,
    behind_concat,
]


def hidden(hide, op):
    """One operator whose weight `hide` computes, the value, the axis of its scales, and the nodes that
    go."""
    g = Graph()
    if op == "Conv":
        w, x_shape, axis = value(WIDTH, 4, 3, 3), [1, 4, 6, 6], 0
        y_shape, attributes = [1, WIDTH, 4, 4], {}
    elif op == "Gemm":
        w, x_shape, axis = value(WIDTH, 32), [4, 32], 0
        y_shape, attributes = [4, WIDTH], {"transB": 1}
    else:
        w, x_shape, axis = value(32, WIDTH), [4, 32], 1
        y_shape, attributes = [4, WIDTH], {}
    name = hide(g, w)
    gone = [n.name for n in g.nodes]
    g.node(op, [g.input("X", x_shape), name], "Y", "op", **attributes)
    g.output("Y", y_shape)
    model = g.build()
    if hasattr(g, "sparse"):
        model.graph.sparse_initializer.append(g.sparse)
    case = models.Case(model, {"X": noise(8 * x_shape[0], *x_shape[1:])}, {"op": BOTH})
    return case, w, axis, gone


@pytest.mark.parametrize("op", ["MatMul", "Conv", "Gemm"])
@pytest.mark.parametrize("hide", HIDDEN)
def test_hidden_weight(bench, target, hide, op):
    case, w, axis, gone = hidden(hide, op)
    run, view = expect.quantized(bench, case, target, gone=gone)
    expect.weight_is_int8(view, "op", 1, w, axis)
    assert run.path.stat().st_size < w.size + 12 * w.shape[axis] + 1500
    assert not run.model.graph.sparse_initializer


def test_hidden_bias(bench, target):
    """A bias behind nodes is one all the same: int32 where the target wants that."""
    g = Graph()
    w = g.weight("w", 8, 4, 3, 3, std=0.2)
    b = g.node("Cast", [g.const("b", value(8).astype(np.float16))], "bias", "cast", to=FLOAT)
    g.node("Conv", [g.input("X", [1, 4, 6, 6]), w, b], "Y", "op")
    g.output("Y", [1, 8, 4, 4])
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, {"op": BOTH})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == case.edges(target)
    assert view.bias("op") == ("int32" if target == "onnxruntime" else "float")
    harness.assert_quality(case, run.model)


def test_a_constant_that_other_operators_read_too_stays_for_them(bench, target):
    """The MatMul reads an int8 copy; Add reads what it always read."""
    g = Graph()
    w = value(16, 16)
    t = g.node("Transpose", [g.const("init", w.T.copy())], "w", "transpose", perm=[1, 0])
    m = g.node("MatMul", [g.input("X", [16, 16]), t], "m", "mm")
    g.node("Exp", [t], "e", "exp")
    g.node("Sub", [m, "e"], "Y", "sub")
    g.output("Y", [16, 16])
    case = models.Case(g.build(), {"X": noise(64, 16)}, {"mm": BOTH})
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "mm", 1, w, 1)


# Already dequantized


def test_a_weight_that_is_dequantized_already_stays_as_it_is(bench, target):
    """Its scales are someone's choice; the other side of the product is quantized."""
    g = Graph()
    w = np.random.default_rng(0).integers(-127, 128, (8, 16)).astype(np.int8)
    scale = np.linspace(0.001, 0.01, 16, dtype=np.float32)
    g.node(
        "DequantizeLinear",
        [g.const("w", w), g.const("s", scale), g.const("z", np.zeros(16, np.int8))],
        "wf",
        "dq",
        axis=1,
    )
    g.node("MatMul", [g.input("X", [4, 8]), "wf"], "Y", "mm")
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm": BOTH})
    _, view = expect.quantized(bench, case, target)
    assert view.params("mm", 1).source == "w"
    np.testing.assert_array_equal(view.params("mm", 1).scale, scale)


# Biases of Gemm: microsoft/onnxruntime #24815 and #25890


@pytest.mark.parametrize("shape", [(10,), (1, 10), (1,), (), (1, 1)], ids=str)
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm_bias_of_one_per_channel(bench, target, shape, trans_b):
    g = Graph()
    w = value(*((10, 8) if trans_b else (8, 10)))
    g.node(
        "Gemm",
        [g.input("X", [4, 8]), g.const("w", w), g.const("c", value(*shape, seed=4))],
        "Y",
        "gemm",
        transB=trans_b,
    )
    g.output("Y", [4, 10])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"gemm": BOTH})
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "gemm", 1, w, 0 if trans_b else 1)
    assert view.bias("gemm") == ("int32" if target == "onnxruntime" else "float")


@pytest.mark.parametrize("shape", [(4, 10), (4, 1)], ids=str)
def test_gemm_bias_that_differs_by_row(bench, target, shape):
    """No integer kernel of the runtime takes it, so there the node stays float."""
    g = Graph()
    c = g.const("c", value(*shape, seed=4))
    g.node("Gemm", [g.input("X", [4, 8]), g.weight("w", 8, 10), c], "Y", "gemm")
    g.output("Y", [4, 10])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"gemm": BOTH}, {})
    run, view = expect.quantized(bench, case, target)
    if target == "onnxruntime":
        expect.left_float(run, "gemm")
    else:
        assert view.bias("gemm") == "float"


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"transA": 1},
        {"alpha": 0.5},
        {"beta": 2.0},
        {"alpha": 2.0, "beta": 0.5, "transA": 1, "transB": 1},
        {"alpha": 1.0, "beta": 1.0, "transB": 1},
        {"beta": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("bias", [True, False])
def test_gemm_attributes(bench, target, attributes, bias):
    """All are honoured. With alpha, or with beta and a bias, other than 1 the runtime has no integer
    kernel, so the node stays float there."""
    g = Graph()
    x = g.input("X", [8, 4] if attributes.get("transA") else [4, 8])
    w = value(*((10, 8) if attributes.get("transB") else (8, 10)))
    inputs = [x, g.const("w", w)] + ([g.weight("c", 10)] if bias else [])
    g.node("Gemm", inputs, "Y", "gemm", **attributes)
    g.output("Y", [4, 10])
    plain = attributes.get("alpha", 1) == 1 and (attributes.get("beta", 1) == 1 or not bias)
    data = noise(64, 4) if attributes.get("transA") else noise(32, 8)
    case = models.Case(g.build(), {"X": data}, {"gemm": BOTH}, {"gemm": BOTH} if plain else {})
    run, view = expect.quantized(bench, case, target)
    if case.edges(target):
        expect.weight_is_int8(view, "gemm", 1, w, 0 if attributes.get("transB") else 1)
    else:
        expect.left_float(run, "gemm")


def test_gemm_bias_that_is_computed(bench, target):
    g = Graph()
    c = g.node("Exp", [g.input("C", [4, 10])], "c", "exp")
    g.node("Gemm", [g.input("X", [4, 8]), g.weight("w", 8, 10), c], "Y", "gemm")
    g.output("Y", [4, 10])
    data = {"X": noise(32, 8), "C": noise(32, 10, seed=2)}
    case = models.Case(g.build(), data, {"gemm": BOTH}, {})
    expect.quantized(bench, case, target)


# Sharing: microsoft/onnxruntime #11530 and pull requests #7982 and #28326


def test_a_bias_shared_by_convolutions_of_different_input_scale(bench, target):
    g = Graph()
    x = g.input("X", [1, 4, 6, 6])
    b = g.weight("b", 4)
    big = g.node("Mul", [x, g.const("fifty", np.float32(50))], "big", "mul")
    a = g.node("Conv", [x, g.weight("w1", 4, 4, 3, 3), b], "a", "conv1")
    c = g.node("Conv", [big, g.weight("w2", 4, 4, 3, 3, std=0.01), b], "c", "conv2")
    g.node("Sub", [a, c], "Y", "sub")
    g.output("Y", [1, 4, 4, 4])
    tensorrt = {"conv1": BOTH, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, tensorrt, {**tensorrt, "sub": BOTH})
    _, view = expect.quantized(bench, case, target)
    if target == "onnxruntime":
        first, second = (view.params(n, 2) for n in ("conv1", "conv2"))
        assert first.source != second.source and "b" not in view.initializers
        for node, params in (("conv1", first), ("conv2", second)):
            scale = view.params(node, 0).scale * view.params(node, 1).scale
            np.testing.assert_allclose(params.scale, scale, rtol=1e-6)
    else:
        assert view.nodes["conv1"].input[2] == view.nodes["conv2"].input[2] == "b"


def test_a_weight_shared_with_a_transposed_convolution_and_an_output(bench, target):
    """Conv reads int8 along axis 0; ConvTranspose, float on both targets, and the caller read the
    original."""
    g = Graph()
    w = value(6, 4, 1, 1)
    x = g.input("X", [1, 4, 6, 6])
    a = g.node("Conv", [x, g.const("w", w)], "a", "conv")
    g.node("ConvTranspose", [a, "w"], "Y", "up")
    g.output("Y", [1, 4, 6, 6])
    g.output("w", [6, 4, 1, 1])
    case = models.Case(
        g.build(), {"X": noise(8, 4, 6, 6)}, {"conv": BOTH}, {"conv": BOTH, "up": {0}}
    )
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "conv", 1, w, 0)
    assert harness.compare(case, view.model)["w"] == np.inf


@pytest.mark.parametrize("tie", ["Transpose", "transB"])
def test_tied_embedding(bench, target, tie):
    """Gather reads the float table, the product at the end an int8 copy of it."""
    g = Graph()
    table = value(WIDTH, 16)
    e = g.node("Gather", [g.const("E", table), g.input("ids", [4], INT64)], "e", "gather")
    if tie == "Transpose":
        t = g.node("Transpose", ["E"], "Et", "transpose", perm=[1, 0])
        g.node("MatMul", [e, t], "Y", "head")
    else:
        g.node("Gemm", [e, "E"], "Y", "head", transB=1)
    g.output("Y", [4, WIDTH])
    case = models.Case(g.build(), {"ids": np.arange(32) * 7 % WIDTH}, {"head": BOTH})
    gone = ["transpose"] if tie == "Transpose" else []
    run, view = expect.quantized(bench, case, target, gone=gone)
    if tie == "Transpose":
        expect.weight_is_int8(view, "head", 1, table.T, 1)
    else:
        expect.weight_is_int8(view, "head", 1, table, 0)
    assert run.path.stat().st_size < 5 * table.size + 12 * WIDTH + 1500


def test_consumers_that_agree_share_one_copy_and_others_have_their_own(bench, target):
    """Two MatMul split the weight along axis 1; a Gemm with transB along axis 0."""
    g = Graph()
    w = value(16, 16)
    x = g.input("X", [4, 16])
    name = g.const("w", w)
    a = g.node("Tanh", [g.node("MatMul", [x, name], "a", "mm1")], "ta", "tanh1")
    b = g.node("Tanh", [g.node("MatMul", [a, name], "b", "mm2")], "tb", "tanh2")
    g.node("Gemm", [b, name], "Y", "gemm", transB=1)
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 16)}, {n: BOTH for n in ("mm1", "mm2", "gemm")})
    _, view = expect.quantized(bench, case, target)
    first, second, third = (view.params(n, 1).source for n in ("mm1", "mm2", "gemm"))
    assert first == second != third
    expect.weight_is_int8(view, "mm2", 1, w, 1)
    expect.weight_is_int8(view, "gemm", 1, w, 0)
    assert "w" not in view.initializers


def test_the_same_weight_in_two_initializers_comes_out_right(bench, target):
    g = Graph()
    w = value(16, 16)
    x = g.input("X", [4, 16])
    a = g.node("MatMul", [x, g.const("w1", w)], "a", "mm1")
    g.node("MatMul", [g.node("Tanh", [a], "t", "tanh"), g.const("w2", w)], "Y", "mm2")
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 16)}, {"mm1": BOTH, "mm2": BOTH})
    expect.quantized(bench, case, target)


# Axes: microsoft/onnxruntime #19694 and #25489, NVIDIA/Model-Optimizer #117 and #40


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("bias", [True, False])
def test_transposed_convolution_with_groups(bench, target, group, bias):
    """Float on both targets, bias and all, and its neighbours quantized."""
    g = Graph()
    x = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 4, name="conv")
    w = value(4, 3, 3, 3)
    w[:, 0] *= 20
    inputs = [x, g.const("w", w)] + ([g.weight("b", 3 * group)] if bias else [])
    x = g.node("ConvTranspose", inputs, "t", "up", group=group, pads=[1] * 4)
    g.node("Conv", [x, g.weight("w2", 4, 3 * group, 1, 1, std=0.02)], "Y", "conv2")
    g.output("Y", [1, 4, 6, 6])
    tensorrt = {"conv": BOTH, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, tensorrt, {**tensorrt, "up": {0}})
    run, view = expect.quantized(bench, case, target, at_least=20)  # one scale for all channels
    expect.left_float(run, "up")
    assert {"w"} | ({"b"} if bias else set()) <= set(view.initializers)


def test_depthwise_convolution_with_one_large_channel(bench, target):
    """Per channel the others keep their precision: with one scale they would lose seven bits."""
    g = Graph()
    w = value(8, 1, 3, 3)
    w[3] *= 100
    g.node("Conv", [g.input("X", [1, 8, 6, 6]), g.const("w", w)], "Y", "conv", group=8)
    g.output("Y", [1, 8, 4, 4])
    case = models.Case(g.build(), {"X": noise(8, 8, 6, 6)}, {"conv": BOTH})
    run, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "conv", 1, w, 0)
    if target == "onnxruntime":
        return  # the result has one scale, which the large channel decides
    feeds = case.feeds()
    want, got = (harness.run_model(m, feeds) for m in (case.model, run.model))
    for channel in range(8):
        quality = harness.sqnr_db(
            [r["Y"][:, channel] for r in want], [q["Y"][:, channel] for q in got]
        )
        assert quality > 30, channel


MATMULS = {
    "rank 2": ([4, 16], (16, 8), [4, 8]),
    "rank 3 with a matrix": ([4, 3, 16], (16, 8), [4, 3, 8]),
    "rank 3": ([4, 3, 16], (4, 16, 8), [4, 3, 8]),
    "rank 4": ([1, 2, 3, 16], (1, 2, 16, 8), [1, 2, 3, 8]),
    "rank 1": ([4, 3, 16], (16,), [4, 3]),
}


@pytest.mark.parametrize("form", MATMULS)
def test_matmul_weight_of_any_rank(bench, target, form):
    """One scale per output column, or one in all where the runtime's integer product takes no more;
    never along the axis of the sum."""
    x_shape, w_shape, y_shape = MATMULS[form]
    g = Graph()
    w = value(*w_shape)
    g.node("MatMul", [g.input("X", x_shape), g.const("w", w)], "Y", "mm")
    g.output("Y", y_shape)
    case = models.Case(g.build(), {"X": noise(8 * x_shape[0], *x_shape[1:])}, {"mm": BOTH})
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "mm", 1, w, 1 if w.ndim == 2 else None)


@pytest.mark.parametrize("w_shape", [(8, 16), (2, 8, 16)], ids=str)
def test_matmul_with_the_constant_on_the_left(bench, target, w_shape):
    """Its output channels are rows. The runtime's integer product takes one scale on the left."""
    g = Graph()
    w = value(*w_shape)
    w[..., 0, :] *= 30
    g.node("MatMul", [g.const("w", w), g.input("X", [1, 16, 4])], "Y", "mm")
    g.output("Y", [*([1] if w.ndim == 2 else [2]), 8, 4])
    case = models.Case(g.build(), {"X": noise(8, 16, 4)}, {"mm": BOTH})
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "mm", 0, w, w.ndim - 2 if target == "tensorrt" else None)


def test_weights_of_one_and_three_spatial_dimensions(bench, target):
    g = Graph()
    x = g.input("X", [1, 4, 8])
    a = g.node("Conv", [x, g.weight("w1", 8, 4, 3)], "a", "conv1d")
    a = g.node("Reshape", [a, g.const("to", np.array([1, 8, 1, 2, 3]))], "r", "reshape")
    g.node("Conv", [a, g.weight("w3", 4, 8, 1, 2, 2)], "Y", "conv3d")
    g.output("Y", [1, 4, 1, 1, 2])
    edges = {"conv1d": BOTH, "conv3d": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 8)}, edges, {**edges, "reshape": {0}})
    expect.quantized(bench, case, target)


# What is no weight


@pytest.mark.parametrize("type", [np.float64, np.int32])
def test_products_of_other_types_are_left_alone(bench, target, type):
    g = Graph()
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(type))
    w = (value(8, 8) * 10).astype(type)
    g.node("MatMul", [g.input("A", [4, 8], onnx_type), g.const("w", w)], "Z", "mm64")
    g.matmul(g.input("X", [4, 8]), "Y", 8, 8, "mm")
    g.output("Z", [4, 8], onnx_type)
    g.output("Y", [4, 8])
    data = {"X": noise(32, 8), "A": (noise(32, 8) * 10).astype(type)}
    case = models.Case(g.build(), data, {"mm": BOTH})
    run, _ = expect.quantized(bench, case, target)
    expect.left_float(run, "mm64")


def test_a_weight_that_is_fed_is_no_constant(bench, target):
    """MatMul can quantize it as an activation; Conv and Gemm stay float, and the report says why."""
    g = Graph()
    x = g.input("X", [2, 4, 6, 6])
    g.node("Conv", [x, g.input("W", [2, 4, 3, 3])], "Y", "conv")
    g.output("Y", [2, 2, 4, 4])
    case = models.Case(g.build(), {"X": noise(16, 4, 6, 6), "W": noise(16, 4, 3, 3)})
    run = expect.unchanged(bench, case, target)
    expect.left_float(run, "conv")
