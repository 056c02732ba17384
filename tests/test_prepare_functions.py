"""Preparing a model: calls of local functions that are inlined, and those that stay."""

import numpy as np
import onnx
import pytest
from models import FLOAT, Graph, noise
from onnx import TensorProto, helper
from preparation import (
    assert_same,
    assert_unchanged,
    call,
    function,
    if_node,
    linear,
    linear_graph,
    outputs,
    prepare,
    refused,
    with_functions,
)


def test_a_function_with_a_matrix_product_is_inlined(tmp_path):
    """microsoft/onnxruntime #28716."""
    model = with_functions(linear_graph(n=2), linear())
    prepared = prepare(model, tmp_path)
    assert [n.name for n in prepared.model.graph.node] == [
        "/fc0/mm",
        "/fc0/add",
        "/fc1/mm",
        "/fc1/add",
        "relu",
    ]
    assert prepared.origins == {
        "/fc0/mm": "/fc0",
        "/fc0/add": "/fc0",
        "/fc1/mm": "/fc1",
        "/fc1/add": "/fc1",
        "relu": "relu",
    }
    assert list(prepared.node("/fc1/add").output) == ["l1"]
    assert not prepared.model.functions
    assert prepared.noted("2 calls", "my.fn::Linear")
    assert_unchanged(model, prepared, "/fc0", "/fc1", *list(prepared.origins)[:4])
    assert_same(model, prepared.model)


def test_a_function_without_one_is_kept(tmp_path):
    twice = function("Twice", ["x"], ["y"], [helper.make_node("Add", ["x", "x"], ["y"], "add")])
    g = Graph(my_dot_fn=1)
    x = call(g, "Twice", [g.input("X", [1, 3, 6, 6])], "t", "twice")
    g.conv(x, "Y", 3, 4, name="conv")
    g.output("Y", [1, 4, 6, 6])
    model = with_functions(g, twice)
    prepared = prepare(model, tmp_path)
    assert prepared.model == model


def test_an_excluded_call_is_kept(tmp_path):
    model = with_functions(linear_graph(n=2), linear())
    prepared = prepare(model, tmp_path, "--exclude", "/fc0")
    assert prepared.types() == ["Linear", "MatMul", "Add", "Relu"]
    assert [f.name for f in prepared.model.functions] == ["Linear"]
    assert_same(model, prepared.model)


def test_functions_inside_functions(tmp_path):
    """Only the outer one is called by the graph; the helper that holds nothing stays a call."""
    act = function("Act", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"], "relu")])
    block = function(
        "Block",
        ["x", "w", "b"],
        ["y"],
        [
            helper.make_node("Linear", ["x", "w", "b"], ["t"], "fc", domain="my.fn"),
            helper.make_node("Act", ["t"], ["u"], "act", domain="my.fn"),
            helper.make_node("Linear", ["u", "w", "b"], ["y"], "fc2", domain="my.fn"),
        ],
    )
    g = Graph(my_dot_fn=1)
    call(g, "Block", [g.input("X", [4, 8]), g.weight("w", 8, 8), g.weight("b", 8)], "Y", "blk")
    g.output("Y", [4, 8])
    model = with_functions(g, act, linear(), block)
    prepared = prepare(model, tmp_path)
    assert [n.name for n in prepared.model.graph.node] == [
        "blk/fc/mm",
        "blk/fc/add",
        "blk/act",
        "blk/fc2/mm",
        "blk/fc2/add",
    ]
    assert set(prepared.origins.values()) == {"blk"}
    assert [f.name for f in prepared.model.functions] == ["Act"]
    assert_same(model, prepared.model)


def ref(node, name, kind, wanted=None):
    attribute = onnx.AttributeProto(name=name, type=kind, ref_attr_name=wanted or name)
    node.attribute.append(attribute)
    return node


INT, INTS, FLOATS = (
    onnx.AttributeProto.INT,
    onnx.AttributeProto.INTS,
    onnx.AttributeProto.FLOAT,
)


@pytest.mark.parametrize("given", [{}, {"pads": [1, 1, 1, 1]}, {"alpha": 0.3}])
def test_attributes_come_from_the_call_the_defaults_or_not_at_all(tmp_path, given):
    conv = helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[3, 3])
    ref(conv, "pads", INTS)  # no default: Conv's own is no padding
    ref(conv, "strides", INTS, "step")
    leaky = ref(helper.make_node("LeakyRelu", ["c"], ["y"], "leaky"), "alpha", FLOATS)
    f = function(
        "ConvLeaky",
        ["x", "w"],
        ["y"],
        [conv, leaky],
        ["pads"],
        [helper.make_attribute("step", [2, 2]), helper.make_attribute("alpha", 0.7)],
    )
    g = Graph(my_dot_fn=1)
    call(g, "ConvLeaky", [g.input("X", [1, 3, 7, 7]), g.weight("w", 4, 3, 3, 3)], "Y", "f", **given)
    g.output("Y", [1, 4, None, None])
    model = with_functions(g, f)
    prepared = prepare(model, tmp_path)
    got = {a.name: helper.get_attribute_value(a) for a in prepared.node("f/conv").attribute}
    wanted = {"kernel_shape": [3, 3], "strides": [2, 2]}
    if "pads" in given:
        wanted["pads"] = given["pads"]
    assert got == wanted
    (alpha,) = prepared.node("f/leaky").attribute
    assert alpha.f == pytest.approx(given.get("alpha", 0.7)) and not alpha.ref_attr_name
    assert_same(model, prepared.model)


def test_optional_inputs_and_outputs_that_a_call_leaves_out(tmp_path):
    f = function(
        "Conv2",
        ["x", "w", "b"],
        ["y", "copy", "same"],
        [
            helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv"),
            helper.make_node("Neg", ["y"], ["copy"], "neg"),
            helper.make_node("Abs", ["y"], ["same"], "abs"),
        ],
    )
    g = Graph(my_dot_fn=1)
    x, w, b = g.input("X", [1, 3, 6, 6]), g.weight("w", 3, 3, 1, 1), g.weight("b", 3)
    call(g, "Conv2", [x, w], ["p", "", ""], "none")
    call(g, "Conv2", ["p", w, ""], ["q", "", "r"], "empty")
    call(g, "Conv2", ["q", w, b], ["Y", "Z", ""], "all")
    for name in "YZr":
        g.output(name, [1, 3, 6, 6])
    model = with_functions(g, f)
    prepared = prepare(model, tmp_path)
    assert list(prepared.node("none/conv").input) == ["X", "w", ""]
    assert list(prepared.node("empty/abs").output) == ["r"]
    assert list(prepared.node("empty/neg").output) == ["empty/copy"]
    assert_same(model, prepared.model)


def test_a_function_that_returns_an_input_or_a_result_twice(tmp_path):
    f = function(
        "Pass",
        ["x", "w"],
        ["y", "x", "y"],
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")],
    )
    g = Graph(my_dot_fn=1)
    call(g, "Pass", [g.input("X", [4, 8]), g.weight("w", 8, 8)], ["A", "B", "C"], "f")
    for name in "ABC":
        g.output(name, [4, 8])
    model = g.build(functions=[f])
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul", "Identity", "Identity"]
    X = noise(4, 8)
    got = outputs(prepared.model, {"X": X})
    assert np.array_equal(got["B"], X) and np.array_equal(got["A"], got["C"])


def test_inner_names_never_collide(tmp_path):
    """Unnamed calls, names that are taken, and names that only a body of the model uses."""
    g = linear_graph(n=1)
    g.nodes[0].name = ""
    g.node("Neg", ["X"], "Linear/t", "Linear/mm")
    g.output("Linear/t", [4, 8])
    model = with_functions(g, linear())
    prepared = prepare(model, tmp_path)
    names = [n.name for n in prepared.nodes()]
    tensors = [o for n in prepared.nodes() for o in n.output]
    assert len(set(names)) == len(names) and len(set(tensors)) == len(tensors)
    assert_same(model, prepared.model)


def test_calls_inside_bodies_and_bodies_inside_functions(tmp_path):
    """The function's own branches read its inputs, its results and an attribute of the call."""
    f = function(
        "Choose",
        ["x", "w", "c"],
        ["y"],
        [
            helper.make_node("MatMul", ["x", "w"], ["t"], "mm"),
            if_node(
                "c",
                ref(helper.make_node("LeakyRelu", ["t"], ["u"], "leaky"), "alpha", FLOATS),
                helper.make_node("MatMul", ["t", "w"], ["u2"], "again"),
                "y",
                "if",
            ),
        ],
        ["alpha"],
    )
    g = Graph(my_dot_fn=1)
    x, c = g.input("X", [4, 8]), g.input("c", [], TensorProto.BOOL)
    w = g.weight("w", 8, 8)
    inner = helper.make_node("Choose", [x, w, c], ["v"], "call", domain="my.fn", alpha=0.2)
    g.nodes.append(if_node(c, inner, helper.make_node("Neg", [x], ["v2"], "neg"), "a", "outer"))
    call(g, "Choose", ["a", w, c], "Y", "direct", alpha=0.4)
    g.output("Y", [4, 8])
    model = g.build(functions=[f])
    prepared = prepare(model, tmp_path)
    assert not prepared.model.functions
    assert {"call/mm", "call/if", "call/again", "direct/mm", "direct/leaky"} <= set(
        prepared.origins
    )
    assert prepared.origins["call/again"] == "call"
    tensors = [o for n in prepared.nodes() for o in n.output]
    assert len(set(tensors)) == len(tensors)
    for flag in (False, True):
        assert_same(model, prepared.model, feeds={"X": noise(4, 8), "c": np.array(flag)})


def test_overloads_are_different_functions(tmp_path):
    def version(overload, op):
        return function(
            "F",
            ["x", "w"],
            ["y"],
            [
                helper.make_node("MatMul", ["x", "w"], ["t"], "mm"),
                helper.make_node(op, ["t"], ["y"], "act"),
            ],
            overload=overload,
        )

    g = Graph(my_dot_fn=1, ir=10)
    x, w = g.input("X", [4, 8]), g.weight("w", 8, 8)
    g.nodes.append(helper.make_node("F", [x, w], ["a"], "one", domain="my.fn", overload="o1"))
    g.nodes.append(helper.make_node("F", ["a", w], ["Y"], "two", domain="my.fn", overload="o2"))
    g.output("Y", [4, 8])
    model = g.build(functions=[version("o1", "Relu"), version("o2", "Tanh")])
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul", "Relu", "MatMul", "Tanh"]
    assert not prepared.model.functions


def test_descriptions_of_inner_tensors_are_kept(tmp_path):
    f = linear()
    f.value_info.append(helper.make_tensor_value_info("t", FLOAT, [4, 8]))
    f.value_info.append(helper.make_tensor_value_info("y", FLOAT, [4, 8]))
    model = linear_graph(n=1)
    model.ir = 10
    prepared = prepare(with_functions(model, f), tmp_path)
    assert [v.name for v in prepared.model.graph.value_info] == ["/fc0/t"]


def test_a_body_of_an_older_opset_is_converted(tmp_path):
    """Squeeze takes its axes as an attribute before opset 13."""
    f = function(
        "Sq",
        ["x", "w"],
        ["y"],
        [
            helper.make_node("MatMul", ["x", "w"], ["t"], "mm"),
            helper.make_node("Squeeze", ["t"], ["y"], "sq", axes=[0]),
        ],
        opset=11,
    )
    g = Graph(my_dot_fn=1)
    call(g, "Sq", [g.input("X", [1, 4, 8]), g.weight("w", 8, 8)], "Y", "f")
    g.output("Y", [4, 8])
    prepared = prepare(g.build(functions=[f]), tmp_path)
    assert "MatMul" in prepared.types() and not prepared.model.functions
    feeds = {"X": noise(1, 4, 8)}
    w = prepared.initializers()["w"]
    assert np.allclose(outputs(prepared.model, feeds)["Y"], feeds["X"][0] @ w, atol=1e-5)


def test_a_body_of_a_newer_opset_stays(tmp_path):
    model = with_functions(linear_graph(opset=15), linear(opset=17))
    prepared = prepare(model, tmp_path)
    assert prepared.noted("my.fn::Linear", "15", "17")
    assert prepared.model == model


def test_what_a_library_implements_stays_a_call(tmp_path):
    """The function is a fallback for runtimes without the library."""
    f = function(
        "ScaleBy2",
        ["x"],
        ["y"],
        [
            helper.make_node("Constant", [], ["two"], "two", value_floats=[2.0] * 64),
            helper.make_node("Constant", [], ["shape"], "shape", value_ints=[8, 8]),
            helper.make_node("Reshape", ["two", "shape"], ["w"], "reshape"),
            helper.make_node("MatMul", ["x", "w"], ["y"], "mm"),
        ],
        domain="my.ops",
    )
    g = Graph(my_dot_ops=1)
    call(g, "ScaleBy2", [g.input("X", [4, 8])], "a", "f", domain="my.ops")
    g.matmul("a", "Y", 8, 8, "mm")
    g.output("Y", [4, 8])
    model = g.build(functions=[f])
    prepared = prepare(model, tmp_path, libs=["scaleby2"])
    assert prepared.types() == ["ScaleBy2", "MatMul"]
    assert prepared.noted("my.ops::ScaleBy2", "library")
    assert prepare(model, tmp_path).types() == ["MatMul", "MatMul"]


def test_functions_that_nothing_calls_stay(tmp_path):
    spare = function("Spare", ["x", "w"], ["y"], [helper.make_node("MatMul", ["x", "w"], ["y"])])
    model = with_functions(linear_graph(), linear(), spare)
    prepared = prepare(model, tmp_path)
    assert [f.name for f in prepared.model.functions] == ["Spare"]
    assert_same(model, prepared.model)


def test_a_function_that_calls_itself_is_an_error(tmp_path):
    f = function("F", ["x"], ["y"], [helper.make_node("F", ["x"], ["y"], domain="my.fn")])
    g = Graph(my_dot_fn=1)
    call(g, "F", [g.input("X", [4, 8])], "Y", "f")
    g.output("Y", [4, 8])
    assert "calls itself" in refused(g.build(functions=[f]), tmp_path)


def test_bodies_that_multiply_without_end_are_an_error(tmp_path):
    functions = [linear()]
    for k in range(30):
        callee = "Linear" if k == 0 else f"F{k - 1}"
        functions.append(
            function(
                f"F{k}",
                ["x", "w", "b"],
                ["y"],
                [
                    helper.make_node(callee, ["x", "w", "b"], ["t"], domain="my.fn"),
                    helper.make_node(callee, ["t", "w", "b"], ["y"], domain="my.fn"),
                ],
            )
        )
    g = linear_graph(n=1)
    g.nodes[0].op_type = "F29"
    assert "more than" in refused(g.build(functions=functions), tmp_path)
