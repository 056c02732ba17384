"""Shapes of graphs that confuse quantizers: shared operands, outputs in odd places, optional inputs left empty, local
functions, normalization to be folded."""

import expect
import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from models import BOTH, FLOAT, INT64, Graph, noise
from onnx import helper

# Pairs: microsoft/onnxruntime #14142 and pull requests #14258 and #12254


def test_the_same_convolution_twice(bench, target):
    """One weight, read by two; the first result is an output too. Names are unique, the weight is
    stored once."""
    g = Graph()
    x = g.input("X", [1, 4, 6, 6])
    w = g.weight("w", 4, 4, 3, 3)
    a = g.node("Conv", [x, w], "a", "conv1")
    b = g.node("Conv", [x, w], "b", "conv2")
    g.node("Add", [a, b], "Y", "add")
    g.output("Y", [1, 4, 4, 4])
    g.output("a", [1, 4, 4, 4])
    both = {"conv1": BOTH, "conv2": BOTH}
    data = {"X": noise(8, 4, 6, 6)}
    case = models.Case(g.build(), data, {**both, "add": {0}}, {**both, "add": BOTH})
    _, view = expect.quantized(bench, case, target)
    assert view.params("conv1", 1).source == view.params("conv2", 1).source


def test_both_operands_are_one_tensor(bench, target):
    """X times itself, transposed and not."""
    g = Graph()
    x = g.input("X", [4, 4])
    m = g.node("MatMul", [x, x], "m", "square")
    g.node("Add", [m, m], "Y", "twice")
    g.output("Y", [4, 4])
    case = models.Case(g.build(), {"X": noise(32, 4)}, {"square": BOTH})
    _, view = expect.quantized(bench, case, target, at_least=25)
    assert len({view.nodes["square"].input[i] for i in (0, 1)}) == 1


# Outputs: microsoft/onnxruntime #13328 and pull request #14024, NVIDIA/TensorRT #2604


def conv_reshape():
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv")
    g.node("Reshape", [c, g.const("to", np.array([1, 288]))], "Y", "reshape")
    g.output("Y", [1, 288])
    tensorrt = {"conv": BOTH}
    data = {"X": noise(8, 4, 6, 6)}
    return g, models.Case(None, data, tensorrt, {**tensorrt, "reshape": {0}})


@pytest.mark.parametrize("second, shape", [("c", [1, 8, 6, 6]), ("X", [1, 4, 6, 6])])
def test_an_output_that_others_read(bench, target, second, shape):
    """A quantized result, and an input handed through; the latter stays float to the bit."""
    g, case = conv_reshape()
    g.output(second, shape)
    case.model = g.build()
    _, view = expect.quantized(bench, case, target)
    if second == "X":
        assert harness.compare(case, view.model)["X"] == np.inf


def test_a_weight_that_is_an_output(bench, target):
    g, case = conv_reshape()
    g.output("conv.weight", [8, 4, 3, 3])
    case.model = g.build()
    _, view = expect.quantized(bench, case, target)
    assert "conv.weight" in view.initializers
    assert harness.compare(case, view.model)["conv.weight"] == np.inf


def test_a_result_that_is_an_output_twice_over(bench, target):
    """Directly, and behind an Identity."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv")
    g.node("Identity", [c], "Y", "same")
    g.output("Y", [1, 8, 6, 6])
    g.output("c", [1, 8, 6, 6])
    edges = {"conv": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges, {**edges, "same": {0}})
    expect.quantized(bench, case, target)


# Empty optional inputs: OpenPPL/ppq #486, onnx/onnx #5098, microsoft/onnxruntime #9573


@pytest.mark.parametrize("form", ["sizes", "scales", "scales with an empty roi"])
def test_resize(bench, target, form):
    """Parameters are no data: untouched, and empty names stay empty. Behind the Resize a second
    convolution, so that it lies between quantized ones."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 4, 4]), "c", 4, 8, name="conv1")
    scales = g.const("scales", np.float32([1, 1, 2, 2]))
    if form == "sizes":
        inputs = [c, "", "", g.const("sizes", np.array([1, 8, 8, 8]))]
        g.initializers = [i for i in g.initializers if i.name != "scales"]
    elif form == "scales":
        inputs = [c, "", scales]
    else:
        inputs = [c, g.const("roi", np.zeros(0, np.float32)), scales]
    r = g.node("Resize", inputs, "r", "resize", mode="nearest")
    g.conv(r, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 8, 8])
    edges = {"conv1": BOTH, "resize": {0}, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 4, 4)}, edges)
    _, view = expect.quantized(bench, case, target)
    assert list(view.nodes["resize"].input)[1:] == inputs[1:]


def test_lstm_with_empty_names(bench, target):
    """It stays float, weights and all; the products before and behind it do not."""
    g = Graph()
    x = g.matmul(g.input("X", [4, 1, 8]), "m1", 8, 8, "mm1")
    start = g.const("h0", np.zeros((1, 1, 16), np.float32))
    inputs = [x, g.weight("W", 1, 64, 8), g.weight("R", 1, 64, 16), "", "", start]
    g.node("LSTM", inputs, ["l", "", ""], "lstm", hidden_size=16)
    s = g.node("Squeeze", ["l", g.const("axis", np.array([1]))], "s", "squeeze")
    g.matmul(s, "Y", 16, 8, "mm2")
    g.output("Y", [4, 1, 8])
    case = models.Case(g.build(), {"X": noise(32, 1, 8)}, {"mm1": BOTH, "mm2": BOTH})
    _, view = expect.quantized(bench, case, target)
    assert {"W", "R"} <= set(view.initializers)


def test_clip_with_one_bound(bench, target):
    """No lower bound: the missing input stays missing."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv1")
    c = g.node("Clip", [c, "", g.const("six", np.float32(6))], "k", "clip")
    g.conv(c, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 6, 6])
    edges = {"conv1": BOTH, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges)
    _, view = expect.quantized(bench, case, target)
    assert list(view.nodes["clip"].input)[1:] == ["", "six"]


# Concat: microsoft/onnxruntime #11277


def test_concat_of_one(bench, target):
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv")
    g.node("Relu", [g.node("Concat", [c], "k", "concat", axis=1)], "Y", "relu")
    g.output("Y", [1, 8, 6, 6])
    edges = {"conv": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges, {**edges, "concat": {0}})
    expect.quantized(bench, case, target)


def test_concat_of_ranges_1_and_100(bench, target):
    """Each input keeps a scale of its own: with one for both the small one would lose seven bits."""
    g = Graph()
    x = g.input("X", [1, 4, 6, 6])
    a = g.conv(x, "a", 4, 4, name="conv_a")
    b = g.conv(x, "b", 4, 4, name="conv_b")
    g.initializers[2].CopyFrom(
        onnx.numpy_helper.from_array(
            onnx.numpy_helper.to_array(g.initializers[2]) * 100, g.initializers[2].name
        )
    )
    k = g.node("Concat", [a, b], "k", "concat", axis=1)
    g.conv(k, "Y", 8, 4, name="conv")
    g.conv(a, "Z", 4, 4, name="conv_z")
    g.conv(b, "V", 4, 4, name="conv_v")
    for name in ("Y", "Z", "V"):
        g.output(name, [1, 4, 6, 6])
    edges = {n: BOTH for n in ("conv_a", "conv_b", "conv", "conv_z", "conv_v")}
    data = {"X": noise(8, 4, 6, 6)}
    case = models.Case(g.build(), data, edges, {**edges, "concat": BOTH})
    _, view = expect.quantized(bench, case, target)
    small, large = (float(view.params(n, 0).scale) for n in ("conv_z", "conv_v"))
    assert large > 30 * small


# Local functions: microsoft/onnxruntime #28716


def linear_function():
    body = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Add", ["m", "b"], ["y"], name="bias"),
    ]
    return helper.make_function(
        "my.fn", "Linear", ["x", "w", "b"], ["y"], body, [helper.make_opsetid("", 17)]
    )


def square_function():
    body = [helper.make_node("Mul", ["x", "x"], ["y"], name="square")]
    return helper.make_function(
        "my.fn", "Square", ["x"], ["y"], body, [helper.make_opsetid("", 17)]
    )


def test_functions_with_products_are_inlined_and_others_kept(bench, target):
    """Two calls of one function have ranges of their own."""
    g = Graph(my_dot_fn=1)
    x = g.input("X", [4, 8])
    x = g.node("Linear", [x, g.weight("w1", 8, 8), g.weight("b1", 8)], "l1", "first", "my.fn")
    x = g.node("Square", [g.node("Relu", [x], "r", "relu")], "q", "square", "my.fn")
    x = g.node("Linear", [x, g.weight("w2", 8, 16), g.weight("b2", 16)], "l2", "second", "my.fn")
    g.matmul(x, "Y", 16, 8, "mm")
    g.output("Y", [4, 8])
    model = g.build(functions=[linear_function(), square_function()])
    case = models.Case(model, {"X": noise(32, 8)})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    products = {n for n in view.edges() if view.nodes[n].op_type == "MatMul"}
    assert products == {"first/product", "second/product", "mm"}
    assert {view.edges()[n] == BOTH for n in products} == {True}
    assert [f.name for f in run.model.functions] == ["Square"]
    assert view.nodes["square"] == qdq.View(model).nodes["square"]
    assert view.params("first/product", 0).scale != view.params("second/product", 0).scale
    expect.weight_is_int8(view, "second/product", 1, qdq.View(model).value("w2"), 1)
    harness.assert_quality(case, run.model, 20)  # squares double relative errors


def test_a_function_with_its_own_weights(bench, target):
    """In Constant nodes of its body; two calls, one int8 copy each, and both right."""
    w = noise(8, 8, seed=6, scale=0.3)
    body = [
        helper.make_node("Constant", [], ["wt"], value=onnx.numpy_helper.from_array(w.T.copy())),
        helper.make_node("Transpose", ["wt"], ["w"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
    ]
    function = helper.make_function(
        "my.fn", "Dense", ["x"], ["y"], body, [helper.make_opsetid("", 17)]
    )
    g = Graph(my_dot_fn=1)
    x = g.node("Dense", [g.input("X", [4, 8])], "d1", "first", "my.fn")
    x = g.node("Tanh", [x], "t", "tanh")
    g.node("Dense", [x], "Y", "second", "my.fn")
    g.output("Y", [4, 8])
    case = models.Case(g.build(functions=[function]), {"X": noise(32, 8)})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == {"first/product": BOTH, "second/product": BOTH}
    for name in view.edges():
        expect.weight_is_int8(view, name, 1, w, 1)
    assert not run.model.functions
    harness.assert_quality(case, run.model)


def test_an_excluded_call_is_kept(bench, target):
    """Patterns speak of the original names, so of the call."""
    g = Graph(my_dot_fn=1)
    x = g.input("X", [4, 8])
    x = g.node("Linear", [x, g.weight("w1", 8, 8), g.weight("b1", 8)], "l1", "first", "my.fn")
    g.matmul(x, "Y", 8, 8, "mm")
    g.output("Y", [4, 8])
    model = g.build(functions=[linear_function()])
    case = models.Case(model, {"X": noise(32, 8)}, {"mm": BOTH})
    run, view = expect.quantized(bench, case, target, "--exclude-nodes", "first")
    assert run.model.functions == model.functions
    assert list(view.nodes["first"].input) == ["X", "w1", "b1"]


# BatchNormalization: microsoft/onnxruntime #9938 and #14270, NVIDIA/TensorRT #3104


def norm(g, x, output, channels, name="bn", **attributes):
    rng = np.random.default_rng(9)
    values = {
        "gamma": rng.uniform(0.5, 2, channels),
        "beta": rng.standard_normal(channels),
        "mean": rng.standard_normal(channels),
        "var": rng.uniform(0.5, 2, channels),
    }
    parameters = [g.const(f"{name}.{k}", v.astype(np.float32)) for k, v in values.items()]
    return g.node("BatchNormalization", [x, *parameters], output, name, **attributes)


FOLDED = {
    "conv": ("Conv", 1, False),
    "conv with bias": ("Conv", 1, True),
    "grouped conv": ("Conv", 2, True),
    "transposed": ("ConvTranspose", 1, False),
    "grouped transposed": ("ConvTranspose", 2, True),
}


@pytest.mark.parametrize("form", FOLDED)
def test_norm_behind_a_convolution_is_folded(bench, target, form):
    """A bias comes into being, the norm is gone, and no pair stands inside the group."""
    op, group, bias = FOLDED[form]
    g = Graph()
    shape = (8, 4 // group, 3, 3) if op == "Conv" else (4, 8 // group, 3, 3)
    inputs = [g.input("X", [1, 4, 6, 6]), g.weight("w1", *shape)]
    inputs += [g.weight("b1", 8)] if bias else []
    c = g.node(op, inputs, "c", "conv1", group=group, pads=[1] * 4)
    r = g.node("Relu", [norm(g, c, "n", 8)], "r", "relu")
    g.conv(r, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 6, 6])
    edges = {"conv1": BOTH, "conv2": BOTH} if op == "Conv" else {"conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges)
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == edges
    types = [n.op_type for n in view.graph.node if not qdq.is_pair(n)]
    assert types == [op, "Relu", "Conv"]
    assert len(view.nodes["conv1"].input) == 3
    if op == "Conv":
        assert view.bias("conv1") == ("int32" if target == "onnxruntime" else "float")
    assert view.params("conv2", 0).source == "r"
    harness.assert_quality(case, run.model)


def test_norm_in_front_of_a_padded_convolution_stays(bench, target):
    """The padding is zero behind the norm, not before it."""
    g = Graph()
    n = norm(g, g.input("X", [1, 4, 6, 6]), "n", 4)
    g.conv(g.node("Relu", [n], "r", "relu"), "Y", 4, 8, name="conv")
    g.output("Y", [1, 8, 6, 6])
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, {"conv": BOTH})
    expect.quantized(bench, case, target)


def test_norm_that_cannot_be_folded_stays(bench, target):
    """The convolution's result is read elsewhere too."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv")
    g.node("Add", [norm(g, c, "n", 8), c], "Y", "add")
    g.output("Y", [1, 8, 6, 6])
    tensorrt = {"conv": BOTH}
    case = models.Case(
        g.build(), {"X": noise(8, 4, 6, 6)}, tensorrt, {"conv": BOTH, "bn": {0}, "add": {1}}
    )
    expect.quantized(bench, case, target, at_least=25)


def test_norm_in_training_form_stays(bench, target):
    """It normalizes by the batch, and returns running statistics."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv")
    norm(g, c, ["Y", "mean", "var"], 8, training_mode=1)
    g.output("Y", [1, 8, 6, 6])
    g.output("mean", [8])
    case = models.Case(
        g.build(), {"X": noise(8, 4, 6, 6)}, {"conv": BOTH}, {"conv": BOTH, "bn": {0}}
    )
    run = bench.quantize(case, target=target).ok()
    assert expect.valid(run, case).edges() == case.edges(target)
    qdq.assert_rest_unchanged(case.model, run.model)
    harness.assert_quality(case, run.model)


def test_an_excluded_norm_is_not_folded(bench, target):
    case = models.conv_bn_relu()
    run = bench.quantize(case, "--exclude-nodes", r"conv1\.bn", target=target).ok()
    nodes = [n.name for n in run.model.graph.node if n.op_type == "BatchNormalization"]
    assert nodes == ["conv1.bn"]
    harness.assert_quality(case, run.model)


# Identity and Dropout


@pytest.mark.parametrize("op", ["Identity", "Dropout"])
def test_looked_through(bench, target, op):
    """Between a convolution and its Relu, and in front of the next convolution; both stay."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="conv1")
    r = g.node("Relu", [c], "r", "relu")
    g.conv(g.node(op, [r], "d", "through"), "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 6, 6])
    edges = {"conv1": BOTH, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges, {**edges, "through": {0}})
    expect.quantized(bench, case, target)


# Custom operators of mixed types: NVIDIA/Model-Optimizer pull request #363


@pytest.mark.parametrize("form", ["both outputs", "no second output", "empty input"])
def test_custom_operator_with_outputs_of_two_types(bench, target, form):
    """Float and int32; the float one is quantized for its reader, the integer one is not touched,
    and empty names stay empty."""
    g = Graph(my_dot_top=1)
    x = g.matmul(g.input("X", [2, 16]), "m1", 16, 16, "mm1")
    inputs = [x, "", g.const("gain", np.float32([1.5]))] if form == "empty input" else [x]
    outputs = ["v", ""] if form == "no second output" else ["v", "idx"]
    g.node("TopIdx", inputs, outputs, "top", "my.top")
    g.matmul("v", "Y", 4, 8, "mm2")
    g.output("Y", [2, 8])
    if form != "no second output":
        g.node("Gather", [g.weight("table", 16, 8), "idx"], "E", "gather")
        g.output("E", [2, 4, 8])
        g.output("idx", [2, 4], INT64)
    libs = ("topidx",)
    case = models.Case(g.build(), {"X": noise(16, 16)}, {"mm1": BOTH, "mm2": BOTH}, libs=libs)
    case.data["X"] = np.eye(16, dtype=np.float32)[::-1] * 9  # the order survives rounding
    run = bench.quantize(case, target=target).ok()
    view = qdq.View(run.model)
    assert view.edges() == case.edges(target)
    assert view.params("mm2", 0).source == "v"
    qdq.assert_rest_unchanged(case.model, run.model)
    qdq.assert_well_formed(run.model)
    info = {v.name: v.type.tensor_type.elem_type for v in run.model.graph.value_info}
    assert info["v"] == FLOAT
