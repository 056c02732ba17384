"""Opset conversion: what comes out of it, and what is refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from opset_cases import X, resize
from opsets import (
    Case,
    assert_converts,
    convert,
    f32,
    floats,
    ints,
    make_model,
    place_in_function,
    place_in_if,
    scan_8,
)

# ---- What comes out -----------------------------------------------------------------------------


def types(model):
    return [n.op_type for n in model.graph.node]


def chain(opset, *nodes, shape=(2, 3, 4, 5), dtype=np.float32, initializers=None, **extra):
    """One node after the other from input x to output y."""
    made = []
    for i, (op, inputs, attributes) in enumerate(nodes):
        names = ["x" if i == 0 else f"v{i}", *inputs]
        made.append(
            helper.make_node(op, names, ["y" if i + 1 == len(nodes) else f"v{i + 1}"], **attributes)
        )
    feeds = {"x": np.random.default_rng(0).random(shape).astype(dtype)}
    return make_model(made, feeds, ["y"], opset, initializers, **extra), feeds


def test_softmax_over_the_last_axis_stays_one_node(tmp_path):
    known = (
        [("Softmax", [], {"axis": 3})],
        [("Relu", [], {}), ("Add", ["c"], {}), ("Softmax", [], {"axis": 3})],
        [("Flatten", [], {}), ("Softmax", [], {})],
        [("Transpose", [], {"perm": [3, 0, 1, 2]}), ("Softmax", [], {"axis": 3})],
        [("Reshape", ["r"], {}), ("Unsqueeze", [], {"axes": [0]}), ("Softmax", [], {"axis": 3})],
        [("MatMul", ["m"], {}), ("ReduceMax", [], {"axes": [1]}), ("LogSoftmax", [], {"axis": 3})],
        [
            ("ReduceMax", [], {"axes": [1]}),
            ("Squeeze", [], {"axes": [1]}),
            ("Softmax", [], {"axis": 2}),
        ],
        [("Gather", ["i"], {}), ("Softmax", [], {"axis": 2})],
    )
    values = {"c": f32([1], [2]).reshape(2, 1, 1, 1), "r": ints(6, 4, 5), "m": floats(5, 6)}
    values["i"] = np.array(1)
    for nodes in known:
        model, feeds = chain(11, *nodes, initializers=values)
        converted = assert_converts(model, feeds, 13, tmp_path)
        assert types(converted) == types(model)
        assert converted.graph.node[-1].attribute[0].i == -1
    unknown = (
        [("Softmax", [], {"axis": 2})],
        [("Squeeze", [], {}), ("Softmax", [], {"axis": 2})],
    )
    for nodes in unknown:
        model, feeds = chain(11, *nodes, shape=(1, 3, 4, 5))
        converted = assert_converts(model, feeds, 13, tmp_path)
        assert types(converted)[-4:] == ["Shape", "Flatten", "Softmax", "Reshape"]


def test_softmax_behind_a_reshape_to_a_computed_shape(tmp_path):
    """As exporters write x.view(x.size(0), 5, -1), and a flattening before a classifier."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["size"]),
        node("Unsqueeze", ["size"], ["first"], axes=[0]),
        node("Concat", ["first", "rest"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["v"]),
        node("Softmax", ["v"], ["y"], axis=2),
        node("Slice", ["shape", "from", "until"], ["part"]),
        node("Cast", ["part"], ["cast"], to=TensorProto.INT32),
        node("Cast", ["cast"], ["back"], to=TensorProto.INT64),
        node("Concat", ["back", "last"], ["to2"], axis=-1),
        node("Reshape", ["x", "to2"], ["w"]),
        node("Softmax", ["w"], ["z"], axis=1),
    ]
    values = {"zero": np.array(0), "rest": ints(5, -1), "from": ints(0), "until": ints(1)}
    values["last"] = ints(-1)
    model = make_model(nodes, {"x": X}, ["y", "z"], 11, values)
    converted = assert_converts(model, {"x": X}, 13, tmp_path)
    assert types(converted) == types(model)
    # A part of three elements, and a part whose length is not looked for.
    for until, last in ((ints(3), ints(5)), (ints(-1), ints(5))):
        for initializer in model.graph.initializer:
            if initializer.name in ("until", "last"):
                value = until if initializer.name == "until" else last
                initializer.CopyFrom(numpy_helper.from_array(value, initializer.name))
        converted = assert_converts(model, {"x": X}, 13, tmp_path)
        assert types(converted)[-4:] == ["Shape", "Flatten", "Softmax", "Reshape"]


def test_resize_needs_one_node_when_all_scales_point_one_way(tmp_path):
    for scales, expected in (
        ((1, 1, 2, 2), ["Resize"]),
        ((1, 1, 0.5, 1), ["Resize"]),
        ((1, 1, 2, 0.5), ["Min", "Max", "Resize", "Resize"]),
    ):
        model, feeds = chain(10, ("Resize", ["s"], {}), initializers={"s": f32(*scales)})
        assert types(assert_converts(model, feeds, 13, tmp_path)) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_constants_have_the_type_of_the_tensor(dtype, tmp_path):
    weights = {"w": floats(5, 2).astype(dtype), "c": np.array(0.5, dtype)}
    model, feeds = chain(
        10,
        ("MatMul", ["w"], {}),
        ("Mul", ["c"], {}),
        ("Pad", [], {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 0.3}),
        ("Transpose", [], {}),
        *([("Clip", [], {"max": 0.1})] if dtype == np.float16 else []),
        dtype=dtype,
        initializers=weights,
    )
    assert_converts(model, feeds, 13, tmp_path)
    cast, feeds = chain(
        9, ("Cast", [], {"to": TensorProto.FLOAT16}), ("Clip", [], {"min": 0.2, "max": 0.7})
    )
    assert_converts(cast, feeds, 13, tmp_path)


def test_mask_of_dropout_that_is_read(tmp_path):
    model, feeds = Case("Dropout", 7, {"ratio": 0.3}, (X,), outputs=2).model()
    mask = helper.make_node("ReduceSum", ["y1"], ["z"], keepdims=0)
    model.graph.node.append(mask)
    model.graph.output[1].name = "z"
    assert_converts(model, feeds, 13, tmp_path)
    unread = onnx.ModelProto()
    unread.CopyFrom(Case("Dropout", 7, {"ratio": 0.3}, (X,), outputs=2).model()[0])
    del unread.graph.output[1]
    converted = assert_converts(unread, feeds, 13, tmp_path)
    assert types(converted) == ["Dropout"]
    assert list(converted.graph.node[0].output) == ["y0"]


def test_batch_normalization_in_training_mode(tmp_path):
    channel = [np.abs(floats(3, seed=s)) for s in range(4)]
    case = Case("BatchNormalization", 9, {"momentum": 0.7}, (X, *channel), outputs=5)
    model, feeds = case.model()
    message = convert(model, 14, tmp_path, fails=True)
    assert "saved_mean" in message
    assert_converts(model, feeds, 13, tmp_path)
    del model.graph.output[3:]
    for version in (14, 17, 21):
        assert_converts(model, feeds, version, tmp_path)


def test_batch_normalization_of_elements_in_training_mode(tmp_path):
    element = [np.abs(floats(3, 4, 5, seed=s)) for s in range(4)]
    case = Case("BatchNormalization", 7, {"spatial": 0}, (X, *element), outputs=5)
    assert "training mode" in convert(case.model()[0], 13, tmp_path, fails=True)


def test_names_are_unique_in_the_whole_model(tmp_path):
    taken = ["s_axes", "s_axes_1", "t_Shape", "t_Shape_1", "t_Flatten", "t_Reshape", "t_flat"]
    squeeze = helper.make_node("Squeeze", ["x"], ["v"], "s", axes=[0])
    softmax = helper.make_node("Softmax", ["v"], ["w"], "t", axis=1)
    others = [helper.make_node("Neg", ["w"], [name]) for name in taken]
    model = make_model([squeeze, softmax, *others], {"x": floats(1, 2, 3, 4)}, taken, 11)
    converted = assert_converts(model, {"x": floats(1, 2, 3, 4)}, 13, tmp_path)
    outputs = [o for n in converted.graph.node for o in n.output]
    values = outputs + [i.name for i in converted.graph.initializer] + ["x"]
    assert len(values) == len(set(values))
    assert {"s", "t"} <= {n.name for n in converted.graph.node}


def test_everything_else_stays(tmp_path):
    node = helper.make_node("Squeeze", ["x"], ["v"], "sq", "says", axes=[0])
    custom = helper.make_node("Softmax", ["v"], ["w"], "own", domain="custom", axis=1)
    model = make_model(
        [node, custom, helper.make_node("Split", ["w"], ["y"], domain="other.domain")],
        {"x": floats(1, 3)},
        ["y"],
        11,
        imports=[helper.make_opsetid("custom", 1), helper.make_opsetid("other.domain", 3)],
    )
    model.doc_string, model.graph.doc_string = "a model", "a graph"
    model.metadata_props.add(key="k", value="v")
    model.graph.value_info.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [3]))
    converted = convert(model, 13, tmp_path)
    assert converted.graph.node[1:] == model.graph.node[1:]
    assert converted.graph.node[0].doc_string == "says"
    assert [(o.domain, o.version) for o in converted.opset_import] == [
        ("", 13), ("custom", 1), ("other.domain", 3),
    ]  # fmt: skip
    for field_name in ("doc_string", "metadata_props", "ir_version"):
        assert getattr(converted, field_name) == getattr(model, field_name)
    for field_name in ("doc_string", "value_info", "input", "output", "name"):
        assert getattr(converted.graph, field_name) == getattr(model.graph, field_name)


def test_local_function_that_bears_the_name_of_an_operator(tmp_path):
    neg = helper.make_node("Neg", ["a"], ["b"])
    function = helper.make_function(
        "", "Hardmax", ["a"], ["b"], [neg], [helper.make_opsetid("", 11)]
    )
    node = helper.make_node("Hardmax", ["x"], ["y"])
    model = make_model([node], {"x": X}, ["y"], 11, functions=[function])
    assert convert(model, 13, tmp_path).graph.node[0] == node


@pytest.mark.parametrize("spelling", ["", "ai.onnx"])
def test_version_is_never_lowered(spelling, tmp_path):
    model, _ = chain(17, ("Relu", [], {}), ir_version=10)
    model.opset_import[0].domain = spelling
    assert convert(model, 13, tmp_path) == model
    assert convert(model, 17, tmp_path) == model
    raised = convert(model, 19, tmp_path)
    assert (raised.opset_import[0].version, raised.ir_version) == (19, 10)


@pytest.mark.parametrize(
    ("opset", "version", "ir", "expected"),
    [
        (8, 13, 3, 7), (8, 17, 3, 8), (11, 13, 8, 8), (13, 19, 7, 9), (13, 21, 7, 10),
        (13, 23, 7, 11), (21, 24, 10, 12), (21, 26, 10, 13),
    ],
)  # fmt: skip
def test_ir_version(opset, version, ir, expected, tmp_path):
    model, _ = chain(opset, ("Relu", [], {}), ir_version=ir)
    assert convert(model, version, tmp_path).ir_version == expected
    released = {(v[2], v[1]) for v in helper.VERSION_TABLE}
    assert expected >= min(i for o, i in released if o == version)


def test_initializers_listed_as_inputs(tmp_path):
    weights = {"w": floats(2, 3, 1, 1)}
    model, feeds = chain(8, ("Conv", ["w"], {}), initializers=weights, ir_version=3)
    listed = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3, 1, 1])
    model.graph.input.append(listed)
    converted = assert_converts(model, feeds, 13, tmp_path)
    assert [i.name for i in converted.graph.input] == ["x"]
    model.ir_version = 4  # here the caller may replace it
    converted = assert_converts(model, feeds, 13, tmp_path)
    assert [i.name for i in converted.graph.input] == ["x", "w"]


def test_no_default_domain(tmp_path):
    model = make_model([helper.make_node("Op", ["x"], ["y"], domain="custom")], {"x": X}, ["y"], 1)
    model.opset_import[0].CopyFrom(helper.make_opsetid("custom", 2))
    assert convert(model, 21, tmp_path) == model


# ---- Refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["graph", "body", "function"])
def test_refused_conversion_changes_nothing(place, tmp_path):
    refused = resize(
        11, (1, 1, 2, 2), mode="nearest", nearest_mode="ceil",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )  # fmt: skip
    placed = {
        "graph": refused.model, "body": lambda: place_in_if(refused),
        "function": lambda: place_in_function(refused),
    }  # fmt: skip
    model, _ = placed[place]()
    squeeze = helper.make_node("Squeeze", ["q"], ["r"], axes=[0])
    model.graph.node.insert(0, squeeze)
    model.graph.input.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 2]))
    message = convert(model, 13, tmp_path, fails=True)
    assert "(Resize) from opset 11 to 13: " in message and "tf_half_pixel_for_nn" in message


def test_refused_scan(tmp_path):
    model, _ = scan_8(lengths=True)
    assert "node '@y' (Scan) from opset 8 to 13: " in convert(model, 13, tmp_path, fails=True)


@pytest.mark.parametrize(("opset", "version"), [(6, 13), (1, 17), (13, 27), (13, 5)])
def test_unknown_versions(opset, version, tmp_path):
    model, _ = chain(opset, ("Relu", [], {}))
    message = convert(model, version, tmp_path, fails=True)
    assert str(version) in message and "7" in message
