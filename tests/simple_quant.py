"""The yardstick: symmetric int8 on the inputs of Conv, Gemm and MatMul, and nothing else, by a simple script of the
tests' own. Activations per tensor with the range of all samples, weights per output channel. Main graph only."""

import harness
import numpy as np
import onnx
from onnx import helper, numpy_helper

WEIGHTED = ("Conv", "Gemm", "MatMul")
ROUND_SINCE = 11  # opset


def constants(graph):
    found = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def inputs_to_quantize(graph, left_float):
    """[(node, index, constant value or None)]"""
    known = constants(graph)
    found = []
    for node in graph.node:
        if node.op_type in WEIGHTED and node.domain == "" and node.name not in left_float:
            found += [(node, index, known.get(node.input[index])) for index in (0, 1)]
    return [f for f in found if f[2] is None or f[2].dtype == np.float32]


def rounded_weight(node, index, value):
    axis = {"Conv": 0, "MatMul": value.ndim - 1 if index == 1 else value.ndim - 2}.get(node.op_type)
    if node.op_type == "Gemm":
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        axis = 0 if transposed else 1
    others = tuple(k for k in range(value.ndim) if k != axis)
    scale = np.abs(value).max(axis=others, keepdims=True) / 127
    scale[scale == 0] = 1
    return (np.clip(np.rint(value / scale), -127, 127) * scale).astype(np.float32)


def largest(model, names, feeds):
    """{tensor: largest magnitude over all samples}"""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    outputs = {o.name for o in model.graph.output}
    fed = {i.name for i in model.graph.input}
    for name in names - outputs - fed:
        probe.graph.output.append(onnx.ValueInfoProto(name=name))
    found = dict.fromkeys(names, 0.0)
    live = harness.session(probe)
    made = [o.name for o in live.get_outputs()]
    for feed in feeds:
        values = dict(zip(made, live.run(None, feed))) | feed
        for name in names:
            if values[name].size:
                found[name] = max(found[name], float(np.abs(values[name]).max()))
    return found


def simulate(model, feeds, left_float=frozenset()):
    """A float model that computes what the int8 one would: x becomes clip(round(x / s)) s. The nodes
    named in `left_float` are left alone."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for entry in result.opset_import:
        if entry.domain == "" and entry.version < ROUND_SINCE:
            entry.version = ROUND_SINCE
    edges = inputs_to_quantize(graph, left_float)
    ranges = largest(model, {n.input[k] for n, k, value in edges if value is None}, feeds)
    made, done = {}, {}
    for number, (node, index, value) in enumerate(edges):
        tensor = node.input[index]
        if value is not None:
            name = f"yardstick.w{number}"
            weight = rounded_weight(node, index, value)
            graph.initializer.append(numpy_helper.from_array(weight, name))
            node.input[index] = name
        else:
            if tensor not in done:
                done[tensor] = f"yardstick.x{number}"
                made[tensor] = rounding(graph, tensor, done[tensor], ranges[tensor])
            node.input[index] = done[tensor]
    _insert(graph, made)
    return result


def rounding(graph, tensor, output, extent):
    scale = extent / 127 if extent > 0 else 1.0
    names = {}
    for key, value in (("s", scale), ("lo", -128.0), ("hi", 127.0)):
        names[key] = f"{output}.{key}"
        graph.initializer.append(numpy_helper.from_array(np.float32(value), names[key]))
    steps = [
        ("Div", [tensor, names["s"]], f"{output}.div"),
        ("Round", [f"{output}.div"], f"{output}.round"),
        ("Clip", [f"{output}.round", names["lo"], names["hi"]], f"{output}.clip"),
        ("Mul", [f"{output}.clip", names["s"]], output),
    ]
    return [helper.make_node(op, inputs, [name], name=name) for op, inputs, name in steps]


def _insert(graph, made):
    """Puts the nodes made for each tensor behind its producer."""
    fed = {i.name for i in graph.input}
    nodes = [n for tensor, group in made.items() if tensor in fed for n in group]
    for node in graph.node:
        nodes.append(node)
        nodes += [n for output in node.output for n in made.get(output, [])]
    copies = [onnx.NodeProto() for _ in nodes]
    for copy, node in zip(copies, nodes):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(copies)
