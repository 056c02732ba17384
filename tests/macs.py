"""Multiply-accumulates of a model's matrix operators, from the shapes of one run."""

import math

import harness
import onnx

COUNTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU")


def _values(model, tensors, feed, libs):
    """{tensor: value} in a run of `feed`."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    made = {o for n in model.graph.node for o in n.output if o}
    outputs = {o.name for o in model.graph.output}
    for name in sorted((tensors & made) - outputs):
        probe.graph.output.append(onnx.ValueInfoProto(name=name))
    return {**feed, **harness.run_model(probe, [feed], libs, optimize=False)[0]}


def shapes(model, feed, libs=()):
    """{tensor: shape} of whatever the main graph's counted operators read and write."""
    wanted = {t for n in model.graph.node if n.op_type in COUNTED for t in (*n.input, *n.output)}
    found = {i.name: tuple(i.dims) for i in model.graph.initializer}
    values = _values(model, wanted, feed, libs)
    return found | {name: value.shape for name, value in values.items()}


def count(model, feed, libs=()):
    """{node: multiply-accumulates}, for a run of `feed`. Bodies of control flow are not looked into:
    see `flatten`."""
    known = shapes(model, feed, libs)
    return {
        node.name: _of(node, known)
        for node in model.graph.node
        if node.op_type in COUNTED and node.domain == ""
    }


def _of(node, known):
    inputs = [known.get(t) for t in node.input]
    output = next(known[o] for o in node.output if o)
    if node.op_type == "Conv":
        return math.prod(output) * math.prod(inputs[1][1:])
    if node.op_type == "ConvTranspose":
        return math.prod(inputs[0]) * math.prod(inputs[1][1:])
    if node.op_type in ("Gemm", "MatMul"):
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        depth = inputs[0][-2] if transposed else inputs[0][-1]
        return math.prod(output) * depth
    steps, batch = inputs[0][0], inputs[0][1]
    weights = math.prod(inputs[1]) + math.prod(inputs[2])
    return steps * batch * weights


def flatten(model, feed, libs=()):
    """The model with each If replaced by the branch that a run of `feed` takes, again and again until
    none is left; its nodes keep their names."""
    while any(n.op_type == "If" for n in model.graph.node):
        conditions = {n.input[0] for n in model.graph.node if n.op_type == "If"}
        taken = _values(model, conditions, feed, libs)
        result = onnx.ModelProto()
        result.CopyFrom(model)
        del result.graph.node[:]
        for node in model.graph.node:
            if node.op_type == "If":
                _inline(result.graph, node, bool(taken[node.input[0]].item()))
            else:
                result.graph.node.append(node)
        model = result
    return model


def _inline(graph, node, taken):
    name = "then_branch" if taken else "else_branch"
    body = next(a.g for a in node.attribute if a.name == name)
    graph.node.extend(body.node)
    graph.initializer.extend(body.initializer)
    for inner, outer in zip(body.output, node.output):
        alias = onnx.helper.make_node("Identity", [inner.name], [outer], name=f"{outer}.alias")
        graph.node.append(alias)
