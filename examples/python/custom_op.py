"""A custom operator written in C, end to end: compile it, use it in a model, quantize, run.

usage: custom_op.py FOLDER [INCLUDE]

FOLDER takes the files that are made, INCLUDE is where onnxruntime_c_api.h is
(/usr/include/onnxruntime).
"""

# %% Compile the library
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnxptq

folder = Path(sys.argv[1])
include = sys.argv[2] if len(sys.argv) > 2 else "/usr/include/onnxruntime"
library = folder / "libswish.so"
source = Path(__file__).with_name("swish_op.c")
compiler = os.environ.get("CC", "cc")
command = [compiler, "-O2", "-shared", "-fPIC", "-I", include, source, "-lm", "-o", library]
subprocess.run(command, check=True)

# %% A small network that uses it
rng = np.random.default_rng(0)


def conv(name, x, y, inputs, outputs):
    weight = rng.normal(0, (9 * inputs) ** -0.5, (outputs, inputs, 3, 3)).astype(np.float32)
    weights.append(numpy_helper.from_array(weight, name + ".weight"))
    return helper.make_node("Conv", [x, name + ".weight"], [y], name, pads=[1, 1, 1, 1])


weights: list[onnx.TensorProto] = []
nodes = [
    conv("first", "image", "a", 32, 32),
    helper.make_node("Swish", ["a"], ["b"], "swish", domain="custom_domain", beta=1.5),
    conv("second", "b", "features", 32, 32),
]
shape = ["batch", 32, 32, 32]
graph = helper.make_graph(
    nodes,
    "network",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("features", TensorProto.FLOAT, shape)],
    weights,
)
versions = [helper.make_opsetid("", 17), helper.make_opsetid("custom_domain", 1)]
model = helper.make_model(graph, opset_imports=versions, ir_version=8)

# %% Who can run it? Nobody, without the library
print("missing:", onnxptq.inspect(model).missing)
print("missing with the library:", onnxptq.inspect(model, custom_op_libs=library).missing)


# %% Quantize, with samples from a generator
def samples(count, seed):
    source = np.random.default_rng(seed)
    for _ in range(count):
        yield {"image": source.normal(size=(1, 32, 32, 32)).astype(np.float32)}


path = folder / "network.int8.onnx"
result = onnxptq.quantize(model, path, samples(32, 1), custom_op_libs=library, overwrite=True)
print(result)
for decision in result.plan:
    print(f"{decision.name:8} {decision.op:22} {decision.decision:10} {decision.reason}")

# %% Run both
import onnxruntime as ort


def run(model):
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(library))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, sample)[0] for sample in samples(8, 2)])


before, after = run(model.SerializeToString()), run(str(path))
error = 10 * np.log10(np.sum(before**2) / np.sum((before - after) ** 2))
print(f"signal to noise on new samples: {error:.1f} dB")
