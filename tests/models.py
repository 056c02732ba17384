"""Small float models and their calibration data, made by readable builders. Every node has a
name.

A `Case` holds a model, the test operator libraries it needs, calibration data, and for each
target the exact inputs that quantization must reach: {node: {input indices}}, int32 biases
aside. Size rules are off for all of them."""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass
class Case:
    model: onnx.ModelProto
    data: dict
    tensorrt: dict = field(default_factory=dict)
    onnxruntime: dict = None  # where it differs from tensorrt
    libs: tuple = ()
    run_libs: tuple = None  # libraries for Python, where they differ

    def __post_init__(self):
        self.run_libs = self.libs if self.run_libs is None else self.run_libs

    def edges(self, target):
        return (
            self.tensorrt if target == "tensorrt" or self.onnxruntime is None else self.onnxruntime
        )

    def feeds(self):
        """The calibration data as one dict per run, of as many rows as the model declares."""
        constants = {i.name for i in self.model.graph.initializer}
        steps = {i.name: _rows(i) for i in self.model.graph.input if i.name not in constants}
        count = min(len(self.data[name]) // step for name, step in steps.items())
        return [
            {name: self.data[name][k * step : (k + 1) * step] for name, step in steps.items()}
            for k in range(count)
        ]


def _rows(value_info):
    return value_info.type.tensor_type.shape.dim[0].dim_value or 1


class Graph:
    """Builds a model node by node; tensors are passed and returned by name."""

    def __init__(self, seed=0, opset=17, ir=8, **domains):
        self.rng = np.random.default_rng(seed)
        self.opset, self.ir = opset, ir
        self.domains = {key.replace("_dot_", "."): version for key, version in domains.items()}
        self.inputs, self.outputs, self.nodes, self.initializers = [], [], [], []

    def input(self, name, shape, dtype=FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name, shape, dtype=FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def const(self, name, value):
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, *shape, std=0.3):
        return self.const(name, (self.rng.standard_normal(shape) * std).astype(np.float32))

    def node(self, op, inputs, output, name=None, domain="", **attributes):
        outputs = [output] if isinstance(output, str) else output
        self.nodes.append(
            helper.make_node(
                op, inputs, outputs, name=name or op.lower(), domain=domain, **attributes
            )
        )
        return outputs[0]

    def conv(
        self, x, output, channels_in, channels_out, kernel=3, name=None, bias=True, **attributes
    ):
        name = name or f"conv_{output}"
        group = attributes.get("group", 1)
        fan_in = channels_in // group * kernel * kernel
        w = self.weight(
            f"{name}.weight", channels_out, channels_in // group, kernel, kernel, std=fan_in**-0.5
        )
        inputs = [x, w] + ([self.weight(f"{name}.bias", channels_out, std=0.1)] if bias else [])
        attributes.setdefault("pads", [kernel // 2] * 4)
        return self.node("Conv", inputs, output, name, kernel_shape=[kernel, kernel], **attributes)

    def matmul(self, x, output, rows, columns, name):
        w = self.weight(f"{name}.weight", rows, columns, std=rows**-0.5)
        return self.node("MatMul", [x, w], output, name)

    def build(self, **fields):
        graph = helper.make_graph(self.nodes, "graph", self.inputs, self.outputs, self.initializers)
        imports = [helper.make_opsetid("", self.opset)]
        imports += [
            helper.make_opsetid(domain, version) for domain, version in self.domains.items()
        ]
        return helper.make_model(
            graph, opset_imports=imports, ir_version=self.ir, producer_name="tests", **fields
        )


def noise(*shape, seed=1, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


BOTH = {0, 1}


# Models with foreign operators


def dummy_op(graph, x, output, name="/block/custom"):
    return graph.node(
        "DummyOp",
        [x],
        output,
        name,
        "custom_domain",
        alpha=0.75,
        mode="soft",
        axes=[3, 1, 2],
        label=helper.make_tensor("label", FLOAT, [2], [0.5, -0.5]),
    )


def motivating():
    """Conv, Relu, a foreign operator, Conv, Relu."""
    g = Graph(custom_domain=1)
    x = g.input("X", [1, 3, 8, 8])
    x = g.node("Relu", [g.conv(x, "c1", 3, 32, name="conv1")], "r1", "relu1")
    x = g.conv(dummy_op(g, x, "d"), "c2", 32, 32, name="conv2")
    g.node("Relu", [x], "Y", "relu2")
    g.output("Y", [1, 32, 8, 8])
    return Case(
        g.build(), {"X": noise(8, 3, 8, 8)}, {"conv1": BOTH, "conv2": BOTH}, libs=("dummy",)
    )


def custom_first():
    g = Graph(custom_domain=1)
    x = g.conv(dummy_op(g, g.input("X", [1, 3, 8, 8]), "d"), "c", 3, 32, name="conv1")
    g.node("Relu", [x], "Y", "relu1")
    g.output("Y", [1, 32, 8, 8])
    return Case(g.build(), {"X": noise(8, 3, 8, 8)}, {"conv1": BOTH}, libs=("dummy",))


def custom_last():
    g = Graph(custom_domain=1)
    x = g.conv(g.input("X", [1, 3, 8, 8]), "c", 3, 32, name="conv1")
    dummy_op(g, g.node("Relu", [x], "r", "relu1"), "Y")
    g.output("Y", [1, 32, 8, 8])
    return Case(g.build(), {"X": noise(8, 3, 8, 8)}, {"conv1": BOTH}, libs=("dummy",))


def custom_only():
    g = Graph(custom_domain=1)
    dummy_op(g, g.input("X", [1, 3, 8, 8]), "Y")
    g.output("Y", [1, 3, 8, 8])
    return Case(g.build(), {"X": noise(8, 3, 8, 8)}, libs=("dummy",))


def two_libraries():
    g = Graph(custom_domain=1, my_dot_ops=1)
    x = g.conv(g.input("X", [1, 3, 8, 8]), "c1", 3, 16, name="conv1")
    x = g.node("ScaleBy2", [dummy_op(g, x, "d")], "s", "scale", "my.ops")
    g.conv(x, "Y", 16, 8, name="conv2")
    g.output("Y", [1, 8, 8, 8])
    return Case(
        g.build(),
        {"X": noise(8, 3, 8, 8)},
        {"conv1": BOTH, "conv2": BOTH},
        libs=("dummy", "scaleby2"),
    )


def between_convolutions():
    """Conv, a foreign ScaleBy2, Conv: nothing but the library knows what lies between the two."""
    g = Graph(my_dot_ops=1)
    x = g.conv(g.input("X", [1, 4, 8, 8]), "c1", 4, 8, name="conv1", bias=False)
    x = g.node("ScaleBy2", [x], "s", "scale", "my.ops")
    g.conv(x, "Y", 8, 4, kernel=1, name="conv2", bias=False)
    g.output("Y", [1, 4, 8, 8])
    return Case(
        g.build(), {"X": noise(8, 4, 8, 8)}, {"conv1": BOTH, "conv2": BOTH}, libs=("scaleby2",)
    )


def named_entry_point():
    """As between_convolutions; the tool is to load the operator from a library whose entry point
    is RegisterMyOps."""
    case = between_convolutions()
    return Case(case.model, case.data, case.tensorrt, libs=("entry",), run_libs=("scaleby2",))


def mixed_types():
    """A foreign operator with float and int64 on both sides; the integers go straight to an
    output."""
    g = Graph(my_dot_mixed=1)
    x = g.matmul(g.input("X", [2, 16]), "m1", 16, 16, "mm1")
    ids = g.input("ids", [2], INT64)
    x = g.node("Route", [x, ids], ["routed", "next"], "route", "my.mixed")
    g.matmul(x, "Y", 16, 8, "mm2")
    g.output("Y", [2, 8])
    g.output("next", [2], INT64)
    data = {"X": noise(12, 16), "ids": np.arange(12, dtype=np.int64) * 5}
    return Case(g.build(), data, {"mm1": BOTH, "mm2": BOTH}, libs=("mixed",))


def empty_optionals():
    """An optional input in the middle and an optional output at the end left empty."""
    g = Graph(my_dot_top=1)
    x = g.matmul(g.input("X", [2, 16]), "m1", 16, 16, "mm1")
    gain = g.const("gain", np.array([1.5], np.float32))
    x = g.node("TopIdx", [x, "", gain], ["v", ""], "top", "my.top")
    g.matmul(x, "Y", 4, 8, "mm2")
    g.output("Y", [2, 8])
    return Case(g.build(), {"X": noise(12, 16)}, {"mm1": BOTH, "mm2": BOTH}, libs=("topidx",))


def foreign_indices():
    """The int64 output of a foreign operator indexes a table, its float output feeds a MatMul."""
    g = Graph(my_dot_top=1)
    v = g.node("TopIdx", [g.input("X", [2, 16])], ["v", "idx"], "top", "my.top")
    g.matmul(v, "Y", 4, 8, "mm1")
    g.node("Gather", [g.weight("embedding", 16, 8), "idx"], "E", "gather")
    g.output("Y", [2, 8])
    g.output("E", [2, 4, 8])
    g.output("idx", [2, 4], INT64)
    return Case(g.build(), {"X": noise(12, 16)}, {"mm1": BOTH}, libs=("topidx",))


def shared_constants():
    """Two float tables of foreign operators; one is a MatMul's weight as well, the other an
    operand of Mul."""
    g = Graph(my_dot_mixed=1)
    pick = g.const("pick", np.arange(15, -1, -1, dtype=np.int64))
    table = g.const("table", np.linspace(0.5, 1.5, 16, dtype=np.float32))
    x = g.matmul(g.input("X", [2, 16]), "m1", 16, 16, "mm1")
    x = g.node("Lookup", [x, "mm1.weight", pick], "l1", "lookup1", "my.mixed")
    x = g.node("Mul", [x, table], "p", "mul")
    x = g.node("Lookup", [x, table, pick], "l2", "lookup2", "my.mixed")
    g.matmul(x, "Y", 16, 8, "mm2")
    g.output("Y", [2, 8])
    return Case(g.build(), {"X": noise(12, 16)}, {"mm1": BOTH, "mm2": BOTH}, libs=("mixed",))


def data_dependent_shape():
    """A foreign operator that turns rank 4 into rank 2, with as many rows as the guide has
    positive elements."""
    g = Graph(my_dot_mixed=1)
    x = g.input("X", [1, 1, 6, 6])
    r = g.node("Relu", [g.conv(x, "c", 1, 8, name="conv1")], "r", "relu1")
    rows = g.node("Compact", [r, x], "rows", "compact", "my.mixed")
    g.matmul(rows, "Y", 8, 16, "mm1")
    g.output("Y", ["M", 16])
    return Case(g.build(), {"X": noise(8, 1, 6, 6)}, {"conv1": BOTH, "mm1": BOTH}, libs=("mixed",))


def stateful():
    """A foreign operator that counts its runs and adds a little more on each."""
    g = Graph(my_dot_mixed=1)
    x = g.conv(g.input("X", [1, 3, 8, 8]), "c1", 3, 16, name="conv1")
    x = g.node("Counter", [x], "n", "counter", "my.mixed")
    g.conv(x, "Y", 16, 8, name="conv2")
    g.output("Y", [1, 8, 8, 8])
    return Case(
        g.build(), {"X": noise(8, 3, 8, 8)}, {"conv1": BOTH, "conv2": BOTH}, libs=("mixed",)
    )


# Standard models


def two_convolutions(seed=0):
    """The plain model of the command line tests: Conv, Relu, Conv."""
    g = Graph(seed)
    x = g.node(
        "Relu", [g.conv(g.input("X", [1, 4, 8, 8]), "c1", 4, 8, name="conv1")], "r1", "relu1"
    )
    g.conv(x, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 8, 8])
    return Case(g.build(), {"X": noise(8, 4, 8, 8)}, {"conv1": BOTH, "conv2": BOTH})


def residual_block():
    """Conv, Relu, Conv, Add of the block's own input, Relu; both convolutions have biases."""
    g = Graph()
    x = g.input("X", [1, 8, 8, 8])
    r = g.node("Relu", [g.conv(x, "c1", 8, 8, name="conv1")], "r1", "relu1")
    c = g.conv(r, "c2", 8, 8, name="conv2")
    g.node("Relu", [g.node("Add", [c, x], "a", "add")], "Y", "relu2")
    g.output("Y", [1, 8, 8, 8])
    both = {"conv1": BOTH, "conv2": BOTH}
    # For onnxruntime the Add reads the result of conv2, which is quantized for all of its readers,
    # but is float itself: nothing behind it reads int8.
    return Case(g.build(), {"X": noise(8, 8, 8, 8)}, {**both, "add": {1}}, {**both, "add": {0}})


def mlp(width=64, layers=4, batch=32):
    """MatMul, bias, Relu, several times."""
    g = Graph()
    x = g.input("X", [batch, width])
    for k in range(1, layers + 1):
        m = g.node(
            "MatMul",
            [x, g.weight(f"w{k}", width, width, std=(2 / width) ** 0.5)],
            f"m{k}",
            f"mm{k}",
        )
        b = g.node("Add", [m, g.weight(f"b{k}", width, std=0.1)], f"b{k}.out", f"bias{k}")
        x = g.node("Relu", [b], "Y" if k == layers else f"r{k}", f"relu{k}")
    g.output("Y", [batch, width])
    return Case(
        g.build(), {"X": noise(2 * batch, width)}, {f"mm{k}": BOTH for k in range(1, layers + 1)}
    )


def softmax_then_matmul():
    """Calibrated on flat rows, where probabilities stay far below 1."""
    g = Graph()
    p = g.node("Softmax", [g.input("X", [4, 16])], "p", "softmax", axis=-1)
    g.matmul(p, "Y", 16, 8, "mm")
    g.output("Y", [4, 8])
    return Case(g.build(), {"X": noise(12, 16, scale=0.05)}, {"mm": BOTH})


def decomposed_layer_norm():
    """LayerNorm in single operators before a MatMul; rows of very different scale."""
    g = Graph()
    x = g.input("X", [4, 64])
    mean = g.node("ReduceMean", [x], "mean", "mean", axes=[-1], keepdims=1)
    d = g.node("Sub", [x, mean], "d", "sub")
    sq = g.node("Pow", [d, g.const("two", np.float32(2))], "sq", "pow")
    var = g.node("ReduceMean", [sq], "var", "var", axes=[-1], keepdims=1)
    eps = g.node("Add", [var, g.const("epsilon", np.float32(1e-5))], "eps", "add_eps")
    n = g.node("Div", [d, g.node("Sqrt", [eps], "std", "sqrt")], "n", "div")
    n = g.node("Mul", [n, g.const("gamma", 1 + noise(64, scale=0.1))], "scaled", "mul_gamma")
    g.matmul(n, "Y", 64, 8, "mm")
    g.output("Y", [4, 8])
    rows = np.tile(np.array([1, 1e-3, 30, 1], np.float32), 3)[:, None]
    return Case(g.build(), {"X": noise(12, 64) * rows}, {"mm": BOTH})


def downsample_block():
    """Two residual blocks of a ResNet, the second with a convolution on its shortcut, pooling in
    front and a classifier behind."""
    g = Graph()
    x = g.input("X", [1, 3, 16, 16])
    x = g.node("Relu", [g.conv(x, "c0", 3, 16, name="stem")], "r0", "stem_relu")
    x = g.node("MaxPool", [x], "p0", "pool", kernel_shape=[2, 2], strides=[2, 2])
    y = g.node("Relu", [g.conv(x, "c1", 16, 16, name="conv1")], "r1", "relu1")
    y = g.conv(y, "c2", 16, 16, name="conv2")
    x = g.node("Relu", [g.node("Add", [y, x], "a1", "add1")], "r2", "relu2")
    y = g.node("Relu", [g.conv(x, "c3", 16, 32, name="conv3", strides=[2, 2])], "r3", "relu3")
    y = g.conv(y, "c4", 32, 32, name="conv4")
    s = g.conv(x, "cs", 16, 32, kernel=1, name="shortcut", strides=[2, 2])
    x = g.node("Relu", [g.node("Add", [y, s], "a2", "add2")], "r4", "relu4")
    x = g.node("GlobalAveragePool", [x], "gap", "gap")
    x = g.node("Flatten", [x], "flat", "flatten")
    g.node(
        "Gemm",
        [x, g.weight("fc.weight", 20, 32, std=0.2), g.weight("fc.bias", 20)],
        "Y",
        "fc",
        transB=1,
    )
    g.output("Y", [1, 20])
    convs = {name: BOTH for name in ("stem", "conv1", "conv2", "conv3", "conv4", "shortcut")}
    tensorrt = {**convs, "add1": {1}, "add2": {1}, "gap": {0}, "fc": BOTH}
    moving = {"pool": {0}, "flatten": {0}, "gap": {0}}
    onnxruntime = {**convs, **moving, "add1": BOTH, "add2": BOTH, "fc": BOTH}
    return Case(g.build(), {"X": noise(8, 3, 16, 16)}, tensorrt, onnxruntime)


def conv_bn_relu():
    g = Graph()

    def block(x, name, channels_in, output):
        c = g.conv(x, f"{name}.c", channels_in, 8, name=name, bias=False)
        stats = [
            g.const(f"{name}.{k}", np.abs(noise(8, seed=i)) + 0.5)
            for i, k in enumerate(("g", "b", "m", "v"))
        ]
        b = g.node("BatchNormalization", [c, *stats], f"{name}.n", f"{name}.bn")
        return g.node("Relu", [b], output, f"{name}.relu")

    block(block(g.input("X", [1, 4, 8, 8]), "conv1", 4, "r1"), "conv2", 8, "Y")
    g.output("Y", [1, 8, 8, 8])
    return Case(g.build(), {"X": noise(8, 4, 8, 8)}, {"conv1": BOTH, "conv2": BOTH})


def encoder_layer(width=32, tokens=8):
    """One pre-norm encoder layer: LayerNorm, single-head attention, LayerNorm, an MLP with GELU
    in single operators."""
    g = Graph()
    x = g.input("X", [1, tokens, width])

    def linear(x, name, rows, columns):
        return g.node(
            "Add",
            [
                g.matmul(x, f"{name}.m", rows, columns, name),
                g.weight(f"{name}.b", columns, std=0.1),
            ],
            f"{name}.y",
            f"{name}.bias",
        )

    def norm(x, name):
        scale = g.const(f"{name}.scale", np.ones(width, np.float32))
        return g.node(
            "LayerNormalization",
            [x, scale, g.weight(f"{name}.shift", width)],
            f"{name}.y",
            name,
            axis=-1,
        )

    n = norm(x, "norm1")
    q, k, v = (linear(n, name, width, width) for name in ("q", "k", "v"))
    kt = g.node("Transpose", [k], "kt", "transpose", perm=[0, 2, 1])
    scores = g.node("MatMul", [q, kt], "scores", "bmm1")
    scores = g.node(
        "Mul", [scores, g.const("factor", np.float32(width**-0.5))], "scaled", "scale_scores"
    )
    p = g.node("Softmax", [scores], "p", "softmax", axis=-1)
    x = g.node(
        "Add",
        [x, linear(g.node("MatMul", [p, v], "mixed", "bmm2"), "proj", width, width)],
        "x1",
        "residual1",
    )

    h = linear(norm(x, "norm2"), "fc1", width, 2 * width)
    e = g.node("Div", [h, g.const("sqrt2", np.float32(2**0.5))], "gelu.d", "gelu.div")
    e = g.node("Erf", [e], "gelu.e", "gelu.erf")
    e = g.node("Add", [e, g.const("one", np.float32(1))], "gelu.a", "gelu.add")
    e = g.node("Mul", [h, e], "gelu.m", "gelu.mul")
    e = g.node("Mul", [e, g.const("half", np.float32(0.5))], "gelu.y", "gelu.half")
    g.node("Add", [x, linear(e, "fc2", 2 * width, width)], "Y", "residual2")
    g.output("Y", [1, tokens, width])
    return Case(g.build(), {"X": noise(8, tokens, width)})


def single(op, x_shape, y_shape, weights, rows=8, seed=0, **attributes):
    """One weighted operator `op` between X and Y; `weights` are (name, shape)."""
    g = Graph(seed)
    names = [g.weight(name, *shape) for name, shape in weights]
    g.node(op, [g.input("X", x_shape), *names], "Y", "op", **attributes)
    g.output("Y", y_shape)
    return Case(g.build(), {"X": noise(rows * x_shape[0], *x_shape[1:])}, {"op": BOTH})


FOREIGN = {
    f.__name__: f
    for f in (
        motivating,
        custom_first,
        custom_last,
        custom_only,
        two_libraries,
        between_convolutions,
        named_entry_point,
        mixed_types,
        empty_optionals,
        foreign_indices,
        shared_constants,
        data_dependent_shape,
        stateful,
    )
}
STANDARD = {
    f.__name__: f
    for f in (
        two_convolutions,
        residual_block,
        mlp,
        softmax_then_matmul,
        decomposed_layer_norm,
        downsample_block,
        conv_bn_relu,
        encoder_layer,
    )
}
ALL = {**FOREIGN, **STANDARD}
