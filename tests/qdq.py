"""Reads a quantized model: which inputs of which nodes come through DequantizeLinear, and with
what parameters."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

PAIR = ("QuantizeLinear", "DequantizeLinear")
BIAS_INPUT = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2}


def is_pair(node):
    return node.op_type in PAIR and node.domain in ("", "ai.onnx")


def nodes_of(graph):
    """All nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from nodes_of(body)


@dataclass
class Params:
    """A DequantizeLinear in front of a node's input."""

    source: str  # the float tensor behind the pair, or the quantized initializer
    type: np.dtype
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    weight: np.ndarray  # quantized values, or None for an activation


class View:
    """Index of a model's main graph, or of the body `graph` inside `outer`. Nodes are known by
    name; the tests' models name all of theirs."""

    def __init__(self, model, graph=None, outer=None):
        self.model = model
        self.graph = graph or model.graph
        self.initializers = dict(outer.initializers) if outer else {}
        self.initializers |= {i.name: i for i in self.graph.initializer}
        self.sparse = {i.values.name for i in self.graph.sparse_initializer}
        self.producer = dict(outer.producer) if outer else {}
        self.producer |= {o: n for n in self.graph.node for o in n.output if o}
        self.nodes = {n.name: n for n in self.graph.node if not is_pair(n)}

    def bodies(self):
        """Views of the bodies of the graph's own control flow."""
        for node in self.graph.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    yield View(self.model, attribute.g, self)

    def consumers(self, tensor):
        """Nodes that read a tensor of the main graph, in bodies of control flow too."""
        return [n for n in nodes_of(self.graph) if tensor in n.input]

    def value(self, name):
        """A constant's value, from an initializer or a Constant node."""
        if name in self.initializers:
            return numpy_helper.to_array(self.initializers[name])
        node = self.producer[name]
        assert node.op_type == "Constant", f"{name} is not a constant"
        return numpy_helper.to_array(node.attribute[0].t)

    def is_constant(self, tensor):
        """Whether nothing that is fed has a part in a tensor."""
        if tensor in self.initializers or tensor in self.sparse:
            return True
        node = self.producer.get(tensor)
        return node is not None and all(self.is_constant(t) for t in node.input if t)

    def dequantizer(self, tensor):
        node = self.producer.get(tensor)
        return (
            node
            if node is not None and node.op_type == "DequantizeLinear" and is_pair(node)
            else None
        )

    def source(self, tensor):
        """The tensor before the pair, or the tensor itself where there is none."""
        dq = self.dequantizer(tensor)
        if dq is None:
            return tensor
        q = self.producer.get(dq.input[0])
        return q.input[0] if q is not None and q.op_type == "QuantizeLinear" else dq.input[0]

    def params(self, node, index):
        dq = self.dequantizer(self.nodes[node].input[index])
        assert dq is not None, f"input {index} of {node} does not come through DequantizeLinear"
        zero_point = self.value(dq.input[2]) if len(dq.input) > 2 and dq.input[2] else np.uint8(0)
        axis = next((a.i for a in dq.attribute if a.name == "axis"), 1)
        weight = self.value(dq.input[0]) if dq.input[0] in self.initializers else None
        return Params(
            self.source(self.nodes[node].input[index]),
            zero_point.dtype,
            self.value(dq.input[1]),
            zero_point,
            axis,
            weight,
        )

    def edges(self):
        """{node: indices of its inputs that come through DequantizeLinear}, int32 biases aside."""
        found = {}
        for name, node in self.nodes.items():
            inputs = {
                i
                for i, t in enumerate(node.input)
                if self.dequantizer(t) is not None and not self.is_bias(t)
            }
            if inputs:
                found[name] = inputs
        return found

    def all_edges(self):
        """The same of the graph and of all bodies in it."""
        found = self.edges()
        for body in self.bodies():
            found |= body.all_edges()
        return found

    def is_bias(self, tensor):
        """Whether a tensor is a dequantized int32 constant."""
        dq = self.dequantizer(tensor)
        constant = self.initializers.get(dq.input[0]) if dq is not None else None
        return constant is not None and constant.data_type == onnx.TensorProto.INT32

    def quantized(self):
        """The set of quantized nodes."""
        return set(self.edges())

    def quantized_outputs(self):
        """Nodes an output of which is read by QuantizeLinear."""
        read = {n.input[0] for n in self.graph.node if n.op_type == "QuantizeLinear"}
        return {name for name, node in self.nodes.items() if read & set(node.output)}

    def bias(self, node):
        """'float', 'int32' or None."""
        op = self.nodes[node]
        index = BIAS_INPUT[op.op_type]
        if len(op.input) <= index or not op.input[index]:
            return None
        dq = self.dequantizer(op.input[index])
        return "float" if dq is None else str(self.value(dq.input[0]).dtype)


def dequantized(params):
    """A weight's values as the runtime sees them."""
    scale, zero = params.scale, params.zero_point.astype(np.int32)
    if scale.size > 1:
        shape = [1] * params.weight.ndim
        shape[params.axis] = scale.size
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (params.weight.astype(np.int32) - zero).astype(np.float32) * scale


def assert_well_formed(model):
    """What every result owes whatever the model: names of its own for the pairs, topological order,
    nothing dangling, sane parameters, in bodies of control flow too."""
    names = Counter(n.name for n in _all_nodes(model.graph))
    repeated = [n.name for n in _all_nodes(model.graph) if is_pair(n) and names[n.name] > 1]
    assert not repeated, f"node names repeat: {repeated}"
    _assert_graph_well_formed(View(model), set())
    imported = {"" if o.domain == "ai.onnx" else o.domain for o in model.opset_import}
    used = {"" if n.domain == "ai.onnx" else n.domain for n in _all_nodes(model.graph)}
    assert used <= imported, "a domain is used but not imported"


def _all_nodes(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _all_nodes(attribute.g)


def _assert_graph_well_formed(view, outer):
    graph = view.graph
    own = [i.name for i in graph.initializer]
    assert len(set(own)) == len(own), "initializer names repeat"
    known = outer | {i.name for i in graph.input} | set(own) | view.sparse
    for node in graph.node:
        for tensor in node.input:
            assert not tensor or tensor in known, f"{node.name}: {tensor} is read before it is made"
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _assert_graph_well_formed(View(view.model, attribute.g, view), known)
        for tensor in node.output:
            assert not tensor or tensor not in known, f"{tensor} is made twice"
            known.add(tensor)
    for output in graph.output:
        assert output.name in known, f"output {output.name} is never made"
    read = names_read(graph)
    for node in filter(is_pair, graph.node):
        _assert_pair_well_formed(view, node)
        assert read & set(node.output), f"{node.name} is dead"


def _assert_pair_well_formed(view, node):
    scale = view.value(node.input[1])
    assert np.all(np.isfinite(scale)) and np.all(scale > 0), f"{node.name}: scale {scale}"
    if len(node.input) > 2:
        assert view.value(node.input[2]).shape == scale.shape, f"{node.name}: zero point"
    else:  # which would mean uint8
        assert node.op_type == "DequantizeLinear" and view.is_bias(node.output[0]), (
            f"{node.name}: no zero point"
        )


def assert_rest_unchanged(original, quantized, gone=(), changed=()):
    """Every node of the original is still there, in order and as it was, but for inputs that now
    come through a pair, in bodies of control flow too. The nodes named in `gone` computed constants
    and are not there: what they computed is an initializer now, or its quantized copy. Those in
    `changed` have another form."""
    _assert_graph_unchanged(View(original), View(quantized), gone, changed)


def _assert_graph_unchanged(before, after, gone, changed):
    old_nodes = {n.name: n for n in before.graph.node}
    new_nodes = {n.name: n for n in after.graph.node}
    order = [name for name in old_nodes if name not in gone]
    assert [name for name in new_nodes if name in old_nodes] == order
    outputs = {o.name for o in before.graph.output}

    for name in order:
        if name in changed:
            continue
        old, new = old_nodes[name], new_nodes[name]
        assert _without_edges(old) == _without_edges(new), f"{name} was changed"
        assert len(old.input) == len(new.input), name
        for was, now in zip(old.input, new.input):
            assert _same_source(before, after, was, now), f"{name}: input {was} became {now}"
        for was, now in zip(old.output, new.output):
            owned = (
                was in outputs and after.dequantizer(was) is not None and after.source(was) == now
            )
            assert was == now or owned, f"{name}: output {was} became {now}"
    _assert_initializers_unchanged(before, after, gone)
    for inside, now in zip(before.bodies(), after.bodies(), strict=True):
        assert list(inside.graph.input) == list(now.graph.input)
        assert list(inside.graph.output) == list(now.graph.output)
        _assert_graph_unchanged(inside, now, gone, changed)


def _without_edges(node):
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    for attribute in copy.attribute:
        attribute.ClearField("g")
    return copy.SerializeToString(deterministic=True)


def names_read(graph):
    """Names of the tensors that anything reads, in the graph and its bodies, or that it returns."""
    names = {o.name for o in graph.output}
    for node in graph.node:
        names |= set(node.input)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                names |= names_read(attribute.g)
    return names


def _assert_initializers_unchanged(before, after, gone):
    """Those that are left are as they were, and nothing is there that nobody reads."""
    read, read_before = names_read(after.graph), names_read(before.graph)
    made = {o for n in before.graph.node if n.name in gone for o in n.output}
    was = {i.name: i for i in before.graph.initializer}
    for tensor in after.graph.initializer:
        name = tensor.name
        unread = name in was and (name not in read_before or after.model.training_info)
        assert name in read or unread, f"initializer {name} is read by nobody"
        if name in was:
            assert tensor == was[name], f"initializer {name} was changed"
        else:
            assert name not in before.producer or name in made, f"{name} was computed"


def _same_source(before, after, was, now):
    """Whether the input `now` is the tensor `was`, directly, through a pair, or as its quantized
    copy."""
    if was == now:
        return True
    dq = after.dequantizer(now)
    stored = after.initializers.get(now if dq is None else dq.input[0])
    if stored is not None and was in before.initializers:
        return after.is_bias(now) or list(stored.dims) == list(before.initializers[was].dims)
    if stored is not None or dq is None:
        return stored is not None and before.is_constant(was)
    source = after.source(now)
    if source == was:
        return True
    outputs = {o.name for o in before.graph.output}  # a graph output may have moved behind its pair
    return was in outputs and after.dequantizer(was) is not None and after.source(was) == source
