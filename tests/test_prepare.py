"""Preparing a model: what is left alone, imports of operator sets, versions."""

import pytest
from models import FLOAT, Graph
from onnx import TensorProto, helper
from preparation import (
    assert_same,
    assert_unchanged,
    conv_model,
    linear,
    linear_graph,
    prepare,
    refused,
    with_functions,
)

# ---- Nothing to do ------------------------------------------------------------------------------


def test_a_model_that_needs_nothing_is_a_copy(tmp_path):
    model = conv_model()
    helper.set_model_props(model, {"who": "tests"})
    model.graph.doc_string = "two nodes"
    prepared = prepare(model, tmp_path)
    assert prepared.model == model
    assert prepared.notes == []
    assert prepared.origins == {"conv": "conv", "relu": "relu"}


def test_origins_are_no_part_of_the_file(tmp_path):
    prepared = prepare(conv_model(), tmp_path)
    assert prepared.model.SerializeToString() == conv_model().SerializeToString()


def test_a_file_that_uses_the_private_field_is_refused(tmp_path):
    number = 536870004
    tag = bytes_of_varint(number << 3) + b"\x05"
    model = conv_model()
    model.graph.node[0].ParseFromString(model.graph.node[0].SerializeToString() + tag)
    assert "reserved" in refused(model, tmp_path)


def bytes_of_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


# ---- Imports of operator sets -------------------------------------------------------------------


def with_imports(model, *imports):
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in imports)
    return model


@pytest.mark.parametrize(
    "given, wanted",
    [
        ([("", 17), ("", 17)], [("", 17)]),
        ([("ai.onnx", 17)], [("ai.onnx", 17)]),
        ([("", 17), ("ai.onnx", 17)], [("", 17)]),
        ([("ai.onnx", 17), ("", 17), ("ai.onnx.ml", 3)], [("ai.onnx", 17), ("ai.onnx.ml", 3)]),
        ([("", 17), ("ai.onnx.ml", 3)], [("", 17), ("ai.onnx.ml", 3)]),
    ],
)
def test_equal_imports_are_merged(tmp_path, given, wanted):
    """microsoft/onnxruntime #15563."""
    model = with_imports(conv_model(), *given)
    prepared = prepare(model, tmp_path)
    assert [(i.domain, i.version) for i in prepared.model.opset_import] == wanted
    assert prepared.notes == []
    assert_unchanged(model, prepared)


def test_conflicting_imports_are_an_error(tmp_path):
    message = refused(with_imports(conv_model(), ("", 13), ("ai.onnx", 14)), tmp_path)
    assert "13" in message and "14" in message and "keep one" in message


def gelu_model():
    g = Graph()
    x = g.matmul(g.input("X", [2, 16]), "a", 16, 16, "mm")
    g.node("Gelu", [x], "Y", "gelu", "com.microsoft")
    g.output("Y", [2, 16])
    return g.build()


def test_a_domain_that_the_runtime_knows_is_imported(tmp_path):
    """microsoft/onnxruntime #23191."""
    model = gelu_model()
    prepared = prepare(model, tmp_path)
    assert [(i.domain, i.version) for i in prepared.model.opset_import] == [
        ("", 17),
        ("com.microsoft", 1),
    ]
    assert prepared.noted("com.microsoft", "1")
    assert_unchanged(model, prepared)
    assert_same(model, prepared.model)


def test_a_missing_import_is_found_in_a_body(tmp_path):
    g = Graph()
    g.input("X", [2, 4])
    g.input("c", [], TensorProto.BOOL)
    value = helper.make_tensor_value_info("t", FLOAT, [2, 4])
    then = helper.make_graph(
        [helper.make_node("Gelu", ["X"], ["t"], "g", domain="com.microsoft")], "then", [], [value]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["X"], ["e"], "i")],
        "else",
        [],
        [helper.make_tensor_value_info("e", FLOAT, [2, 4])],
    )
    g.node("If", ["c"], "Y", "if", then_branch=then, else_branch=other)
    g.output("Y", [2, 4])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert ("com.microsoft", 1) in [(i.domain, i.version) for i in prepared.model.opset_import]
    assert_same(model, prepared.model)


def test_no_version_of_the_default_domain_is_guessed(tmp_path):
    model = with_imports(gelu_model(), ("com.microsoft", 1))
    message = refused(model, tmp_path)
    assert "MatMul" in message and "opset_import" in message


# ---- Versions -----------------------------------------------------------------------------------


def test_the_opset_is_raised_as_far_as_asked(tmp_path):
    model = conv_model(opset=11)
    model.ir_version = 6
    prepared = prepare(model, tmp_path, "--opset", "13")
    assert [(i.domain, i.version) for i in prepared.model.opset_import] == [("", 13)]
    assert prepared.noted("opset", "11", "13")
    assert_unchanged(model, prepared)
    assert_same(model, prepared.model)
    assert prepare(conv_model(opset=15), tmp_path, "--opset", "13").model == conv_model(opset=15)


def test_functions_are_raised_before_they_are_inlined(tmp_path):
    model = with_functions(linear_graph(opset=11), linear(opset=11))
    prepared = prepare(model, tmp_path, "--opset", "13")
    assert prepared.types() == ["MatMul", "Add", "Relu"]
    assert_same(model, prepared.model)
