"""Random float models: a few tens of operators wired at random, shapes known while building, for
tests of what must hold for any model. `case(seed)` gives the same model for the same seed."""

import numpy as np
from onnx import helper, numpy_helper

import models


def window(size, kernel, stride=1, pad=0, dilation=1):
    """Extent of a result of a convolution or pooling."""
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


class Builder:
    """Adds operators to a graph; knows the shape of every tensor (batch 1 where it is open)."""

    def __init__(self, seed, foreign):
        self.rng = np.random.default_rng(seed)
        self.foreign = foreign
        opset = self.one_of(13, 17, 18, 21)
        domains = {"custom_domain": 1} if foreign else {}
        self.graph = models.Graph(seed, opset, 10 if opset > 18 else 8, **domains)
        self.open_batch = self.chance(0.3)
        self.batch = 1 if self.open_batch else self.one_of(1, 1, 2)
        self.shapes = {}  # of tensors that may be read, in order
        self.weights = []

    def chance(self, probability):
        return self.rng.random() < probability

    def one_of(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def new_name(self, letter):
        return f"{letter}{len(self.graph.nodes)}_{len(self.graph.initializers)}"

    def pick(self, fits=lambda shape: True):
        """A tensor whose shape fits, late ones rather than early ones, and its shape."""
        names = [name for name, shape in self.shapes.items() if fits(shape)][-12:]
        if not names:
            return None, ()
        odds = 1.5 ** np.arange(len(names))
        name = names[self.rng.choice(len(names), p=odds / odds.sum())]
        return name, self.shapes[name]

    def add(self, op, inputs, shape, domain="", **attributes):
        name = self.new_name("t")
        self.graph.node(op, inputs, name, f"{op}_{name}", domain, **attributes)
        self.shapes[name] = tuple(int(size) for size in shape)
        return name

    def const(self, value):
        name, value = self.new_name("c"), np.asarray(value)
        if self.chance(0.2):
            tensor = numpy_helper.from_array(value)
            self.graph.node("Constant", [], name, f"const_{name}", value=tensor)
            return name
        return self.graph.const(name, value)

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def weight(self, *shape, std=0.3):
        """Sometimes one that is there already, sometimes behind Identity."""
        same = [name for name, other in self.weights if other == shape]
        if same and self.chance(0.1):
            return self.one_of(*same)
        name = self.const((self.rng.standard_normal(shape) * std).astype(np.float32))
        if self.chance(0.05):
            name = self.graph.node("Identity", [name], f"{name}_same", f"{name}_identity")
        self.weights.append((name, shape))
        return name

    # Operators with weights

    def conv(self):
        x, shape = self.pick(lambda s: len(s) == 4 and min(s[2:]) >= 2)
        if x:
            n, c, h, w = shape
            kernel, stride, dilation = self.one_of(1, 3, 3), self.one_of(1, 1, 2), self.one_of(1, 2)
            group = self.one_of(1, 1, 1, c)
            channels = c * self.one_of(1, 2) if group == c else self.one_of(4, 8, 16)
            pad, fan_in = dilation * (kernel // 2), c // group * kernel * kernel
            inputs = [x, self.weight(channels, c // group, kernel, kernel, std=fan_in**-0.5)]
            inputs += [self.weight(channels)] if self.chance(0.6) else []
            size = [window(v, kernel, stride, pad, dilation) for v in (h, w)]
            how = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
            self.add("Conv", inputs, (n, channels, *size), group=group, **how)

    def conv_transpose(self):
        x, shape = self.pick(lambda s: len(s) == 4 and s[2] < 20)
        if x:
            n, c, h, w = shape
            kernel = self.weight(c, 4, 2, 2, std=c**-0.5)
            self.add("ConvTranspose", [x, kernel], (n, 4, 2 * h, 2 * w), strides=[2, 2])

    def gemm(self):
        x, shape = self.pick(lambda s: len(s) == 2)
        if x:
            (m, k), n, transposed = shape, self.one_of(4, 8, 16), self.one_of(0, 1)
            inputs = [x, self.weight(*((n, k) if transposed else (k, n)), std=k**-0.5)]
            if self.chance(0.7):
                inputs.append(self.weight(*self.one_of((n,), (n,), (1,), ())))
            factors = {"alpha": self.one_of(1.0, 1.0, 0.5), "beta": self.one_of(1.0, 1.0, 2.0)}
            self.add("Gemm", inputs, (m, n), transB=transposed, **factors)

    def matmul(self):
        x, shape = self.pick(lambda s: len(s) >= 2)
        n = self.one_of(4, 8, 16)
        y = self.add(
            "MatMul", [x, self.weight(shape[-1], n, std=shape[-1] ** -0.5)], (*shape[:-1], n)
        )
        if self.chance(0.5):
            inputs = [y, self.weight(n)]
            self.add("Add", inputs if self.chance(0.5) else inputs[::-1], (*shape[:-1], n))

    def matmul_from_the_left(self):
        x, shape = self.pick(lambda s: len(s) == 3)
        if x:
            n, rows, columns = shape
            self.add("MatMul", [self.weight(3, rows, std=rows**-0.5), x], (n, 3, columns))

    def attention(self):
        x, shape = self.pick(lambda s: len(s) == 3)
        if x:
            n, tokens, width = shape
            q = self.add("MatMul", [x, self.weight(width, width, std=width**-0.5)], shape)
            k = self.add("Transpose", [x], (n, width, tokens), perm=[0, 2, 1])
            scores = self.add("MatMul", [q, k], (n, tokens, tokens))
            factor = self.const(np.float32(width**-0.5))
            scores = self.add("Mul", [scores, factor], (n, tokens, tokens))
            p = self.add("Softmax", [scores], (n, tokens, tokens), axis=-1)
            self.add("Add", [self.add("MatMul", [p, x], shape), x], shape)

    def batch_norm(self):
        x, shape = self.pick(lambda s: len(s) >= 3)
        if x:
            scale, variance = (
                self.const(0.5 + np.abs(self.rng.standard_normal(shape[1])).astype(np.float32))
                for _ in range(2)
            )
            inputs = [x, scale, self.weight(shape[1]), self.weight(shape[1]), variance]
            self.add("BatchNormalization", inputs, shape)

    def branches(self):
        """If, with a weight of its own in one branch and one from outside in the other."""
        x, shape = self.pick(lambda s: len(s) == 2)
        if x:
            own, outer = f"{x}_own{len(self.graph.nodes)}", self.weight(shape[1], 8)
            value = self.rng.standard_normal((shape[1], 8)).astype(np.float32)
            total = self.graph.node("ReduceMean", [x], self.new_name("m"), keepdims=0)
            yes = self.graph.node("Greater", [total, self.const(np.float32(0))], self.new_name("g"))
            bodies = []
            for weight, init in ((own, [numpy_helper.from_array(value, own)]), (outer, [])):
                y = f"{own}_{len(bodies)}"
                nodes = [
                    helper.make_node("MatMul", [x, weight], [f"{y}_m"], name=f"{y}_mm"),
                    helper.make_node("Relu", [f"{y}_m"], [y], name=f"{y}_relu"),
                ]
                result = helper.make_tensor_value_info(y, models.FLOAT, None)
                bodies.append(helper.make_graph(nodes, y, [], [result], init))
            self.graph.nodes[-1].name, self.graph.nodes[-2].name = f"{own}_gt", f"{own}_mean"
            how = {"then_branch": bodies[0], "else_branch": bodies[1]}
            self.add("If", [yes], (shape[0], 8), **how)

    # Element by element

    def unary(self):
        x, shape = self.pick()
        ops = ("Relu", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Abs", "Neg", "Erf", "Elu")
        self.add(self.one_of(*ops, "Identity", "Dropout", "HardSigmoid", "Softplus"), [x], shape)

    def clip(self):
        x, shape = self.pick()
        low, high = self.one_of((0, 6), (-1, 1), (0.25, 2))
        bounds = [self.const(np.float32(low)) if self.chance(0.8) else ""]
        self.add("Clip", [x, *bounds, self.const(np.float32(high))], shape)

    def binary(self):
        x, shape = self.pick()
        y, _ = self.pick(lambda s: s == shape)
        self.add(self.one_of("Add", "Add", "Mul", "Sub", "Max", "Min"), [x, y], shape)

    def binary_with_constant(self):
        x, shape = self.pick(lambda s: len(s) >= 2)
        column = (shape[1], *[1] * (len(shape) - 2))
        value = 0.5 + np.abs(self.rng.standard_normal(self.one_of((shape[-1],), (1,), (), column)))
        inputs = [x, self.const(value.astype(np.float32))]
        self.add(self.one_of("Add", "Mul", "Sub", "Div"), inputs, shape)

    def where(self):
        x, shape = self.pick()
        y, _ = self.pick(lambda s: s == shape)
        mask = self.graph.node("Greater", [x, self.const(np.float32(0))], self.new_name("g"))
        self.graph.nodes[-1].name = f"greater_{mask}"
        other = y if self.chance(0.7) else self.const(np.float32(-0.5))
        self.add("Where", [mask, x, other], shape)

    def softmax(self):
        x, shape = self.pick(lambda s: len(s) >= 2)
        self.add("Softmax", [x], shape, axis=self.one_of(-1, 1))

    def custom(self):
        if self.foreign:
            x, shape = self.pick()
            self.add("DummyOp", [x], shape, "custom_domain", alpha=0.75)

    # Moving and pooling

    def concat(self):
        x, shape = self.pick(lambda s: len(s) >= 2)
        y, other = self.pick(lambda s: len(s) == len(shape) and s[2:] == shape[2:])
        self.add("Concat", [x, y], (shape[0], shape[1] + other[1], *shape[2:]), axis=1)

    def split(self):
        x, shape = self.pick(lambda s: len(s) >= 2 and s[1] % 2 == 0)
        if x:
            half, names = (
                (shape[0], shape[1] // 2, *shape[2:]),
                [self.new_name("a"), self.new_name("b")],
            )
            sizes = self.ints(half[1], half[1])
            self.graph.node("Split", [x, sizes], names, f"split_{names[0]}", axis=1)
            self.shapes.update({name: half for name in names})

    def cut(self):
        x, shape = self.pick(lambda s: len(s) >= 2 and s[1] >= 2)
        if x:
            end = int(self.rng.integers(1, shape[1]))
            inputs = [x, self.ints(0), self.ints(end), self.ints(1)]
            self.add("Slice", inputs, (shape[0], end, *shape[2:]))

    def gather(self):
        x, shape = self.pick(lambda s: len(s) >= 2)
        rows = self.ints(*self.rng.integers(0, shape[1], 3))
        self.add("Gather", [x, rows], (shape[0], 3, *shape[2:]), axis=1)

    def transpose(self):
        x, shape = self.pick(lambda s: len(s) >= 3)
        if x:
            order = [0, *(1 + int(i) for i in self.rng.permutation(len(shape) - 1))]
            self.add("Transpose", [x], [shape[i] for i in order], perm=order)

    def reshape(self):
        x, shape = self.pick(lambda s: len(s) >= 3)
        if x and self.chance(0.5):
            self.add("Flatten", [x], (shape[0], np.prod(shape[1:])), axis=1)
        elif x:
            self.add("Reshape", [x, self.ints(0, shape[1], -1)], (*shape[:2], np.prod(shape[2:])))

    def pool(self):
        x, shape = self.pick(lambda s: len(s) == 4 and min(s[2:]) >= 4)
        if x:
            kernel, stride, pad = self.one_of((2, 2, 0), (3, 1, 1))
            size = [window(v, kernel, stride, pad) for v in shape[2:]]
            how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
            self.add(self.one_of("MaxPool", "AveragePool"), [x], (*shape[:2], *size), **how)

    def average(self):
        x, shape = self.pick(lambda s: len(s) == 4)
        if x:
            self.add("GlobalAveragePool", [x], (*shape[:2], 1, 1))

    def resize(self):
        x, shape = self.pick(lambda s: len(s) == 4 and s[2] < 20)
        if x:
            scales = self.const(np.array([1, 1, 2, 2], np.float32))
            size = (*shape[:2], 2 * shape[2], 2 * shape[3])
            self.add("Resize", [x, "", scales], size, mode=self.one_of("nearest", "linear"))

    # The model

    def input(self):
        c = self.one_of(3, 4, 8)
        shape = self.one_of((c, 8, 8), (c, 8, 8), (6, 8), (16,))
        name = f"X{len(self.graph.inputs)}"
        self.graph.input(name, ["N" if self.open_batch else self.batch, *shape])
        self.shapes[name] = (self.batch, *shape)

    def outputs(self):
        """What nobody reads, and sometimes a tensor that somebody reads too."""
        read = {name for node in self.graph.nodes for name in node.input}
        made = [name for name in self.shapes if not name.startswith("X")]
        ends = [name for name in made if name not in read]
        more = [name for name in made if name in read]
        for name in ends + ([self.one_of(*more)] if more and self.chance(0.3) else []):
            shape = self.shapes[name]
            self.graph.output(name, [None] * len(shape) if self.open_batch else shape)


STEPS = {
    Builder.conv: 8,
    Builder.unary: 7,
    Builder.matmul: 6,
    Builder.gemm: 5,
    Builder.binary: 4,
    Builder.binary_with_constant: 3,
    Builder.batch_norm: 3,
    Builder.custom: 3,
    Builder.concat: 2,
    Builder.pool: 2,
    Builder.clip: 2,
    Builder.reshape: 4,
    **dict.fromkeys(
        (
            Builder.conv_transpose,
            Builder.matmul_from_the_left,
            Builder.attention,
            Builder.branches,
            Builder.where,
            Builder.softmax,
            Builder.split,
            Builder.cut,
            Builder.gather,
            Builder.transpose,
            Builder.average,
            Builder.resize,
        ),
        1,
    ),
}


def case(seed, foreign=False):
    builder = Builder(seed, foreign)
    odds = np.array(list(STEPS.values()), float) / sum(STEPS.values())
    for _ in range(builder.one_of(1, 1, 2)):
        builder.input()
    wanted = int(builder.rng.integers(4, 16))
    while len(builder.graph.nodes) < wanted:
        list(STEPS)[builder.rng.choice(len(STEPS), p=odds)](builder)
    builder.outputs()
    data = {  # fewer than 16 rows: all serve for calibration and for the check
        value.name: models.noise(
            6 * builder.batch,
            *builder.shapes[value.name][1:],
            seed=seed,
            scale=builder.one_of(1, 1, 0.1, 10),
        )
        for value in builder.graph.inputs
    }
    return models.Case(builder.graph.build(), data, libs=("dummy",) if foreign else ())
