"""Preparing models by the tool of the tests, and running what comes out beside the original."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import harness
import numpy as np
import onnx
from models import FLOAT, Graph
from onnx import helper, numpy_helper

TOOL = Path(os.environ.get("ONNXPTQ_PREPARE", harness.OPS.parent / "test-tools" / "prepare_model"))

# ---- Running ------------------------------------------------------------------------------------


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


# ---- Local functions ----------------------------------------------------------------------------


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


# ---- Constants ----------------------------------------------------------------------------------


def constant(output, **value):
    return helper.make_node("Constant", [], [output], f"make_{output}", **value)
