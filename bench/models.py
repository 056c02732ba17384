#!/usr/bin/env python3
"""Models and data for the benchmarks and the tests: made from a seed, always the same.

usage: models.py resnet50|encoder OUT.onnx
       models.py data resnet50|encoder COUNT OUT.npz

resnet50  53 convolutions with BatchNormalization folded in, as an exporter leaves it, and the final Gemm; input N x 3 x 224 x 224.
encoder   12 transformer layers as an exporter writes them: MatMul and Add for each projection, attention as MatMul, Div, Softmax,
          MatMul, GELU as its Erf chain; width 384, 12 heads, 128 tokens, 96 matrix products; input N x 128 token ids.

The weights are random, scaled so that activations keep an ordinary range; nobody should expect the outputs to mean anything.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RESNET50_STAGES = (3, 4, 6, 3)
TOKENS, VOCABULARY = 128, 4096


class Graph:
    """Nodes and initializers under construction; every method returns the name of the tensor it made."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, name, values):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, op, inputs, name, **attributes):
        output = name + "_output_0"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def normal(self, shape, deviation):
        return (
            self.random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        ).astype(np.float32)

    def save(self, path, name, inputs, outputs):
        graph = helper.make_graph(self.nodes, name, inputs, outputs, self.weights)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
            producer_name="onnxptq-bench",
        )
        onnx.checker.check_model(model)
        onnx.save(model, path)


def convolution(g, x, name, channels_in, channels, kernel, stride=1, gain=1.0):
    """A convolution whose output channels differ in scale, as they do once BatchNormalization is folded in."""
    spread = np.exp(g.random.normal(0, 0.3, (channels, 1, 1, 1))).astype(np.float32)
    w = (
        g.normal(
            (channels, channels_in, kernel, kernel),
            gain * np.sqrt(2 / (channels_in * kernel * kernel)),
        )
        * spread
    )
    return g.node(
        "Conv",
        [x, g.weight(name + ".weight", w), g.weight(name + ".bias", g.normal((channels,), 0.1))],
        name,
        dilations=[1, 1],
        group=1,
        kernel_shape=[kernel, kernel],
        pads=[kernel // 2] * 4,
        strides=[stride, stride],
    )


def bottleneck(g, x, name, channels_in, width, stride):
    """One residual block; the branch is damped so that 16 of them in a row do not blow the activations up."""
    y = g.node("Relu", [convolution(g, x, name + "/conv1", channels_in, width, 1)], name + "/relu1")
    y = g.node(
        "Relu", [convolution(g, y, name + "/conv2", width, width, 3, stride)], name + "/relu2"
    )
    y = convolution(g, y, name + "/conv3", width, 4 * width, 1, gain=0.4)
    if channels_in != 4 * width:
        x = convolution(g, x, name + "/downsample", channels_in, 4 * width, 1, stride, gain=0.7)
    return g.node("Relu", [g.node("Add", [y, x], name + "/add")], name + "/relu3")


def write_resnet50(path, stages=RESNET50_STAGES, size=224, classes=1000):
    g = Graph(50)
    x = g.node("Relu", [convolution(g, "input", "/conv1", 3, 64, 7, 2)], "/relu")
    x = g.node("MaxPool", [x], "/maxpool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    channels = 64
    for stage, blocks in enumerate(stages):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = bottleneck(g, x, f"/layer{stage + 1}/block{block}", channels, width, stride)
            channels = 4 * width
    x = g.node("Flatten", [g.node("GlobalAveragePool", [x], "/avgpool")], "/flatten", axis=1)
    w = g.weight("fc.weight", g.normal((classes, channels), np.sqrt(1 / channels)))
    g.nodes.append(
        helper.make_node(
            "Gemm",
            [x, w, g.weight("fc.bias", g.normal((classes,), 0.1))],
            ["output"],
            name="/fc",
            transB=1,
        )
    )
    g.save(
        path,
        "resnet50",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, size, size])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", classes])],
    )


def linear(g, x, name, wide_in, wide_out, gain=1.0):
    w = g.weight(name + ".weight", g.normal((wide_in, wide_out), gain * np.sqrt(1 / wide_in)))
    y = g.node("MatMul", [x, w], name + "/MatMul")
    return g.node("Add", [g.weight(name + ".bias", g.normal((wide_out,), 0.05)), y], name + "/Add")


def layer_norm(g, x, name, width):
    scale = g.weight(name + ".weight", 1 + g.normal((width,), 0.1))
    return g.node(
        "LayerNormalization",
        [x, scale, g.weight(name + ".bias", g.normal((width,), 0.1))],
        name,
        axis=-1,
        epsilon=1e-12,
    )


def attention(g, x, name, width, heads):
    """Self-attention; the constants have names of their own in each layer, as exporters write them."""
    size = width // heads
    split = g.weight(name + "/split", np.array([0, -1, heads, size], np.int64))
    join = g.weight(name + "/join", np.array([0, -1, width], np.int64))

    def head(part, order):
        y = linear(g, x, f"{name}/{part}", width, width)
        return g.node(
            "Transpose",
            [g.node("Reshape", [y, split], f"{name}/{part}/Reshape")],
            f"{name}/{part}/Transpose",
            perm=order,
        )

    q, k, v = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
    scores = g.node("MatMul", [q, k], name + "/MatMul")
    scores = g.node(
        "Div",
        [scores, g.weight(name + "/root", np.array(np.sqrt(size), np.float32))],
        name + "/Div",
    )
    y = g.node(
        "MatMul", [g.node("Softmax", [scores], name + "/Softmax", axis=-1), v], name + "/MatMul_1"
    )
    y = g.node("Transpose", [y], name + "/Transpose", perm=[0, 2, 1, 3])
    return linear(
        g, g.node("Reshape", [y, join], name + "/Reshape"), name + "/output", width, width
    )


def gelu(g, x, name):
    y = g.node(
        "Div", [x, g.weight(name + "/root", np.array(np.sqrt(2), np.float32))], name + "/Div"
    )
    y = g.node("Erf", [y], name + "/Erf")
    y = g.node("Add", [y, g.weight(name + "/one", np.array(1, np.float32))], name + "/Add")
    y = g.node("Mul", [x, y], name + "/Mul")
    return g.node("Mul", [y, g.weight(name + "/half", np.array(0.5, np.float32))], name + "/Mul_1")


def write_encoder(path, layers=12, width=384, heads=12, tokens=TOKENS):
    g = Graph(12)
    x = g.node(
        "Gather",
        [g.weight("embeddings.weight", g.normal((VOCABULARY, width), 1)), "input_ids"],
        "/embeddings",
    )
    x = g.node(
        "Add", [x, g.weight("positions.weight", g.normal((tokens, width), 0.3))], "/positions"
    )
    x = layer_norm(g, x, "/embeddings/norm", width)
    for i in range(layers):
        name = f"/layer.{i}"
        y = g.node(
            "Add",
            [attention(g, x, name + "/attention", width, heads), x],
            name + "/attention/residual",
        )
        x = layer_norm(g, y, name + "/attention/norm", width)
        y = gelu(g, linear(g, x, name + "/up", width, 4 * width, 2.0), name + "/gelu")
        y = linear(g, y, name + "/down", 4 * width, width)
        x = layer_norm(g, g.node("Add", [y, x], name + "/residual"), name + "/norm", width)
    g.nodes[-1].output[0] = "last_hidden_state"
    g.save(
        path,
        "encoder",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", tokens])],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["batch", tokens, width]
            )
        ],
    )


def resnet50_data(count, size=224, seed=1):
    """Smooth random images, of the range that pictures have after the usual normalisation."""
    random = np.random.default_rng(seed)
    images = np.empty((count, 3, size, size), np.float32)
    for image in images:
        coarse = random.standard_normal((3, 8, 8), dtype=np.float32)
        fine = random.standard_normal((3, size, size), dtype=np.float32)
        image[:] = (
            np.kron(coarse, np.ones((1, -(-size // 8), -(-size // 8)), np.float32))[:, :size, :size]
            + 0.3 * fine
        )
    return {"input": images}


def encoder_data(count, tokens=TOKENS, seed=1):
    return {"input_ids": np.random.default_rng(seed).integers(0, VOCABULARY, (count, tokens))}


MODELS = {"resnet50": write_resnet50, "encoder": write_encoder}
DATA = {"resnet50": resnet50_data, "encoder": encoder_data}


def main(arguments):
    if len(arguments) == 2 and arguments[0] in MODELS:
        MODELS[arguments[0]](arguments[1])
    elif len(arguments) == 4 and arguments[0] == "data" and arguments[1] in DATA:
        np.savez(arguments[3], **DATA[arguments[1]](int(arguments[2])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
