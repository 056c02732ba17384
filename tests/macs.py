"""Multiply-accumulates of a model's matrix operators, from the shapes of one run."""

import math

import harness
import onnx

COUNTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LSTM", "GRU")


def shapes(model, feed, libs=()):
    """{tensor: shape} of whatever the main graph's counted operators read and write."""
    wanted = {t for n in model.graph.node if n.op_type in COUNTED for t in (*n.input, *n.output)}
    wanted.discard("")
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    made = {o for n in model.graph.node for o in n.output}
    outputs = {o.name for o in model.graph.output}
    for name in sorted((wanted & made) - outputs):
        probe.graph.output.append(onnx.ValueInfoProto(name=name))
    found = {i.name: tuple(i.dims) for i in model.graph.initializer}
    found |= {name: value.shape for name, value in feed.items()}
    run = harness.run_model(probe, [feed], libs, optimize=False)[0]
    return found | {name: value.shape for name, value in run.items()}


def count(model, feed, libs=()):
    """{node: multiply-accumulates}, for a run of `feed`. Bodies of control flow are not looked into:
    see `inline_if`."""
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


def inline_if(model, taken):
    """The model with the Ifs of its main graph replaced by the branch `taken` ("then_branch" or
    "else_branch"), whose nodes keep their names."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "If":
            result.graph.node.append(node)
            continue
        body = next(a.g for a in node.attribute if a.name == taken)
        result.graph.node.extend(body.node)
        result.graph.initializer.extend(body.initializer)
        for inner, outer in zip(body.output, node.output):
            alias = onnx.helper.make_node("Identity", [inner.name], [outer], name=f"{outer}.alias")
            result.graph.node.append(alias)
    return result
