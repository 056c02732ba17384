"""Opset conversion in bodies of control flow and in local functions."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from opset_cases import IMAGE, X
from opsets import (
    Case,
    assert_converts,
    assert_equal,
    convert,
    default_opset,
    f32,
    floats,
    ints,
    make_model,
    place_in_function,
    place_in_if,
    run,
    scan_8,
)

PLACED = [
    Case("Clip", 9, {"min": -0.5, "max": 0.25}, (X,)),
    Case("Squeeze", 11, {"axes": [0]}, (floats(1, 3),)),
    Case("Softmax", 11, {"axis": 1}, (X,)),
    Case("Split", 11, {"axis": 3, "split": [1, 4]}, (X,), outputs=2),
    Case("Slice", 9, {"starts": [1], "ends": [2], "axes": [1]}, (X,)),
    Case("Upsample", 9, {}, (IMAGE, f32(1, 1, 2, 2)), const=(1,)),
    Case("Resize", 10, {}, (IMAGE, f32(1, 1, 2.5, 0.4)), const=(1,)),
    Case("Dropout", 10, {"ratio": 0.2}, (X,), outputs=2),
    Case("ReduceMean", 13, {"axes": [1, 2]}, (X,)),
]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_body(case, depth, tmp_path):
    model, feeds = place_in_if(case, depth)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_function(case, tmp_path):
    model, feeds = place_in_function(case)
    for version in (13, 19, 21):
        converted = assert_converts(model, feeds, version, tmp_path)
        assert default_opset(converted.functions[0]) == version


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_body_in_function(case, tmp_path):
    outer, feeds = place_in_if(case)
    constants = {i.name: numpy_helper.to_array(i) for i in outer.graph.initializer}
    inputs, outputs = [*feeds, *constants], [o.name for o in outer.graph.output]
    imports = [helper.make_opsetid("", case.opset)]
    function = helper.make_function("local", "F", inputs, outputs, outer.graph.node, imports)
    call = helper.make_node("F", inputs, outputs, domain="local")
    local = [helper.make_opsetid("local", 1)]
    model = make_model(
        [call], feeds, outputs, case.opset, constants, imports=local, functions=[function]
    )
    for version in (13, 21):
        converted = assert_converts(model, feeds, version, tmp_path)
        branch = converted.functions[0].node[0].attribute[0].g
        assert not branch.initializer


def test_in_loop_over_a_captured_value(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Clip", ["s"], ["c"], max=0.5),
            helper.make_node("Softmax", ["x"], ["m"], axis=1),
            helper.make_node("Add", ["c", "m"], ["t"]),
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Unsqueeze", ["t"], ["out"], axes=[0]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, None),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)
    model = make_model([node], {"x": X}, ["y", "z"], 10, {"n": np.array(3)})
    for version in (13, 19, 21):
        assert_converts(model, {"x": X}, version, tmp_path)


def test_function_of_another_version(tmp_path):
    older, feeds = place_in_function(Case("Squeeze", 13, {"axes": [0]}, (floats(1, 3),)), 11)
    converted = convert(older, 17, tmp_path)
    assert default_opset(converted.functions[0]) == 17
    assert_equal(run(converted, feeds), [feeds["x0"][0]])
    newer, _ = place_in_function(Case("Squeeze", 11, {}, (floats(1, 3), ints(0))), 13)
    converted = convert(newer, 12, tmp_path)
    assert converted.functions[0] == newer.functions[0]


def referring(op, opset, inputs, name, value, **attributes):
    """A function whose node takes the attribute `name` from the attribute `given` of the call."""
    model, feeds = place_in_function(Case(op, opset, attributes, inputs), given=value)
    node = model.functions[0].node[0]
    node.attribute.append(helper.make_attribute(name, value))
    node.attribute[-1].CopyFrom(
        onnx.AttributeProto(name=name, type=node.attribute[-1].type, ref_attr_name="given")
    )
    return model, feeds


@pytest.mark.parametrize(
    ("op", "opset", "name", "value"),
    [
        ("Squeeze", 11, "axes", [0, -1]),
        ("Unsqueeze", 11, "axes", [0, 2]),
        ("ReduceMax", 13, "axes", [1]),
        ("Softmax", 11, "axis", 0),
        ("Softmax", 11, "axis", 2),
        ("Clip", 10, "max", 0.2),
        ("Pad", 10, "pads", [0, 1, 0, 0, 0, 2]),
    ],
)
def test_attribute_of_a_function(op, opset, name, value, tmp_path):
    model, feeds = referring(op, opset, (floats(1, 3, 1),), name, value)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)


def test_attribute_of_a_function_that_is_not_always_set(tmp_path):
    model, _ = referring("Squeeze", 11, (floats(1, 3, 1),), "axes", [0])
    del model.graph.node[0].attribute[:]
    message = convert(model, 13, tmp_path, fails=True)
    assert "'@y0' (Squeeze) from opset 11 to 13" in message


def test_attribute_of_a_function_whose_value_decides(tmp_path):
    model, _ = referring("TopK", 9, (X,), "k", 2)
    assert "(TopK) from opset 9 to 13" in convert(model, 13, tmp_path, fails=True)


@pytest.mark.parametrize("directions", [None, [0], [1]])
def test_scan_of_a_batch(directions, tmp_path):
    model, feeds = scan_8(directions)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)
