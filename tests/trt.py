#!/usr/bin/env python3
"""Compiles ONNX models with TensorRT, which needs no GPU for it, and tells what became of them.

usage: trt.py MODEL... [--shape NAME=1x3x224x224]... [--nodes] [--json]

Runs where the package `tensorrt_rtx` is installed. For each model: whether it parses and builds, how many kernels it
became, the data type of the kernel behind each Conv, ConvTranspose, Gemm and MatMul, and the bytes of activations that
all kernels read and write. Dimensions that no --shape fixes are 1. Exit 1 when a model does not build.

The compiler's verbose log describes each kernel in one line: its kind, the tensors that go in and out, constants apart,
and the ONNX nodes that it stands for. Kinds: `correlation`, `gemm` and the like are matrix kernels; `kgen` are generated
ones, mostly pointwise, where attention can end up as a whole.
"""

import argparse
import json
import math
import re
import sys
from collections import Counter
from dataclasses import dataclass

MATRIX_OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
GENERATED = "kgen"
WAITING = ("signal", "wait")  # synchronisation, no work
BITS = {
    "Bool": 8,
    "Int8": 8,
    "UInt8": 8,
    "FP8": 8,
    "Half": 16,
    "BFloat16": 16,
    "Int64": 64,
    "Int4": 4,
    "FP4": 4,
}
NO_GPU = ("cudaError 35", "driver version is insufficient", "CUDA initialization failure")

KIND = re.compile(r"\bLayerType: (\w+)")
SECTION = re.compile(r"\b(Inputs|Constants|Outputs): \[ (\{.*?\})\]")
TENSOR = re.compile(r"\{ Name: .*?, Dimensions: \[([-\d,]*)\],.*?Datatype: (\w+)")
ORIGIN = re.compile(r"\[ONNX Layer: ([^\]]+)\]")


@dataclass(frozen=True)
class Tensor:
    type: str
    shape: tuple

    @property
    def count(self):
        return math.prod(abs(size) for size in self.shape)

    @property
    def bytes(self):
        return self.count * BITS.get(self.type, 32) // 8


@dataclass(frozen=True)
class Kernel:
    kind: str
    inputs: tuple
    outputs: tuple
    nodes: frozenset  # names of the ONNX nodes that it computes, or takes part in

    @property
    def type(self):
        """The type it computes in: that of its largest input; an attention mask beside it may be float."""
        return max(self.inputs, key=lambda tensor: tensor.count).type if self.inputs else "none"

    @property
    def traffic(self):
        return sum(tensor.bytes for tensor in self.inputs + self.outputs)


def read_kernel(line):
    """A kernel from its line of the log; None where the line describes no work."""
    kind = KIND.search(line)
    if not kind or kind[1] in WAITING:
        return None
    sections = {"Inputs": (), "Outputs": ()}
    for name, text in SECTION.findall(line):
        sections[name] = tuple(
            Tensor(type_, tuple(int(size) for size in shape.split(",") if size))
            for shape, type_ in TENSOR.findall(text)
        )
    return Kernel(kind[1], sections["Inputs"], sections["Outputs"], frozenset(ORIGIN.findall(line)))


def read_log(messages):
    lines = dict.fromkeys(
        line for message in messages for line in message.splitlines()
    )  # each kernel comes twice
    return [kernel for kernel in map(read_kernel, lines) if kernel]


def type_of_node(name, kernels):
    """The data type a matrix operator is computed in; a matrix kernel knows better than a generated one."""
    own = [kernel for kernel in kernels if name in kernel.nodes]
    matrix = [kernel for kernel in own if kernel.kind != GENERATED]
    return (matrix or own)[0].type if own else "none"


def compile_model(path, shapes):
    import onnx
    import tensorrt_rtx as trt

    class Log(trt.ILogger):
        def __init__(self):
            super().__init__()
            self.messages, self.errors = [], []

        def log(self, severity, message):
            self.messages.append(message)
            if severity <= trt.ILogger.ERROR and not any(words in message for words in NO_GPU):
                self.errors.append(message)

    log = Log()
    builder = trt.Builder(log)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(path):
        errors = [parser.get_error(i).desc() for i in range(parser.num_errors)]
        return {"parsed": False, "built": False, "errors": errors}

    config = builder.create_builder_config()
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        if -1 in tuple(tensor.shape):
            shape = shapes.get(tensor.name, [max(size, 1) for size in tensor.shape])
            profile.set_shape(tensor.name, shape, shape, shape)
    config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)

    kernels = read_log(log.messages)
    graph = onnx.load(path, load_external_data=False).graph
    # The parser names an unnamed node by its first output.
    named = [
        (n.name or "node_of_" + n.output[0], n) for n in graph.node if n.domain in ("", "ai.onnx")
    ]
    nodes = {
        name: type_of_node(name, kernels) for name, n in named if n.op_type in MATRIX_OPERATORS
    }
    operators = {name: n.op_type for name, n in named}
    by_operator = {op: Counter() for op in MATRIX_OPERATORS}
    for name, type_ in nodes.items():
        by_operator[operators[name]][type_] += 1
    return {
        "parsed": True,
        "built": engine is not None,
        "errors": log.errors,
        "kernels": len(kernels),
        "kinds": dict(Counter(kernel.kind for kernel in kernels)),
        # Values between kernels, by type.
        "values": dict(Counter(tensor.type for kernel in kernels for tensor in kernel.outputs)),
        "traffic_bytes": sum(kernel.traffic for kernel in kernels),
        "operators": {op: dict(types) for op, types in by_operator.items() if types},
        "nodes": nodes,
    }


def table(path, result, with_nodes):
    if not result["built"]:
        step = "build" if result["parsed"] else "parse"
        return "\n".join(
            [f"{path}: does not {step}", *(f"  {error}" for error in result["errors"])]
        )
    kinds = ", ".join(f"{count} {kind}" for kind, count in result["kinds"].items())
    lines = [
        f"{path}: {result['kernels']} kernels ({kinds}), {result['traffic_bytes'] / 1e6:.1f} MB of activations"
    ]
    for op, types in result["operators"].items():
        lines.append(
            f"  {op:14} " + ", ".join(f"{count} {type_}" for type_, count in types.items())
        )
    if with_nodes:
        lines += [f"    {type_:8} {name}" for name, type_ in result["nodes"].items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224")
    parser.add_argument("--nodes", action="store_true", help="each matrix operator too")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    shapes = {}
    for text in given.shape:
        name, _, sizes = text.rpartition("=")
        shapes[name] = [int(size) for size in sizes.split("x")]
    results = {path: compile_model(path, shapes) for path in given.models}
    if given.json:
        print(json.dumps(results))
    else:
        print("\n".join(table(path, result, given.nodes) for path, result in results.items()))
    return 0 if all(result["built"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
