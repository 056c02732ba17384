"""The prepare stage alone: what comes out computes what went in, and what no edit concerns is the
same, node by node."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness
import numpy as np
import onnx
import pytest
from models import FLOAT, Graph, noise
from onnx import TensorProto, helper, numpy_helper

TOOL = Path(os.environ.get("ONNXPTQ_PREPARE", harness.OPS.parent / "test-tools" / "prepare_model"))


# ---- Running


@dataclass
class Prepared:
    model: onnx.ModelProto
    notes: list
    origins: dict  # name of a node of the result -> name of its origin

    def node(self, name):
        (node,) = [n for n in self.nodes() if n.name == name]
        return node

    def nodes(self):
        return list(all_nodes(self.model.graph))

    def types(self):
        return [n.op_type for n in self.model.graph.node]

    def initializers(self):
        return {i.name: numpy_helper.to_array(i) for i in self.model.graph.initializer}

    def noted(self, *words):
        return any(all(w in note for w in words) for note in self.notes)


def bodies(node):
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph):
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from all_nodes(body)


def run_tool(model, folder, *args, libs=()):
    before, after = folder / "before.onnx", folder / "out" / "after.onnx"
    (folder / "out").mkdir(exist_ok=True)
    before.write_bytes(model.SerializeToString())
    given = [word for lib in libs for word in ("--lib", str(harness.library(lib)))]
    done = subprocess.run(
        [str(TOOL), str(before), str(after), *args, *given], capture_output=True, text=True
    )
    assert [p.name for p in after.parent.iterdir()] in ([], [after.name]), (
        "a temporary file is left"
    )
    return done, after


def prepare(model, folder, *args, libs=()):
    done, after = run_tool(model, folder, *args, libs=libs)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    result = onnx.load(after)
    onnx.checker.check_model(
        result, full_check=not any(n.domain not in ("", "ai.onnx") for n in all_nodes(result.graph))
    )
    return Prepared(
        result,
        [line[1] for line in lines if line[0] == "note"],
        {line[1]: line[2] for line in lines if line[0] == "node"},
    )


def refused(model, folder, *args):
    done, _ = run_tool(model, folder, *args)
    assert done.returncode == 1, done
    return done.stderr


def feeds_of(model, seed=0):
    rng = np.random.default_rng(seed)
    feeds = {}
    constants = {i.name for i in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        shape = [d.dim_value or 2 for d in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        array = np.asarray(rng.standard_normal(shape))
        feeds[value.name] = np.asarray(array > 0 if dtype == bool else array).astype(dtype)
    return feeds


def outputs(model, feeds, libs=()):
    return harness.run_model(model, [feeds], libs, optimize=False)[0]


def assert_same(before, after, libs=(), rtol=0.0, feeds=None):
    """Bit for bit, or to a relative error of the largest value."""
    feeds = feeds or feeds_of(before)
    want, have = outputs(before, feeds, libs), outputs(after, feeds, libs)
    assert list(want) == list(have)
    for name, reference in want.items():
        assert reference.dtype == have[name].dtype and reference.shape == have[name].shape
        if rtol == 0.0:
            assert np.array_equal(reference, have[name], equal_nan=True), name
        else:
            worst = np.abs(reference.astype(np.float64) - have[name]).max()
            assert worst <= rtol * np.abs(reference).max(), (name, worst)


def assert_unchanged(before, prepared, *but):
    """Every node not named in `but` is as it was, in the same order, and so is the rest."""
    after = prepared.model
    kept = [n for n in after.graph.node if n.name not in but]
    assert kept == [n for n in before.graph.node if n.name not in but]
    assert after.metadata_props == before.metadata_props
    assert after.graph.doc_string == before.graph.doc_string
    assert after.graph.output == before.graph.output
    assert [i.name for i in after.graph.input] == [i.name for i in before.graph.input]


def conv_model(opset=17, **fields):
    """X, Conv, Relu, Y."""
    g = Graph(opset=opset)
    g.node("Relu", [g.conv(g.input("X", [1, 3, 6, 6]), "c", 3, 4, name="conv")], "Y", "relu")
    g.output("Y", [1, 4, 6, 6])
    return g.build(**fields)


# ---- Nothing to do


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


# ---- Imports of operator sets


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


# ---- Local functions


def function(
    name, inputs, results, nodes, attributes=(), defaults=(), domain="my.fn", opset=17, **fields
):
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("my.fn", 1)]
    made = helper.make_function(
        domain, name, inputs, results, nodes, imports, list(attributes), list(defaults)
    )
    for key, value in fields.items():
        getattr(made, key).extend(value) if isinstance(value, list) else setattr(made, key, value)
    return made


def linear(opset=17):
    return function(
        "Linear",
        ["x", "w", "b"],
        ["y"],
        [
            helper.make_node("MatMul", ["x", "w"], ["t"], "mm"),
            helper.make_node("Add", ["t", "b"], ["y"], "add"),
        ],
        opset=opset,
    )


def call(g, name, inputs, output, node_name, domain="my.fn", **attributes):
    return g.node(name, inputs, output, node_name, domain, **attributes)


def with_functions(g, *functions, **fields):
    model = g.build(functions=functions, **fields)
    onnx.checker.check_model(model)
    return model


def linear_graph(opset=17, n=1):
    g = Graph(opset=opset, my_dot_fn=1)
    x = g.input("X", [4, 8])
    for k in range(n):
        w, b = g.weight(f"w{k}", 8, 8), g.weight(f"b{k}", 8)
        x = call(g, "Linear", [x, w, b], f"l{k}", f"/fc{k}")
    g.node("Relu", [x], "Y", "relu")
    g.output("Y", [4, 8])
    return g


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


def if_node(condition, then, other, output, name, shape=(4, 8)):
    def branch(node, label):
        value = helper.make_tensor_value_info(node.output[0], FLOAT, shape)
        return helper.make_graph([node], label, [], [value])

    return helper.make_node(
        "If",
        [condition],
        [output],
        name,
        then_branch=branch(then, "then"),
        else_branch=branch(other, "else"),
    )


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


# ---- Constants


WEIGHT = noise(8, 16, seed=3)


def constant(output, **value):
    return helper.make_node("Constant", [], [output], f"make_{output}", **value)


def sparse(array):
    flat = array.reshape(-1)
    at = np.flatnonzero(flat)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(flat[at]),
        numpy_helper.from_array(at.astype(np.int64)),
        array.shape,
    )


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def f32(name, array):
    return numpy_helper.from_array(array, name)


SPARSE = np.where(np.abs(WEIGHT) > 0.7, WEIGHT, 0).astype(np.float32)
# {name: (nodes, initializers, the weight)}
BEHIND = {
    "constant_floats_reshaped": (
        [
            constant("flat", value_floats=WEIGHT.reshape(-1).tolist()),
            constant("shape", value_ints=[8, 16]),
            helper.make_node("Reshape", ["flat", "shape"], ["w"], "reshape"),
        ],
        [],
        WEIGHT,
    ),
    "constant_sparse": (
        [helper.make_node("Constant", [], ["w"], "sparse", sparse_value=sparse(SPARSE))],
        [],
        SPARSE,
    ),
    "transpose": (
        [helper.make_node("Transpose", ["wt"], ["w"], "transpose", perm=[1, 0])],
        [f32("wt", np.ascontiguousarray(WEIGHT.T))],
        WEIGHT,
    ),
    "reshape": (
        [helper.make_node("Reshape", ["flat", "shape"], ["w"], "reshape")],
        [f32("flat", WEIGHT.reshape(-1)), ints("shape", 8, 16)],
        WEIGHT,
    ),
    "squeeze_of_unsqueeze": (
        [
            helper.make_node("Unsqueeze", ["w0", "axes"], ["w1"], "unsqueeze"),
            helper.make_node("Squeeze", ["w1", "axes"], ["w"], "squeeze"),
        ],
        [f32("w0", WEIGHT), ints("axes", 0)],
        WEIGHT,
    ),
    "cast_of_half": (
        [helper.make_node("Cast", ["w16"], ["w"], "cast", to=FLOAT)],
        [f32("w16", WEIGHT.astype(np.float16))],
        WEIGHT.astype(np.float16).astype(np.float32),
    ),
    "cast_of_bfloat16": (
        [helper.make_node("Cast", ["wb"], ["w"], "cast", to=FLOAT)],
        [helper.make_tensor("wb", TensorProto.BFLOAT16, [8, 16], WEIGHT.reshape(-1).tolist())],
        None,
    ),
    "concat_of_identity": (
        [
            helper.make_node("Identity", ["top"], ["t"], "identity"),
            helper.make_node("Concat", ["t", "bottom"], ["w"], "concat", axis=0),
        ],
        [f32("top", WEIGHT[:3]), f32("bottom", WEIGHT[3:])],
        WEIGHT,
    ),
    "constant_of_shape": (
        [
            helper.make_node(
                "ConstantOfShape",
                ["shape"],
                ["w"],
                "fill",
                value=numpy_helper.from_array(np.array([0.25], np.float32)),
            )
        ],
        [ints("shape", 8, 16)],
        np.full((8, 16), 0.25, np.float32),
    ),
    "arithmetic": (
        [
            helper.make_node("Mul", ["w0", "half"], ["w1"], "mul"),
            helper.make_node("Dropout", ["w1"], ["w"], "dropout"),
        ],
        [f32("w0", WEIGHT), f32("half", np.array(0.5, np.float32))],
        WEIGHT * np.float32(0.5),
    ),
}


def behind(name):
    nodes, initializers, _ = BEHIND[name]
    g = Graph()
    g.nodes.extend(nodes)
    g.initializers.extend(initializers)
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "m", "mm")
    g.node("Relu", ["m"], "Y", "relu")
    g.output("Y", [4, 16])
    return g


@pytest.mark.parametrize("name", BEHIND)
def test_constants_behind_a_weight_are_evaluated(tmp_path, name):
    """openvinotoolkit/nncf PR #1917, microsoft/onnxruntime #13358."""
    model = behind(name).build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul", "Relu"]
    assert list(prepared.initializers()) == ["w"]
    weight = BEHIND[name][2]
    if weight is not None:
        assert np.array_equal(prepared.initializers()["w"], weight)
    assert prepared.noted("1 constant")
    assert_same(model, prepared.model)


@pytest.mark.parametrize("value", [{"value": numpy_helper.from_array(WEIGHT)}, None])
def test_what_later_stages_see_through_is_left_alone(tmp_path, value):
    """A Constant node, an Identity of an initializer: the edit would buy nothing."""
    g = Graph()
    if value:
        g.nodes.append(constant("w", **value))
    else:
        g.node("Identity", [g.const("w0", WEIGHT)], "w", "identity")
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_a_sparse_initializer_becomes_a_weight(tmp_path):
    g = Graph()
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    tensor = sparse(SPARSE)
    tensor.values.name = "w"
    model.graph.sparse_initializer.append(tensor)
    prepared = prepare(model, tmp_path)
    assert not prepared.model.graph.sparse_initializer
    assert np.array_equal(prepared.initializers()["w"], SPARSE)
    assert_same(model, prepared.model)


def test_nodes_that_others_read_stay(tmp_path):
    """Only the edge of the MatMul changes."""
    g = behind("transpose")
    g.node("Add", ["w", "wt2"], "Z", "add")
    g.initializers.append(f32("wt2", WEIGHT))
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    (weight,) = set(prepared.initializers()) - {"wt", "wt2"}
    assert list(prepared.node("mm").input) == ["X", weight]
    assert np.array_equal(prepared.initializers()[weight], WEIGHT)
    assert_same(model, prepared.model)


def test_a_constant_that_is_an_output_stays(tmp_path):
    g = behind("transpose")
    g.output("w", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model)


def test_pieces_of_one_tensor(tmp_path):
    """One result of a Split is a weight, the other is read by something else."""
    g = Graph()
    pieces = g.node(
        "Split", [g.const("both", np.vstack([WEIGHT, WEIGHT * 2]))], ["w", "v"], "split"
    )
    assert pieces == "w"
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.node("Neg", ["v"], "Z", "neg")
    g.output("Y", [4, 16])
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model)


def test_every_parameter_of_weighted_operators(tmp_path):
    """Bias and weight of Conv, C of Gemm, bias of a MatMul, bounds of a Clip."""
    g = Graph()
    x = g.input("X", [1, 3, 4, 4])

    def twice(name, array):
        g.const(f"{name}.half", array)
        return g.node("Add", [f"{name}.half", f"{name}.half"], name, f"add.{name}")

    weight = twice("w1", noise(4, 3, 1, 1))
    c = g.node("Conv", [x, weight, twice("b1", noise(4))], "c", "conv")
    low = twice("low", np.array(-0.5, np.float32))
    c = g.node("Clip", [c, low, twice("high", np.array(0.5, np.float32))], "clipped", "clip")
    shape = g.const("shape", np.array([4, 16], np.int64))
    r = g.node("Reshape", [c, shape], "r", "reshape")
    r = g.node("Gemm", [r, twice("w2", noise(16, 8)), twice("c2", noise(1, 8))], "g", "gemm")
    r = g.node("MatMul", [r, twice("w3", noise(8, 8))], "m", "mm")
    g.node("Add", [twice("b3", noise(8)), r], "Y", "bias")
    g.output("Y", [4, 8])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv", "Clip", "Reshape", "Gemm", "MatMul", "Add"]
    assert set(prepared.initializers()) == {
        "w1", "b1", "low", "high", "shape", "w2", "c2", "w3", "b3",
    }  # fmt: skip
    assert_same(model, prepared.model)


def test_constants_of_other_nodes_stay(tmp_path):
    g = Graph()
    x = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    k = g.node("Neg", [g.weight("k", 8)], "nk", "neg")
    g.node("Mul", [x, k], "Y", "mul")
    g.output("Y", [4, 8])
    model = g.build()
    assert prepare(model, tmp_path).model == model


@pytest.mark.parametrize("excluded", ["mm", "transpose"])
def test_an_excluded_node_keeps_its_constants(tmp_path, excluded):
    """Nor is a node evaluated away that the user names."""
    model = behind("transpose").build()
    assert prepare(model, tmp_path, "--exclude", excluded).model == model


def test_foreign_operators_are_never_evaluated(tmp_path):
    """Not even on constants alone, and nothing behind them either."""
    g = Graph(my_dot_ops=1)
    w = g.node("ScaleBy2", [g.const("w0", WEIGHT)], "w1", "scale", "my.ops")
    w = g.node("Identity", [w], "w", "identity")
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    prepared = prepare(model, tmp_path, libs=["scaleby2"])
    assert prepared.model == model


def test_a_constant_that_a_foreign_operator_reads_too_stays_for_it(tmp_path):
    g = behind("transpose")
    g.domains["my.ops"] = 1
    g.node("ScaleBy2", ["w"], "Z", "scale", "my.ops")
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path, libs=["scaleby2"])
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model, ["scaleby2"])


def test_a_quantized_weight_is_left_alone(tmp_path):
    g = Graph()
    g.const("q", np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
    g.const("s", np.array(0.02, np.float32))
    g.node("DequantizeLinear", ["q", "s"], "d", "dq")
    g.node("Transpose", ["d"], "w", "transpose", perm=[1, 0])
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_random_numbers_are_no_constants(tmp_path):
    g = Graph()
    g.node("RandomNormal", [], "r", "random", shape=[8, 16], seed=1.0)
    g.node("Neg", ["r"], "w", "neg")
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_constants_inside_bodies(tmp_path):
    """The weight's source lies outside, the Transpose inside, in one branch it has a name of its own."""
    g = Graph()
    x, c = g.input("X", [4, 8]), g.input("c", [], TensorProto.BOOL)
    g.const("wt", np.ascontiguousarray(WEIGHT.T))

    def branch(label, scale):
        nodes = [
            helper.make_node("Transpose", ["wt"], [f"w{label}"], f"t{label}", perm=[1, 0]),
            helper.make_node("MatMul", [x, f"w{label}"], [f"m{label}"], f"mm{label}"),
        ]
        value = helper.make_tensor_value_info(f"m{label}", FLOAT, [4, 16])
        return helper.make_graph(nodes, label, [], [value])

    g.node("If", [c], "Y", "if", then_branch=branch("a", 1), else_branch=branch("b", 2))
    g.output("Y", [4, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    for body, label in zip(bodies(prepared.node("if")), "ba"):  # attributes are sorted by name
        assert [n.op_type for n in body.node] == ["MatMul"]
        assert [i.name for i in body.initializer] == [f"w{label}"]
    assert not prepared.model.graph.initializer
    for flag in (False, True):
        assert_same(model, prepared.model, feeds={"X": noise(4, 8), "c": np.array(flag)})


def test_a_pure_function_behind_a_weight_is_run(tmp_path):
    """As exporters write it: the transposition of a weight is a function of one node."""
    t = function("T", ["x"], ["y"], [helper.make_node("Transpose", ["x"], ["y"], "t", perm=[1, 0])])
    g = Graph(my_dot_fn=1)
    w = call(g, "T", [g.const("wt", np.ascontiguousarray(WEIGHT.T))], "w", "t")
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 16])
    model = with_functions(g, t)
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul"]
    assert np.array_equal(prepared.initializers()["w"], WEIGHT)
    assert_same(model, prepared.model)


@pytest.mark.parametrize("ir", [3, 8])
def test_initializers_that_are_inputs_too(tmp_path, ir):
    """microsoft/onnxruntime-inference-examples #297. Up to IR 3 all are."""
    g = behind("transpose")
    g.ir = ir
    g.opset = 8 if ir == 3 else 17
    model = g.build()
    model.graph.input.append(helper.make_tensor_value_info("wt", FLOAT, [16, 8]))
    prepared = prepare(model, tmp_path)
    assert [i.name for i in prepared.model.graph.input] == ["X"]
    assert list(prepared.initializers()) == ["w"]
    assert prepared.model.ir_version == max(ir, 4)
    assert prepared.noted("IR version") == (ir == 3)
    assert_same(model, prepared.model)


def test_large_constants_do_not_pass_through_the_heap_at_once(tmp_path):
    """Eight weights of 8 MiB each, transposed: groups of a few."""
    g = Graph()
    x = g.input("X", [1, 1448])
    for k in range(8):
        g.const(f"t{k}", noise(1448, 1448, seed=k, scale=1448**-0.5))
        g.node("Transpose", [f"t{k}"], f"w{k}", f"transpose{k}", perm=[1, 0])
        x = g.node("MatMul", [x, f"w{k}"], f"m{k}", f"mm{k}")
    g.output(x, [1, 1448])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul"] * 8
    for k in range(8):
        before = numpy_helper.to_array(model.graph.initializer[k])
        assert np.array_equal(prepared.initializers()[f"w{k}"], before.T)
    assert_same(model, prepared.model, rtol=1e-5)  # the runtime packs constant weights


def test_what_the_runtime_cannot_evaluate_stays(tmp_path):
    """An index out of range fails when it is run; the branch with it never is."""
    g = Graph()
    x, c = g.input("X", [4, 8]), g.input("c", [], TensorProto.BOOL)
    nodes = [
        helper.make_node("Gather", ["wt", "bad"], ["wg"], "gather"),
        helper.make_node("Transpose", ["wg"], ["wb"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", [x, "wb"], ["mb"], "mmb"),
    ]
    g.const("bad", np.full(16, 99, np.int64))
    g.const("wt", np.ascontiguousarray(WEIGHT.T))
    value = helper.make_tensor_value_info("mb", FLOAT, [4, 16])
    then = helper.make_graph(nodes, "then", [], [value])
    other = helper.make_graph(
        [
            helper.make_node("Transpose", ["wt"], ["w"], "t", perm=[1, 0]),
            helper.make_node("MatMul", [x, "w"], ["m"], "mm"),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("m", FLOAT, [4, 16])],
    )
    g.node("If", [c], "Y", "if", then_branch=then, else_branch=other)
    g.output("Y", [4, 16])
    model = g.build()
    done, after = run_tool(model, tmp_path)
    assert done.returncode == 0, done.stderr
    result = onnx.load(after)
    names = {n.name for n in all_nodes(result.graph)}
    assert names == {"if", "gather", "turn", "mmb", "mm"}
    assert "'wb' was not evaluated" in done.stdout
    assert_same(model, result, feeds={"X": noise(4, 8), "c": np.array(False)})


# ---- BatchNormalization


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


# ---- Versions


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
