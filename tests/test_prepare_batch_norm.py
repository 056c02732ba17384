"""Preparing a model: BatchNormalization is folded into the convolution before it, or stays."""

import numpy as np
import pytest
from models import FLOAT, Graph, noise
from onnx import TensorProto, helper, numpy_helper
from preparation import assert_same, assert_unchanged, constant, if_node, prepare


def norm(g, x, output, n, name="bn", dtype=np.float32, **attributes):
    rng = np.random.default_rng(n)
    values = {
        "scale": rng.uniform(0.5, 2, n),
        "B": rng.standard_normal(n),
        "mean": rng.standard_normal(n),
        "var": rng.uniform(0.1, 4, n),
    }
    inputs = [x] + [g.const(f"{name}.{k}", v.astype(dtype)) for k, v in values.items()]
    return g.node("BatchNormalization", inputs, output, name, **attributes)


def conv_norm(op="Conv", group=1, bias=True, dtype=np.float32, relu=True, **attributes):
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    g = Graph()
    x = g.input("X", [1, 4, 6, 6], onnx_type)
    shape = (8, 4 // group, 3, 3) if op == "Conv" else (4, 8 // group, 3, 3)
    inputs = [x, g.const("w", (noise(*shape) * 0.3).astype(dtype))]
    if bias:
        inputs.append(g.const("b", noise(8).astype(dtype)))
    g.node(op, inputs, "c", "conv", group=group, pads=[1] * 4)
    y = norm(g, "c", "n" if relu else "Y", 8, dtype=dtype, **attributes)
    if relu:
        g.node("Relu", [y], "Y", "relu")
    g.output("Y", [1, 8, 6, 6], onnx_type)
    return g


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_is_folded(tmp_path, op, group, bias):
    """microsoft/onnxruntime #9938 and #14270."""
    model = conv_norm(op, group, bias, epsilon=0.01).build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == [op, "Relu"]
    assert list(prepared.node("conv").output) == ["n"]
    assert prepared.origins == {"conv": "conv", "relu": "relu"}
    assert set(prepared.initializers()) == ({"w", "b"} if bias else {"w", "conv_bias"})
    assert prepared.noted("1 BatchNormalization")
    assert_unchanged(model, prepared, "conv", "bn")
    assert_same(model, prepared.model, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_arithmetic_is_double_rounded_once(tmp_path, dtype):
    """The runtime has no kernel for a convolution of doubles to compare with."""
    model = conv_norm(epsilon=0.01, dtype=dtype).build()
    old = {i.name: numpy_helper.to_array(i).astype(np.float64) for i in model.graph.initializer}
    prepared = prepare(model, tmp_path)
    new = prepared.initializers()
    factor = old["bn.scale"] / np.sqrt(old["bn.var"] + np.float64(np.float32(0.01)))
    weight = old["w"] * factor[:, None, None, None]
    bias = (old["b"] - old["bn.mean"]) * factor + old["bn.B"]
    assert set(new) == {"w", "b"} and {a.dtype for a in new.values()} == {np.dtype(dtype)}
    assert np.array_equal(new["w"], weight.astype(dtype))
    assert np.array_equal(new["b"], bias.astype(dtype))
    if dtype == np.float16:
        assert_same(model, prepared.model, rtol=4e-3)


def test_one_norm_behind_another(tmp_path):
    g = conv_norm(relu=False)
    g.nodes[-1].output[0] = "n"
    norm(g, "n", "Y", 8, "bn2")
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv"]
    assert prepared.noted("2 BatchNormalization")
    assert_same(model, prepared.model, rtol=1e-5)


def test_a_shared_weight_gets_a_copy_of_its_own(tmp_path):
    g = Graph()
    x = g.input("X", [1, 4, 6, 6])
    w, b = g.weight("w", 8, 4, 1, 1), g.weight("b", 8)
    for k in range(3):
        c = g.node("Conv", [x, w, b], f"c{k}", f"conv{k}")
        if k < 2:
            norm(g, c, f"n{k}", 8, f"bn{k}")
        g.output(f"n{k}" if k < 2 else c, [1, 8, 6, 6])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv"] * 3
    assert len(prepared.initializers()) == 6
    assert list(prepared.node("conv2").input) == ["X", "w", "b"]
    assert_same(model, prepared.model, rtol=1e-5)


def test_weights_shared_by_folded_convolutions_only(tmp_path):
    g = Graph()
    x = g.input("X", [1, 4, 6, 6])
    w = g.weight("w", 8, 4, 1, 1)
    for k in range(2):
        norm(g, g.node("Conv", [x, w], f"c{k}", f"conv{k}"), f"n{k}", 8, f"bn{k}")
        g.output(f"n{k}", [1, 8, 6, 6])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert len(prepared.initializers()) == 4 and "w" in prepared.initializers()
    assert_same(model, prepared.model, rtol=1e-5)


def keep(change):
    """A model made by conv_norm, changed so that its norm must stay."""
    g = conv_norm()
    conv, bn = g.nodes[0], g.nodes[1]
    args, libs = (), ()
    if change == "read elsewhere":
        g.node("Neg", ["c"], "Z", "neg")
        g.output("Z", [1, 8, 6, 6])
    elif change == "an output":
        g.output("c", [1, 8, 6, 6])
    elif change == "captured":
        g.input("f", [], TensorProto.BOOL)
        g.nodes.append(
            if_node(
                "f",
                helper.make_node("Neg", ["c"], ["u"], "neg"),
                helper.make_node("Abs", ["c"], ["v"], "abs"),
                "Z",
                "if",
                [1, 8, 6, 6],
            )
        )
        g.output("Z", [1, 8, 6, 6])
    elif change == "weight computed":
        conv.input[1] = g.node("Mul", [g.input("k", []), "w"], "kw", "mul")
        g.nodes.insert(0, g.nodes.pop())
    elif change == "weight foreign":
        g.domains["my.ops"] = 1
        libs = ["scaleby2"]
        conv.input[1] = g.node("ScaleBy2", ["w"], "sw", "scale", "my.ops")
        g.nodes.insert(0, g.nodes.pop())
    elif change == "parameter computed":
        bn.input[2] = g.node("Neg", [g.input("k", [8])], "nk", "neg")
        g.nodes.insert(0, g.nodes.pop())
    elif change == "training":
        bn.attribute.append(helper.make_attribute("training_mode", 1))
        bn.output.extend(["m2", "v2"])
    elif change == "norm excluded":
        args = ("--exclude", "bn")
    elif change == "convolution excluded":
        args = ("--exclude", "conv")
    elif change == "not representable":
        for i in g.initializers:
            if i.name == "bn.scale":
                i.CopyFrom(numpy_helper.from_array(np.full(8, 3e38, np.float32), i.name))
    elif change == "variance below zero":
        for i in g.initializers:
            if i.name == "bn.var":
                i.CopyFrom(numpy_helper.from_array(np.full(8, -1, np.float32), i.name))
    return g.build(), args, libs


@pytest.mark.parametrize(
    "change",
    [
        "read elsewhere",
        "an output",
        "captured",
        "weight computed",
        "weight foreign",
        "parameter computed",
        "training",
        "norm excluded",
        "convolution excluded",
        "not representable",
        "variance below zero",
    ],
)
def test_batch_norm_stays(tmp_path, change):
    model, args, libs = keep(change)
    prepared = prepare(model, tmp_path, *args, libs=libs)
    assert prepared.model == model


def test_batch_norm_before_a_convolution_stays(tmp_path):
    """Padding comes after the norm: it cannot be folded."""
    g = Graph()
    n = norm(g, g.input("X", [1, 4, 6, 6]), "n", 4)
    g.conv(n, "Y", 4, 8, name="conv")
    g.output("Y", [1, 8, 6, 6])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_batch_norm_in_another_scope_stays(tmp_path):
    g = Graph()
    x, f = g.input("X", [1, 4, 6, 6]), g.input("f", [], TensorProto.BOOL)
    c = g.conv(x, "c", 4, 8, name="conv")
    norm(g, c, "n", 8)
    bn = g.nodes.pop()
    other = helper.make_node("Identity", ["zero"], ["e"], "zero")
    g.const("zero", np.zeros((1, 8, 6, 6), np.float32))
    g.nodes.append(if_node(f, bn, other, "Y", "if", [1, 8, 6, 6]))
    g.output("Y", [1, 8, 6, 6])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_batch_norm_inside_a_body_is_folded(tmp_path):
    g = conv_norm(relu=False)
    conv, bn = g.nodes
    del g.nodes[:]
    value = helper.make_tensor_value_info("Y0", FLOAT, None)
    bn.output[0] = "Y0"
    then = helper.make_graph([conv, bn], "then", [], [value])
    other = helper.make_graph(
        [helper.make_node("Concat", ["X", "X"], ["Y1"], "cat", axis=1)],
        "else",
        [],
        [helper.make_tensor_value_info("Y1", FLOAT, None)],
    )
    f = g.input("f", [], TensorProto.BOOL)
    g.node("If", [f], "Y", "if", then_branch=then, else_branch=other)
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert [n.op_type for n in prepared.nodes()] == ["If", "Concat", "Conv"]
    feeds = {"X": noise(1, 4, 6, 6), "f": np.array(True)}
    assert_same(model, prepared.model, rtol=1e-5, feeds=feeds)


def test_norm_with_computed_constants_behind_it(tmp_path):
    """Constants first, then the fold: variance from a Constant node and a Reciprocal."""
    g = conv_norm()
    inverse = numpy_helper.from_array(np.linspace(0.5, 2, 8, dtype=np.float32))
    g.nodes[:0] = [
        constant("inverse", value=inverse),
        helper.make_node("Reciprocal", ["inverse"], ["variance"], "reciprocal"),
    ]
    g.nodes[3].input[4] = "variance"
    g.initializers = [i for i in g.initializers if i.name != "bn.var"]
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv", "Relu"]
    assert set(prepared.initializers()) == {"w", "b"}
    assert_same(model, prepared.model, rtol=1e-5)


@pytest.mark.parametrize("opset", [7, 8, 9, 13, 14, 15])
def test_batch_norm_of_every_version(tmp_path, opset):
    g = conv_norm()
    g.opset = opset
    model = g.build()
    assert prepare(model, tmp_path).types() == ["Conv", "Relu"]


def test_norm_of_constants_behind_nodes(tmp_path):
    """What Constant and Identity held goes with them."""
    g = conv_norm()
    weight, scale = (i for i in g.initializers if i.name in ("w", "bn.scale"))
    g.initializers = [i for i in g.initializers if i.name not in ("w", "bn.scale")]
    weight.name = "w0"
    g.initializers.append(weight)
    g.nodes[:0] = [
        helper.make_node("Identity", ["w0"], ["w"], "identity"),
        constant("bn.scale", value=scale),
    ]
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv", "Relu"]
    assert set(prepared.initializers()) == {"w", "b"}
    assert_same(model, prepared.model, rtol=1e-5)


def test_a_weight_that_is_an_output_too(tmp_path):
    g = conv_norm()
    g.output("w", [8, 4, 3, 3])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert set(prepared.initializers()) == {"w", "w_1", "b"}
    assert_same(model, prepared.model, rtol=1e-5)


def test_a_description_of_the_lost_tensor_goes(tmp_path):
    model = conv_norm().build()
    for name in ("c", "n"):
        model.graph.value_info.append(helper.make_tensor_value_info(name, FLOAT, [1, 8, 6, 6]))
    assert [v.name for v in prepare(model, tmp_path).model.graph.value_info] == ["n"]
