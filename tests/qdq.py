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
    """Index of a model's main graph. Nodes are known by name; the tests' models name all of
    theirs."""

    def __init__(self, model):
        self.model = model
        self.graph = model.graph
        self.initializers = {i.name: i for i in self.graph.initializer}
        self.producer = {o: n for n in self.graph.node for o in n.output if o}
        self.nodes = {n.name: n for n in self.graph.node if not is_pair(n)}

    def consumers(self, tensor):
        return [n for n in self.graph.node if tensor in n.input]

    def value(self, name):
        """A constant's value, from an initializer or a Constant node."""
        if name in self.initializers:
            return numpy_helper.to_array(self.initializers[name])
        node = self.producer[name]
        assert node.op_type == "Constant", f"{name} is not a constant"
        return numpy_helper.to_array(node.attribute[0].t)

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

    def is_bias(self, tensor):
        """Whether a tensor is a dequantized int32 constant."""
        constant = self.initializers.get(self.dequantizer(tensor).input[0])
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
    """What every result owes whatever the model: unique names, topological order, nothing
    dangling, sane parameters."""
    view = View(model)
    graph = model.graph
    known = {i.name for i in graph.input} | set(view.initializers)
    for node in graph.node:
        for tensor in node.input:
            assert not tensor or tensor in known, f"{node.name}: {tensor} is read before it is made"
        for tensor in node.output:
            assert not tensor or tensor not in known, f"{tensor} is made twice"
            known.add(tensor)
    for output in graph.output:
        assert output.name in known, f"output {output.name} is never made"
    names = Counter(n.name for n in graph.node if n.name)
    assert not [n for n, count in names.items() if count > 1], "node names repeat"
    assert len(view.initializers) == len(graph.initializer), "initializer names repeat"

    for node in filter(is_pair, graph.node):
        scale = view.value(node.input[1])
        assert np.all(np.isfinite(scale)) and np.all(scale > 0), f"{node.name}: scale {scale}"
        if len(node.input) > 2:
            assert view.value(node.input[2]).shape == scale.shape, f"{node.name}: zero point"
        else:  # which would mean uint8
            assert node.op_type == "DequantizeLinear" and view.is_bias(node.output[0]), (
                f"{node.name}: no zero point"
            )
        assert all(view.consumers(o) or o in {g.name for g in graph.output} for o in node.output), (
            f"{node.name} is dead"
        )
    domains = {o.domain for o in model.opset_import}
    assert {n.domain for n in graph.node} <= domains | {"ai.onnx"}, (
        "a domain is used but not imported"
    )


def assert_rest_unchanged(original, quantized):
    """Every node of the original is still there, in order and as it was, but for inputs that now
    come through a pair."""
    before, after = View(original), View(quantized)
    order = [n.name for n in original.graph.node]
    kept = [n.name for n in quantized.graph.node if n.name in set(order) and not is_pair(n)]
    assert kept == order
    outputs = {o.name for o in original.graph.output}

    for name in order:
        old, new = before.nodes[name], after.nodes[name]
        stripped = []
        for node in (old, new):
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            del copy.input[:], copy.output[:]
            stripped.append(copy.SerializeToString(deterministic=True))
        assert stripped[0] == stripped[1], f"{name} was changed"
        assert len(old.input) == len(new.input), name
        for was, now in zip(old.input, new.input):
            assert _same_source(before, after, was, now), f"{name}: input {was} became {now}"
        for was, now in zip(old.output, new.output):
            owned = (
                was in outputs and after.dequantizer(was) is not None and after.source(was) == now
            )
            assert was == now or owned, f"{name}: output {was} became {now}"
    for name, tensor in after.initializers.items():
        if name in before.initializers:
            assert tensor == before.initializers[name], f"initializer {name} was changed"
        else:
            assert after.consumers(name), f"initializer {name} is read by nobody"


def _same_source(before, after, was, now):
    """Whether the input `now` is the tensor `was`, directly, through a pair, or as its quantized
    copy."""
    if was == now:
        return True
    dq = after.dequantizer(now)
    if dq is None:
        return False
    if dq.input[0] in after.initializers:
        return (
            was in before.initializers and after.value(dq.input[0]).shape == before.value(was).shape
        )
    source = after.source(now)
    if source == was:
        return True
    outputs = {o.name for o in before.graph.output}  # a graph output may have moved behind its pair
    return was in outputs and after.dequantizer(was) is not None and after.source(was) == source
