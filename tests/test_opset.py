"""Opset conversion: each changed attribute or input form of the operators' changelog, with values
that are not the default, run at the old opset and after the conversion: equal to the bit."""

import functools
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import harness
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from onnx import TensorProto, helper, numpy_helper

TOOL = Path(harness.OPS).parent / "test-tools" / "opset_convert"
OLDEST, NEWEST = 7, 26
# Where the runtime computes the newer form in another order.
ROUNDING = {"rtol": 2e-6, "atol": 2e-7}


# ---- Running ------------------------------------------------------------------------------------


def run(model, feeds):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


@functools.cache
def newest_of_runtime():
    """The highest opset that this runtime takes."""
    x = np.zeros(1, np.float32)
    node = helper.make_node("Identity", ["x"], ["y"])
    for opset in range(NEWEST, OLDEST, -1):
        try:
            run(make_model([node], {"x": x}, ["y"], opset, ir_version=8), {"x": x})
            return opset
        except Exception:  # noqa: BLE001, S112 -- the next lower one
            continue
    raise AssertionError("the runtime takes no opset at all")


def convert(model, version, tmp_path, fails=False):
    """The model converted; with `fails`, the message, the model being as it was."""
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    before.write_bytes(model.SerializeToString())
    done = subprocess.run(
        [str(TOOL), str(before), str(after), str(version)], capture_output=True, text=True
    )
    if fails:
        assert done.returncode == 1, done
        assert onnx.load(after) == onnx.load(before)
        return done.stderr
    assert done.returncode == 0, done
    return onnx.load(after)


def default_opset(owner):
    return next(o.version for o in owner.opset_import if o.domain in ("", "ai.onnx"))


def assert_equal(before, after, rounding=None):
    assert len(before) == len(after)
    for a, b in zip(before, after, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if rounding:
            np.testing.assert_allclose(a, b, **rounding)
        elif a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            assert a.tobytes() == b.tobytes(), f"\n{a}\n{b}"


def assert_converts(model, feeds, version, tmp_path, rounding=None, check=True):
    expected = run(model, feeds)
    for info, value in zip(model.graph.output, expected, strict=True):
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        info.CopyFrom(helper.make_tensor_value_info(info.name, dtype, [None] * value.ndim))
    converted = convert(model, version, tmp_path)
    assert default_opset(converted) == version
    if check:
        onnx.checker.check_model(converted, full_check=True)
    try:
        assert_equal(expected, run(converted, feeds), rounding)
    except NotImplemented:
        # Of the newest versions, this runtime knows operators that it has no kernel for.
        assert version > 21
    return converted


# ---- Models -------------------------------------------------------------------------------------


def make_model(nodes, feeds, outputs, opset, initializers=None, ir_version=8, **extra):
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        infos,
        [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)] + extra.pop("imports", [])
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **extra)


def floats(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


@dataclass
class Case:
    """One node. Inputs are arrays: fed, or with `const` initializers; None is an omitted input."""

    op: str
    opset: int
    attributes: dict = field(default_factory=dict)
    inputs: tuple = ()
    const: tuple = ()  # indices of inputs that are initializers
    outputs: int = 1
    rounding_from: int = NEWEST + 1  # equal up to rounding from this target on
    valid_from: int = 0  # in targets below, the runtime takes it, the specification does not

    def parts(self):
        feeds, initializers, names = {}, {}, []
        for i, value in enumerate(self.inputs):
            names.append("" if value is None else f"x{i}")
            if value is not None:
                (initializers if i in self.const else feeds)[f"x{i}"] = np.asarray(value)
        outputs = [f"y{i}" for i in range(self.outputs)]
        return helper.make_node(self.op, names, outputs, **self.attributes), feeds, initializers

    def model(self):
        node, feeds, initializers = self.parts()
        return make_model([node], feeds, list(node.output), self.opset, initializers), feeds

    def __str__(self):
        text = " ".join(f"{k}={v}" for k, v in self.attributes.items())
        shapes = " ".join("-" if i is None else str(list(np.shape(i))) for i in self.inputs)
        return f"{self.op}-{self.opset} {text} {shapes}"


X = floats(2, 3, 4, 5)
IMAGE = floats(1, 2, 5, 7)
SPECIAL = np.array([np.nan, np.inf, -np.inf, -3, 0, 1e30, -1e30, 2.5], np.float32)
TIES = f32([1, 3, 3, 2], [5, 5, 5, 5], [0, -1, 0, -1])


def resize(opset, scales=None, sizes=None, rank=4, const=(1, 2, 3), **attributes):
    shape = (1, 2, 5, 7)[4 - rank :]
    x = floats(*shape)
    empty = np.zeros(0, np.float32)
    if opset == 10:
        return Case("Resize", 10, attributes, (x, f32(*scales)), const=const)
    inputs = (x, empty, empty if scales is None else f32(*scales))
    if sizes is not None:
        inputs += (ints(*sizes),)
    return Case("Resize", opset, attributes, inputs, const=const)


def inputs_cases():
    yield Case("Clip", 7, {"min": -0.5, "max": 0.25}, (X,))
    yield Case("Clip", 7, {"min": -0.5}, (SPECIAL,))
    yield Case("Clip", 8, {"max": 2.0}, (SPECIAL,))
    yield Case("Clip", 10, {}, (SPECIAL,))
    yield Case("Clip", 7, {"min": 0.1, "max": 6.1}, (X.astype(np.float16),))
    for opset in (7, 10):
        yield Case("Pad", opset, {"pads": [0, 1, 2, 0, 1, 0, 0, 3]}, (X,))
        yield Case("Pad", opset, {"pads": [0, 1, 2, 0, 1, 0, 0, 3], "value": 1.7}, (X,))
        yield Case("Pad", opset, {"pads": [0, 0, -1, 0, 0, 0, 2, -1], "value": -0.0}, (X,))
        yield Case("Pad", opset, {"pads": [0, 0, 2, 1, 0, 0, 1, 3], "mode": "reflect"}, (X,))
        yield Case("Pad", opset, {"pads": [0, 0, 2, 1, 0, 0, 1, 3], "mode": "edge"}, (X,))
    pads = {"pads": [1, 2], "value": 0.1}
    yield Case("Pad", 7, pads, (X.ravel().astype(np.float64),))
    yield Case("Pad", 7, pads, (X.ravel().astype(np.float16),))
    for opset in (7, 9):
        yield Case("Slice", opset, {"starts": [1, -3], "ends": [3, 2**31 - 1]}, (X,))
        yield Case("Slice", opset, {"starts": [1, 0], "ends": [-1, 4], "axes": [3, 1]}, (X,))
        yield Case("Slice", opset, {"starts": [-9], "ends": [99], "axes": [2]}, (X,))
        yield Case("TopK", opset, {"k": 2}, (TIES,), outputs=2)
        yield Case("TopK", opset, {"k": 3, "axis": 0}, (TIES,), outputs=2)
    yield Case("TopK", 10, {"axis": -1}, (TIES, ints(3)), outputs=2)
    for opset in (7, 11, 12):
        yield Case("Split", opset, {"axis": 1}, (X,), outputs=3)
        yield Case("Split", opset, {"axis": 3, "split": [1, 4]}, (X,), outputs=2)
        yield Case("Squeeze", opset, {"axes": [0, 2]}, (floats(1, 3, 1, 1),))
        yield Case("Squeeze", opset, {}, (floats(1, 3, 1, 1),))
        yield Case("Unsqueeze", opset, {"axes": [0, 3]}, (floats(2, 3),))
    yield Case("Split", 11, {"axis": -1, "split": [2, 2, 1]}, (X,), outputs=3)
    yield Case("Split", 13, {"axis": 2}, (X,), outputs=2)
    yield Case("Split", 17, {"axis": 1}, (X, ints(1, 2)), const=(1,), outputs=2)
    yield Case("Split", 13, {"axis": 1}, (X, ints(2, 1)), outputs=2)
    yield Case("Squeeze", 11, {"axes": [-2, 0]}, (floats(1, 3, 1, 1),))
    yield Case("Unsqueeze", 11, {"axes": [-1, 1]}, (floats(2, 3),))
    for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split():
        x = np.abs(X) if kind.startswith("Log") else X
        yield Case(f"Reduce{kind}", 7, {"axes": [1, 3]}, (x,))
        yield Case(f"Reduce{kind}", 11, {"axes": [-1], "keepdims": 0}, (x,))
        yield Case(f"Reduce{kind}", 12, {"keepdims": 0}, (x,))
        yield Case(f"Reduce{kind}", 13, {"keepdims": 1}, (x,))
        if kind != "Sum":
            yield Case(f"Reduce{kind}", 17, {"axes": [0, 2], "keepdims": 0}, (x,))
    yield Case("ReduceSum", 13, {"keepdims": 0}, (X, ints(1, 2)))
    yield Case("Dropout", 7, {"ratio": 0.3}, (X,))
    yield Case("Dropout", 7, {"ratio": 0.3}, (X,), outputs=2)
    yield Case("Dropout", 7, {}, (X.astype(np.float64),), outputs=2)
    yield Case("Dropout", 10, {"ratio": 1.0}, (X,), outputs=2)
    yield Case("Dropout", 12, {}, (X, np.float32(0.3)), const=(1,), outputs=2)
    signal, spectrum = floats(2, 6, 4, 1), floats(2, 6, 4, 2)
    yield Case("DFT", 17, {}, (signal,))
    yield Case("DFT", 17, {"axis": 2}, (signal,))
    yield Case("DFT", 17, {"axis": 1, "onesided": 1}, (signal, np.int64(5)), const=(1,))
    yield Case("DFT", 17, {"axis": 2, "inverse": 1}, (spectrum,))


def resize_cases():
    for opset, mode in ((7, "nearest"), (7, "linear")):
        yield Case("Upsample", opset, {"scales": [1.0, 1.0, 2.0, 1.7], "mode": mode}, (IMAGE,))
        yield Case("Upsample", opset, {"scales": [1.0, 1.0, 2.0, 2.0], "mode": mode}, (IMAGE,))
    yield Case("Upsample", 8, {"scales": [1.0, 2.0, 1.5, 3.0]}, (IMAGE,))
    yield Case("Upsample", 8, {"scales": [3.3]}, (floats(7),))
    for mode in ("nearest", "linear"):
        for const in ((1,), ()):
            yield Case("Upsample", 9, {"mode": mode}, (IMAGE, f32(1, 1, 1.3, 2.9)), const=const)
    for scales in (
        (1, 1, 2, 2), (1, 1, 1.7, 2.3), (1, 1, 0.5, 0.5), (1, 1, 0.6, 0.35), (1, 1, 1.7, 0.6),
        (1, 1, 0.45, 3), (1, 1, 1, 1), (1, 2, 0.9, 1.1),
    ):  # fmt: skip
        for const in ((1,), ()):
            yield resize(10, scales, mode="nearest", const=const)
        if scales[1] == 1:
            yield resize(10, scales, mode="linear")
    yield resize(10, (0.6, 1.9), rank=2, mode="nearest")
    yield resize(10, (0.7, 1.9), rank=2, mode="linear")
    transforms = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    for transform in transforms:
        for mode in ("nearest", "linear", "cubic"):
            for scales in ((1, 1, 1.7, 2.3), (1, 1, 0.6, 0.4)):
                yield resize(11, scales, mode=mode, coordinate_transformation_mode=transform)
            yield resize(
                11, sizes=(1, 2, 9, 1), mode=mode, coordinate_transformation_mode=transform
            )
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            attributes = {"mode": "nearest", "nearest_mode": rounding}
            attributes["coordinate_transformation_mode"] = transform
            yield resize(11, (1, 1, 2.5, 0.7), **attributes)
            yield resize(12, sizes=(1, 2, 3, 11), **attributes)
    for rounding in ("round_prefer_floor", "floor"):
        attributes = {"mode": "nearest", "nearest_mode": rounding}
        attributes["coordinate_transformation_mode"] = "tf_half_pixel_for_nn"
        for scales in ((1, 1, 2, 2), (1, 1, 2.5, 1.3), (1, 1, 0.5, 0.3), (1, 1, 3, 0.7)):
            yield resize(11, scales, **attributes)
        yield resize(11, sizes=(1, 2, 13, 4), **attributes)
    cubic = {"mode": "cubic", "cubic_coeff_a": -0.5}
    yield resize(11, (1, 1, 1.5, 2), exclude_outside=1, **cubic)
    yield resize(12, (1, 1, 0.6, 0.8), exclude_outside=0, **cubic)
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    roi = f32(0, 0, 0.2, 0.4, 1, 1, 0.8, 1.2)
    for mode in ("nearest", "linear"):
        yield Case(
            "Resize",
            11,
            {"mode": mode, **crop},
            (IMAGE, roi, np.zeros(0, np.float32), ints(1, 2, 4, 6)),
            const=(1, 2, 3),
        )
    # both given, neither known before the run
    yield resize(11, sizes=(1, 2, 8, 8), mode="linear", const=())
    yield resize(13, (1, 1, 1.5, 2), mode="linear")
    grid = np.tanh(floats(1, 3, 4, 2, seed=1)) * 1.2
    for mode in ("bilinear", "nearest", "bicubic", None):
        for padding in ("zeros", "border", "reflection"):
            attributes = {"padding_mode": padding, "align_corners": int(padding == "border")}
            if mode is not None:
                attributes["mode"] = mode
            yield Case("GridSample", 16, attributes, (IMAGE, grid))
    rois = f32([0, 0.5, 3, 3], [1, 1, 4.5, 2])
    for attributes in (
        {"output_height": 2, "output_width": 3, "spatial_scale": 0.5},
        {"output_height": 2, "output_width": 2, "mode": "max", "sampling_ratio": 2},
    ):
        for opset in (10, 15):
            yield Case("RoiAlign", opset, attributes, (IMAGE, rois, ints(0, 0)))


def norm_cases():
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 12):
            yield Case(op, opset, {}, (X,))
            for axis in range(4):
                yield Case(op, opset, {"axis": axis}, (X,))
            yield Case(op, opset, {"axis": 1}, (floats(3, 6),))
            yield Case(op, opset, {"axis": 0}, (floats(6),))
        yield Case(op, 11, {"axis": -1}, (X,))
        yield Case(op, 11, {"axis": -3}, (X,))
        yield Case(op, 13, {"axis": 1}, (X,))
        yield Case(op, 13, {}, (X,))
    yield Case("Softmax", 9, {"axis": 2}, (X.astype(np.float64),))
    yield Case("Softmax", 9, {"axis": 1}, (np.zeros((0, 3, 2), np.float32),))
    channel = [np.abs(floats(3, seed=s)) for s in range(4)]
    element = [np.abs(floats(3, 4, 5, seed=s)) for s in range(4)]
    for opset in (7, 9, 14):
        yield Case("BatchNormalization", opset, {"epsilon": 0.01}, (X, *channel))
    yield Case("BatchNormalization", 7, {"spatial": 1, "momentum": 0.5}, (X, *channel))
    yield Case("BatchNormalization", 7, {"spatial": 0, "epsilon": 0.01}, (X, *element))
    yield Case("BatchNormalization", 8, {"spatial": 0}, (X, *element), const=(1, 2, 3, 4))
    group = [floats(2, seed=s) for s in range(2)]
    yield Case("InstanceNormalization", 7, {"epsilon": 0.1}, (X, *channel[:2]))
    yield Case("LRN", 7, {"size": 3, "alpha": 0.01, "beta": 0.6, "bias": 2.0}, (X,))
    yield Case("MeanVarianceNormalization", 9, {"axes": [0, 2, 3]}, (X,))
    yield Case("LpNormalization", 7, {"axis": 1, "p": 1}, (X,))
    yield Case(
        "GroupNormalization",
        18,
        {"num_groups": 2, "epsilon": 0.01},
        (floats(2, 6, 3), *group),
        rounding_from=21,
        valid_from=21,
    )


def control_cases():
    scatter = (floats(3, 4), ints([0, 2, 1, 0], [2, 1, 0, 1]), floats(2, 4))
    for opset in (9, 10):
        yield Case("Scatter", opset, {}, scatter)
        yield Case("Scatter", opset, {"axis": 1}, scatter)
    yield Case("Scatter", 9, {"axis": 0}, scatter)


def legacy_cases():
    """Operators that only the runtime knows, below opset 10."""
    yield Case("Affine", 7, {"alpha": 1.7, "beta": -0.3}, (X,))
    yield Case("ImageScaler", 7, {"scale": 0.3, "bias": [0.1, 0.2, 0.3]}, (X,))
    yield Case("ParametricSoftplus", 8, {"alpha": 1.3, "beta": 0.7}, (X,), rounding_from=0)
    yield Case("ScaledTanh", 9, {"alpha": 1.3, "beta": 0.7}, (X,), rounding_from=0)
    yield Case("Scale", 7, {"scale": 1.3}, (X,))
    yield Case("Crop", 7, {"border": [1, 0, 2, 1]}, (X,))
    yield Case("Crop", 7, {"border": [1, 1, 0, 0], "scale": [2, 3]}, (X,))
    yield Case("DynamicSlice", 7, {}, (X, ints(1, 0), ints(3, 2), ints(3, 0)))
    yield Case("DynamicSlice", 9, {}, (X, ints(1, 0), ints(3, 2)))
    yield Case("ThresholdedRelu", 7, {"alpha": 0.4}, (X,))
    for across in (0, 1):
        for normalize in (0, 1):
            attributes = {"across_channels": across, "normalize_variance": normalize}
            rounding_from = NEWEST + 1 if across or normalize else 0
            yield Case(
                "MeanVarianceNormalization", 7, attributes, (X,), rounding_from=rounding_from
            )


CHANGED = [
    *inputs_cases(), *resize_cases(), *norm_cases(), *control_cases(), *legacy_cases(),
]  # fmt: skip


def run_case(case, version, tmp_path):
    model, feeds = case.model()
    rounding = ROUNDING if version >= case.rounding_from else None
    check = version >= case.valid_from
    return assert_converts(model, feeds, version, tmp_path, rounding, check)


@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_changed_form(case, tmp_path):
    for version in (13, 17, 19, 21, NEWEST):
        if case.opset < version <= newest_of_runtime():
            run_case(case, version, tmp_path)


# ---- Operators that mean the same ---------------------------------------------------------------

UNARY = """Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor GlobalAveragePool
GlobalLpPool GlobalMaxPool HardSigmoid HardSwish Identity IsNaN LeakyRelu Log Mish Neg NonZero
Reciprocal Relu Round Selu Shape Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Tan Tanh""".split()
SINCE = {
    op: min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op)
    for op in UNARY
}
BOOL = X > 0
BYTES = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)


def elementwise_cases():
    for op in UNARY:
        yield Case(op, max(7, SINCE[op]), {}, (np.abs(X) + 1 if op == "Acosh" else X * 0.3,))
    for op in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min", "Sum", "Mean"):
        opset = 8 if op in ("Max", "Min", "Sum", "Mean") else 7
        yield Case(op, opset, {}, (np.abs(X), np.abs(floats(4, 1))))
    for op in ("Less", "Greater"):
        yield Case(op, 7, {}, (X, floats(4, 1)))
    for op in ("LessOrEqual", "GreaterOrEqual"):
        yield Case(op, 12, {}, (X, floats(4, 1)))
    yield Case("Equal", 7, {}, (ints(1, 2, 3), ints(1, 3, 3)))
    yield Case("Where", 9, {}, (BOOL, X, -X))
    yield Case("Mod", 10, {"fmod": 1}, (X, floats(4, 1)))
    yield Case("Mod", 10, {}, (ints(-7, 7), ints(3, -3)))
    yield Case("IsInf", 10, {"detect_negative": 0}, (SPECIAL,))
    yield Case("BitShift", 11, {"direction": "LEFT"}, (BYTES, BYTES[0, 0] % 3))
    yield Case("ThresholdedRelu", 10, {"alpha": 0.4}, (X,))
    yield Case("Celu", 12, {"alpha": 0.4}, (X,))
    for to in (TensorProto.INT32, TensorProto.FLOAT16, TensorProto.BOOL, TensorProto.STRING):
        opset = 9 if to == TensorProto.STRING else 7
        yield Case("Cast", opset, {"to": to}, (X * 9,))
    yield Case("Cast", 9, {"to": TensorProto.FLOAT}, (np.array(["1.5", "-INF"]),))
    yield Case("CastLike", 15, {}, (X, np.float16(1)))
    yield Case("Clip", 11, {}, (SPECIAL, np.float32(-1), np.float32(2)))
    yield Case("Clip", 12, {}, (ints(-5, 5), None, np.int64(2)))
    yield Case("CumSum", 11, {"exclusive": 1, "reverse": 1}, (X, np.int32(1)))
    x, scale, zero = floats(2, 3, 4), np.float32(0.1), np.uint8(10)
    yield Case("QuantizeLinear", 10, {}, (x, scale, zero))
    yield Case("QuantizeLinear", 10, {}, (x, scale))
    yield Case("DequantizeLinear", 10, {}, (BYTES, scale, zero))
    yield Case("DequantizeLinear", 10, {}, (BYTES, f32(0.1), zero.reshape(1)))
    yield Case("QuantizeLinear", 13, {}, (x, f32(0.1, 0.2, 0.3), np.array([1, 2, 3], np.int8)))
    yield Case("DequantizeLinear", 13, {"axis": -1}, (BYTES, f32(1, 2, 3, 4, 5)))
    yield Case("QLinearMatMul", 10, {}, (BYTES, scale, zero, BYTES[0].T, scale, zero, scale, zero))


def tensor_cases():
    for mode in ("sum", "mean"):
        target = ints(0, 2)
        yield Case("NegativeLogLikelihoodLoss", 12, {"reduction": mode}, (floats(2, 3), target))
        yield Case("SoftmaxCrossEntropyLoss", 12, {"reduction": mode}, (floats(2, 3), target))
    yield Case("Concat", 7, {"axis": 1}, (X, floats(2, 1, 4, 5)))
    yield Case("Reshape", 7, {}, (X, ints(0, -1, 2)))
    yield Case("Reshape", 14, {"allowzero": 1}, (np.zeros((0, 2), np.float32), ints(2, 0)))
    yield Case("Flatten", 7, {"axis": 2}, (X,))
    yield Case("Flatten", 11, {"axis": -1}, (X,))
    yield Case("Transpose", 7, {"perm": [0, 2, 3, 1]}, (X,))
    yield Case("Tile", 7, {}, (X, ints(1, 2, 1, 3)))
    yield Case("Expand", 8, {}, (floats(3, 1), ints(2, 1, 4)))
    yield Case("Gather", 7, {"axis": 1}, (X, ints([0, 2])))
    yield Case("GatherElements", 11, {"axis": -1}, (floats(2, 3), ints([0, 2], [1, -1])))
    yield Case("GatherND", 11, {}, (floats(2, 3), ints([0, 2], [1, -1])))
    yield Case("GatherND", 12, {"batch_dims": 1}, (floats(2, 3), ints([0], [1])))
    updates = floats(1, 2)
    yield Case("ScatterElements", 11, {"axis": 1}, (floats(2, 3), ints([0, 2]), updates))
    yield Case(
        "ScatterElements",
        16,
        {"axis": 1, "reduction": "add"},
        (floats(2, 3), ints([0, 0]), updates),
    )
    yield Case("ScatterND", 11, {}, (floats(4), ints([1], [3]), f32(8, 9)))
    yield Case("ScatterND", 16, {"reduction": "mul"}, (floats(4), ints([1], [1]), f32(8, 9)))
    for opset in (9, 11):
        inputs = (ints(-1, 0, 3, -4, -5, 4), ints(4), f32(2, 7))
        yield Case("OneHot", opset, {"axis": 0}, inputs)
    for op in ("ArgMax", "ArgMin"):
        yield Case(op, 7, {"axis": 1, "keepdims": 0}, (TIES,))
        yield Case(op, 12, {"axis": -1, "select_last_index": 1}, (TIES,))
    yield Case("Compress", 9, {"axis": 1}, (floats(2, 3), np.array([True, False, True])))
    yield Case("ConstantOfShape", 9, {}, (ints(2, 3),))
    yield Case("EyeLike", 9, {"k": 1, "dtype": TensorProto.INT64}, (floats(3, 4),))
    yield Case("Range", 11, {}, (np.float32(1), np.float32(9), np.float32(2)))
    yield Case("ReverseSequence", 10, {}, (floats(4, 2), ints(3, 2)))
    yield Case("Unique", 11, {"sorted": 0}, (ints(3, 1, 3, 2),), outputs=4)
    yield Case("Trilu", 14, {"upper": 0}, (X,))
    yield Case("Det", 11, {}, (floats(2, 3, 3),))
    yield Case("Einsum", 12, {"equation": "ij,jk->ik"}, (floats(2, 3), floats(3, 4)))
    yield Case("DepthToSpace", 7, {"blocksize": 2}, (floats(1, 8, 2, 3),))
    yield Case("DepthToSpace", 11, {"blocksize": 2, "mode": "CRD"}, (floats(1, 8, 2, 3),))
    yield Case("SpaceToDepth", 7, {"blocksize": 2}, (floats(1, 2, 4, 6),))
    yield Case("Slice", 10, {}, (X, ints(3, 0), ints(0, 2), ints(2, 1), ints(-2, 1)))
    yield Case("Pad", 11, {"mode": "reflect"}, (floats(2, 3), ints(0, 1, 0, 2)))
    yield Case("TopK", 11, {"largest": 0, "sorted": 1}, (TIES, ints(2)), outputs=2)
    boxes = f32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3]])
    nms = (boxes, f32([[0.9, 0.8, 0.7]]), np.int64(3), np.float32(0.5), np.float32(0.1))
    yield Case("NonMaxSuppression", 10, {"center_point_box": 1}, nms)
    yield Case("NonMaxSuppression", 10, {}, nms[:2])


def weighted_cases():
    w = floats(4, 3, 3, 2)
    for opset in (7, 11):
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Case("Conv", opset, {"auto_pad": pad, "strides": [2, 1]}, (X, w))
            if pad != "VALID":
                attributes = {"auto_pad": pad, "strides": [2, 3]}
                yield Case("ConvTranspose", opset, attributes, (X, floats(3, 2, 3, 4)))
        shaped = {"output_shape": [10, 12], "strides": [3, 2]}
        yield Case("ConvTranspose", opset, shaped, (X, floats(3, 2, 2, 4)))
        padded = {"output_padding": [1, 0], "strides": [2, 2], "pads": [0, 1, 1, 0]}
        yield Case("ConvTranspose", opset, padded, (X, floats(3, 2, 2, 2), floats(2)))
    for opset in (7, 9, 11):
        gemm = {"alpha": 0.5, "beta": 1.5, "transB": 1}
        yield Case("Gemm", opset, gemm, (floats(2, 3), floats(4, 3), floats(4)))
    yield Case("Gemm", 11, {"transA": 1}, (floats(3, 2), floats(3, 4)))
    yield Case("MatMul", 7, {}, (floats(2, 3, 4), floats(4, 5)))
    yield Case("MatMul", 9, {}, (ints([1, 2], [3, 4]), ints([1], [2])))
    pools = (
        {"strides": [2, 2], "pads": [1, 0, 1, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID", "strides": [1, 2]},
    )
    for pool in pools:
        pool = {"kernel_shape": [3, 2], **pool}
        yield Case("MaxPool", 7, pool, (X,))
        yield Case("AveragePool", 7, pool, (X,), rounding_from=19)
        yield Case("LpPool", 7, {"p": 1, **pool}, (X,))
    include = {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}
    yield Case("AveragePool", 7, include, (X,), rounding_from=19)
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 1]):
        ceil = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": pads, "ceil_mode": 1}
        yield Case("MaxPool", 10, ceil, (X,), outputs=2)
        yield Case("AveragePool", 10, ceil, (X,), rounding_from=19)
        yield Case("AveragePool", 11, {"count_include_pad": 1, **ceil}, (X,), rounding_from=19)
        yield Case("LpPool", 18, ceil, (X,))
    yield Case("MaxPool", 8, {"kernel_shape": [2, 2], "storage_order": 1}, (X,), outputs=2)
    yield Case("MaxPool", 10, {"kernel_shape": [2, 2], "dilations": [2, 3]}, (X,))
    yield Case("MaxRoiPool", 7, {"pooled_shape": [2, 2]}, (X, f32([0, 0, 0, 3, 3])))
    unpool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Case("MaxUnpool", 9, unpool, (floats(1, 1, 2, 2), ints([[[1, 3], [8, 14]]])))
    for op, gates, outputs in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)):
        inputs = (floats(5, 2, 3), floats(2, gates * 4, 3), floats(2, gates * 4, 4))
        attributes = {"hidden_size": 4, "direction": "bidirectional"}
        yield Case(op, 7, attributes, (*inputs, floats(2, gates * 8)), outputs=outputs)
        yield Case(op, 14, {"hidden_size": 4, "layout": 0, "direction": "bidirectional"}, inputs)


SAME = [*elementwise_cases(), *tensor_cases(), *weighted_cases()]


@pytest.mark.parametrize("case", SAME, ids=str)
def test_same_meaning(case, tmp_path):
    for version in (13, 17, 19, 21, NEWEST):
        if case.opset < version <= newest_of_runtime():
            converted = run_case(case, version, tmp_path)
            assert list(converted.graph.node) == list(case.model()[0].graph.node)


def test_table_lists_every_version_of_every_operator():
    output = subprocess.run([str(TOOL), "--table"], capture_output=True, text=True, check=True)
    rows = [line.split() for line in output.stdout.splitlines()]
    listed = [(op, int(version)) for op, version, _ in rows]
    assert listed == sorted(set(listed))
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    oldest = {s.name: min(t.since_version for t in schemas if t.name == s.name) for s in schemas}
    changed = {
        (s.name, s.since_version)
        for s in schemas
        if max(OLDEST, oldest[s.name]) < s.since_version <= NEWEST
    }
    assert changed <= set(listed)
    tested = {case.op for case in CHANGED}
    assert {op for op, _, how in rows if how == "converted"} <= tested | {"Scan"}


# ---- Where nodes lie ----------------------------------------------------------------------------

PLACED = [
    Case("Clip", 9, {"min": -0.5, "max": 0.25}, (X,)),
    Case("Squeeze", 11, {"axes": [0]}, (floats(1, 3),)),
    Case("Softmax", 11, {"axis": 1}, (X,)),
    Case("Split", 11, {"axis": 3, "split": [1, 4]}, (X,), outputs=2),
    Case("Slice", 9, {"starts": [1], "ends": [2], "axes": [1]}, (X,)),
    Case("Upsample", 9, {}, (IMAGE, f32(1, 1, 2, 2)), const=(1,)),
    Case("Resize", 10, {}, (IMAGE, f32(1, 1, 2.5, 0.4)), const=(1,)),
    Case("Dropout", 10, {"ratio": 0.2}, (X,), outputs=2),
    Case("ReduceMean", 13, {"axes": [1, 2]}, (X,)),
]


def typed(names, values):
    return [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), None)
        for n, v in zip(names, values, strict=True)
    ]


def place_in_if(case, depth=1):
    """The node in a branch, `depth` deep; the input and constants are captured from the graph."""
    node, feeds, initializers = case.parts()
    outputs = list(node.output)
    results = run(*case.model())
    nodes = [node]
    for level in range(depth):
        inner = [f"{o}_{level}" for o in outputs]
        for n in nodes:
            renamed = [inner[outputs.index(o)] if o in outputs else o for o in n.output]
            n.output[:] = renamed
        then = helper.make_graph(nodes, f"then_{level}", [], typed(inner, results))
        constants = [
            helper.make_node("Constant", [], [f"{o}_else"], value=numpy_helper.from_array(r))
            for o, r in zip(inner, results, strict=True)
        ]
        names = [f"{o}_else" for o in inner]
        other = helper.make_graph(constants, f"else_{level}", [], typed(names, results))
        nodes = [helper.make_node("If", ["yes"], outputs, then_branch=then, else_branch=other)]
    initializers["yes"] = np.array(True)
    return make_model(nodes, feeds, outputs, case.opset, initializers), feeds


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_body(case, depth, tmp_path):
    model, feeds = place_in_if(case, depth)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)


def place_in_function(case, opset=None, **attributes):
    node, feeds, initializers = case.parts()
    inputs, outputs = [*feeds, *initializers], list(node.output)
    imports = [helper.make_opsetid("", opset or case.opset)]
    function = helper.make_function(
        "local", "Inner", inputs, outputs, [node], imports, list(attributes)
    )
    call = helper.make_node("Inner", inputs, outputs, domain="local", **attributes)
    return make_model(
        [call],
        feeds,
        outputs,
        case.opset,
        initializers,
        imports=[helper.make_opsetid("local", 1)],
        functions=[function],
    ), feeds


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_function(case, tmp_path):
    model, feeds = place_in_function(case)
    for version in (13, 19, 21):
        converted = assert_converts(model, feeds, version, tmp_path)
        assert default_opset(converted.functions[0]) == version


@pytest.mark.parametrize("case", PLACED, ids=str)
def test_in_body_in_function(case, tmp_path):
    outer, feeds = place_in_if(case)
    constants = {i.name: numpy_helper.to_array(i) for i in outer.graph.initializer}
    inputs, outputs = [*feeds, *constants], [o.name for o in outer.graph.output]
    imports = [helper.make_opsetid("", case.opset)]
    function = helper.make_function("local", "F", inputs, outputs, outer.graph.node, imports)
    call = helper.make_node("F", inputs, outputs, domain="local")
    local = [helper.make_opsetid("local", 1)]
    model = make_model(
        [call], feeds, outputs, case.opset, constants, imports=local, functions=[function]
    )
    for version in (13, 21):
        converted = assert_converts(model, feeds, version, tmp_path)
        branch = converted.functions[0].node[0].attribute[0].g
        assert not branch.initializer


def test_in_loop_over_a_captured_value(tmp_path):
    body = helper.make_graph(
        [
            helper.make_node("Clip", ["s"], ["c"], max=0.5),
            helper.make_node("Softmax", ["x"], ["m"], axis=1),
            helper.make_node("Add", ["c", "m"], ["t"]),
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Unsqueeze", ["t"], ["out"], axes=[0]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, None),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)
    model = make_model([node], {"x": X}, ["y", "z"], 10, {"n": np.array(3)})
    for version in (13, 19, 21):
        assert_converts(model, {"x": X}, version, tmp_path)


def test_function_of_another_version(tmp_path):
    older, feeds = place_in_function(Case("Squeeze", 13, {"axes": [0]}, (floats(1, 3),)), 11)
    converted = convert(older, 17, tmp_path)
    assert default_opset(converted.functions[0]) == 17
    assert_equal(run(converted, feeds), [feeds["x0"][0]])
    newer, _ = place_in_function(Case("Squeeze", 11, {}, (floats(1, 3), ints(0))), 13)
    converted = convert(newer, 12, tmp_path)
    assert converted.functions[0] == newer.functions[0]


def referring(op, opset, inputs, name, value, **attributes):
    """A function whose node takes the attribute `name` from the attribute `given` of the call."""
    model, feeds = place_in_function(Case(op, opset, attributes, inputs), given=value)
    node = model.functions[0].node[0]
    node.attribute.append(helper.make_attribute(name, value))
    node.attribute[-1].CopyFrom(
        onnx.AttributeProto(name=name, type=node.attribute[-1].type, ref_attr_name="given")
    )
    return model, feeds


@pytest.mark.parametrize(
    ("op", "opset", "name", "value"),
    [
        ("Squeeze", 11, "axes", [0, -1]),
        ("Unsqueeze", 11, "axes", [0, 2]),
        ("ReduceMax", 13, "axes", [1]),
        ("Softmax", 11, "axis", 0),
        ("Softmax", 11, "axis", 2),
        ("Clip", 10, "max", 0.2),
        ("Pad", 10, "pads", [0, 1, 0, 0, 0, 2]),
    ],
)
def test_attribute_of_a_function(op, opset, name, value, tmp_path):
    model, feeds = referring(op, opset, (floats(1, 3, 1),), name, value)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)


def test_attribute_of_a_function_that_is_not_always_set(tmp_path):
    model, _ = referring("Squeeze", 11, (floats(1, 3, 1),), "axes", [0])
    del model.graph.node[0].attribute[:]
    message = convert(model, 13, tmp_path, fails=True)
    assert "'@y0' (Squeeze) from opset 11 to 13" in message


def test_attribute_of_a_function_whose_value_decides(tmp_path):
    model, _ = referring("TopK", 9, (X,), "k", 2)
    assert "(TopK) from opset 9 to 13" in convert(model, 13, tmp_path, fails=True)


def scan_8(directions=None, lengths=False):
    """Running sums of a batch of sequences, and the sums so far."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("s", "e", "o", "t")]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["p"]),
            helper.make_node("Clip", ["p"], ["o"], max=2.0),
            helper.make_node("Mul", ["o", "factor"], ["t"]),
        ],
        "body",
        infos[:2],
        infos[2:],
    )
    attributes = {} if directions is None else {"directions": directions}
    inputs = ["lengths" if lengths else "", "state", "sequence"]
    node = helper.make_node("Scan", inputs, ["y", "z"], body=body, num_scan_inputs=1, **attributes)
    feeds = {"state": floats(2, 3), "sequence": floats(2, 4, 3, seed=1)}
    initializers = {"factor": f32(1, 2, 3), "lengths": ints(4, 2)}
    return make_model([node], feeds, ["y", "z"], 8, initializers), feeds


@pytest.mark.parametrize("directions", [None, [0], [1]])
def test_scan_of_a_batch(directions, tmp_path):
    model, feeds = scan_8(directions)
    for version in (13, 19, 21):
        assert_converts(model, feeds, version, tmp_path)


# ---- What comes out -----------------------------------------------------------------------------


def types(model):
    return [n.op_type for n in model.graph.node]


def chain(opset, *nodes, shape=(2, 3, 4, 5), dtype=np.float32, initializers=None, **extra):
    """One node after the other from input x to output y."""
    made = []
    for i, (op, inputs, attributes) in enumerate(nodes):
        names = ["x" if i == 0 else f"v{i}", *inputs]
        made.append(
            helper.make_node(op, names, ["y" if i + 1 == len(nodes) else f"v{i + 1}"], **attributes)
        )
    feeds = {"x": np.random.default_rng(0).random(shape).astype(dtype)}
    return make_model(made, feeds, ["y"], opset, initializers, **extra), feeds


def test_softmax_over_the_last_axis_stays_one_node(tmp_path):
    known = (
        [("Softmax", [], {"axis": 3})],
        [("Relu", [], {}), ("Add", ["c"], {}), ("Softmax", [], {"axis": 3})],
        [("Flatten", [], {}), ("Softmax", [], {})],
        [("Transpose", [], {"perm": [3, 0, 1, 2]}), ("Softmax", [], {"axis": 3})],
        [("Reshape", ["r"], {}), ("Unsqueeze", [], {"axes": [0]}), ("Softmax", [], {"axis": 3})],
        [("MatMul", ["m"], {}), ("ReduceMax", [], {"axes": [1]}), ("LogSoftmax", [], {"axis": 3})],
        [
            ("ReduceMax", [], {"axes": [1]}),
            ("Squeeze", [], {"axes": [1]}),
            ("Softmax", [], {"axis": 2}),
        ],
        [("Gather", ["i"], {}), ("Softmax", [], {"axis": 2})],
    )
    values = {"c": f32([1], [2]).reshape(2, 1, 1, 1), "r": ints(6, 4, 5), "m": floats(5, 6)}
    values["i"] = np.array(1)
    for nodes in known:
        model, feeds = chain(11, *nodes, initializers=values)
        converted = assert_converts(model, feeds, 13, tmp_path)
        assert types(converted) == types(model)
        assert converted.graph.node[-1].attribute[0].i == -1
    unknown = (
        [("Softmax", [], {"axis": 2})],
        [("Squeeze", [], {}), ("Softmax", [], {"axis": 2})],
    )
    for nodes in unknown:
        model, feeds = chain(11, *nodes, shape=(1, 3, 4, 5))
        converted = assert_converts(model, feeds, 13, tmp_path)
        assert types(converted)[-4:] == ["Shape", "Flatten", "Softmax", "Reshape"]


def test_softmax_behind_a_reshape_to_a_computed_shape(tmp_path):
    """As exporters write x.view(x.size(0), 5, -1), and a flattening before a classifier."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["size"]),
        node("Unsqueeze", ["size"], ["first"], axes=[0]),
        node("Concat", ["first", "rest"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["v"]),
        node("Softmax", ["v"], ["y"], axis=2),
        node("Slice", ["shape", "from", "until"], ["part"]),
        node("Cast", ["part"], ["cast"], to=TensorProto.INT32),
        node("Cast", ["cast"], ["back"], to=TensorProto.INT64),
        node("Concat", ["back", "last"], ["to2"], axis=-1),
        node("Reshape", ["x", "to2"], ["w"]),
        node("Softmax", ["w"], ["z"], axis=1),
    ]
    values = {"zero": np.array(0), "rest": ints(5, -1), "from": ints(0), "until": ints(1)}
    values["last"] = ints(-1)
    model = make_model(nodes, {"x": X}, ["y", "z"], 11, values)
    converted = assert_converts(model, {"x": X}, 13, tmp_path)
    assert types(converted) == types(model)
    # A part of three elements, and a part whose length is not looked for.
    for until, last in ((ints(3), ints(5)), (ints(-1), ints(5))):
        for initializer in model.graph.initializer:
            if initializer.name in ("until", "last"):
                value = until if initializer.name == "until" else last
                initializer.CopyFrom(numpy_helper.from_array(value, initializer.name))
        converted = assert_converts(model, {"x": X}, 13, tmp_path)
        assert types(converted)[-4:] == ["Shape", "Flatten", "Softmax", "Reshape"]


def test_resize_needs_one_node_when_all_scales_point_one_way(tmp_path):
    for scales, expected in (
        ((1, 1, 2, 2), ["Resize"]),
        ((1, 1, 0.5, 1), ["Resize"]),
        ((1, 1, 2, 0.5), ["Min", "Max", "Resize", "Resize"]),
    ):
        model, feeds = chain(10, ("Resize", ["s"], {}), initializers={"s": f32(*scales)})
        assert types(assert_converts(model, feeds, 13, tmp_path)) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_constants_have_the_type_of_the_tensor(dtype, tmp_path):
    weights = {"w": floats(5, 2).astype(dtype), "c": np.array(0.5, dtype)}
    model, feeds = chain(
        10,
        ("MatMul", ["w"], {}),
        ("Mul", ["c"], {}),
        ("Pad", [], {"pads": [0, 0, 1, 0, 0, 0, 0, 1], "value": 0.3}),
        ("Transpose", [], {}),
        *([("Clip", [], {"max": 0.1})] if dtype == np.float16 else []),
        dtype=dtype,
        initializers=weights,
    )
    assert_converts(model, feeds, 13, tmp_path)
    cast, feeds = chain(
        9, ("Cast", [], {"to": TensorProto.FLOAT16}), ("Clip", [], {"min": 0.2, "max": 0.7})
    )
    assert_converts(cast, feeds, 13, tmp_path)


def test_mask_of_dropout_that_is_read(tmp_path):
    model, feeds = Case("Dropout", 7, {"ratio": 0.3}, (X,), outputs=2).model()
    mask = helper.make_node("ReduceSum", ["y1"], ["z"], keepdims=0)
    model.graph.node.append(mask)
    model.graph.output[1].name = "z"
    assert_converts(model, feeds, 13, tmp_path)
    unread = onnx.ModelProto()
    unread.CopyFrom(Case("Dropout", 7, {"ratio": 0.3}, (X,), outputs=2).model()[0])
    del unread.graph.output[1]
    converted = assert_converts(unread, feeds, 13, tmp_path)
    assert types(converted) == ["Dropout"]
    assert list(converted.graph.node[0].output) == ["y0"]


def test_batch_normalization_in_training_mode(tmp_path):
    channel = [np.abs(floats(3, seed=s)) for s in range(4)]
    case = Case("BatchNormalization", 9, {"momentum": 0.7}, (X, *channel), outputs=5)
    model, feeds = case.model()
    message = convert(model, 14, tmp_path, fails=True)
    assert "saved_mean" in message
    assert_converts(model, feeds, 13, tmp_path)
    del model.graph.output[3:]
    for version in (14, 17, 21):
        assert_converts(model, feeds, version, tmp_path)


def test_batch_normalization_of_elements_in_training_mode(tmp_path):
    element = [np.abs(floats(3, 4, 5, seed=s)) for s in range(4)]
    case = Case("BatchNormalization", 7, {"spatial": 0}, (X, *element), outputs=5)
    assert "training mode" in convert(case.model()[0], 13, tmp_path, fails=True)


def test_names_are_unique_in_the_whole_model(tmp_path):
    taken = ["s_axes", "s_axes_1", "t_Shape", "t_Shape_1", "t_Flatten", "t_Reshape", "t_flat"]
    squeeze = helper.make_node("Squeeze", ["x"], ["v"], "s", axes=[0])
    softmax = helper.make_node("Softmax", ["v"], ["w"], "t", axis=1)
    others = [helper.make_node("Neg", ["w"], [name]) for name in taken]
    model = make_model([squeeze, softmax, *others], {"x": floats(1, 2, 3, 4)}, taken, 11)
    converted = assert_converts(model, {"x": floats(1, 2, 3, 4)}, 13, tmp_path)
    outputs = [o for n in converted.graph.node for o in n.output]
    values = outputs + [i.name for i in converted.graph.initializer] + ["x"]
    assert len(values) == len(set(values))
    assert {"s", "t"} <= {n.name for n in converted.graph.node}


def test_everything_else_stays(tmp_path):
    node = helper.make_node("Squeeze", ["x"], ["v"], "sq", "says", axes=[0])
    custom = helper.make_node("Softmax", ["v"], ["w"], "own", domain="custom", axis=1)
    model = make_model(
        [node, custom, helper.make_node("Split", ["w"], ["y"], domain="other.domain")],
        {"x": floats(1, 3)},
        ["y"],
        11,
        imports=[helper.make_opsetid("custom", 1), helper.make_opsetid("other.domain", 3)],
    )
    model.doc_string, model.graph.doc_string = "a model", "a graph"
    model.metadata_props.add(key="k", value="v")
    model.graph.value_info.append(helper.make_tensor_value_info("v", TensorProto.FLOAT, [3]))
    converted = convert(model, 13, tmp_path)
    assert converted.graph.node[1:] == model.graph.node[1:]
    assert converted.graph.node[0].doc_string == "says"
    assert [(o.domain, o.version) for o in converted.opset_import] == [
        ("", 13), ("custom", 1), ("other.domain", 3),
    ]  # fmt: skip
    for field_name in ("doc_string", "metadata_props", "ir_version"):
        assert getattr(converted, field_name) == getattr(model, field_name)
    for field_name in ("doc_string", "value_info", "input", "output", "name"):
        assert getattr(converted.graph, field_name) == getattr(model.graph, field_name)


def test_local_function_that_bears_the_name_of_an_operator(tmp_path):
    neg = helper.make_node("Neg", ["a"], ["b"])
    function = helper.make_function(
        "", "Hardmax", ["a"], ["b"], [neg], [helper.make_opsetid("", 11)]
    )
    node = helper.make_node("Hardmax", ["x"], ["y"])
    model = make_model([node], {"x": X}, ["y"], 11, functions=[function])
    assert convert(model, 13, tmp_path).graph.node[0] == node


@pytest.mark.parametrize("spelling", ["", "ai.onnx"])
def test_version_is_never_lowered(spelling, tmp_path):
    model, _ = chain(17, ("Relu", [], {}), ir_version=10)
    model.opset_import[0].domain = spelling
    assert convert(model, 13, tmp_path) == model
    assert convert(model, 17, tmp_path) == model
    raised = convert(model, 19, tmp_path)
    assert (raised.opset_import[0].version, raised.ir_version) == (19, 10)


@pytest.mark.parametrize(
    ("opset", "version", "ir", "expected"),
    [
        (8, 13, 3, 7), (8, 17, 3, 8), (11, 13, 8, 8), (13, 19, 7, 9), (13, 21, 7, 10),
        (13, 23, 7, 11), (21, 24, 10, 12), (21, 26, 10, 13),
    ],
)  # fmt: skip
def test_ir_version(opset, version, ir, expected, tmp_path):
    model, _ = chain(opset, ("Relu", [], {}), ir_version=ir)
    assert convert(model, version, tmp_path).ir_version == expected
    released = {(v[2], v[1]) for v in helper.VERSION_TABLE}
    assert expected >= min(i for o, i in released if o == version)


def test_initializers_listed_as_inputs(tmp_path):
    weights = {"w": floats(2, 3, 1, 1)}
    model, feeds = chain(8, ("Conv", ["w"], {}), initializers=weights, ir_version=3)
    listed = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3, 1, 1])
    model.graph.input.append(listed)
    converted = assert_converts(model, feeds, 13, tmp_path)
    assert [i.name for i in converted.graph.input] == ["x"]
    model.ir_version = 4  # here the caller may replace it
    converted = assert_converts(model, feeds, 13, tmp_path)
    assert [i.name for i in converted.graph.input] == ["x", "w"]


def test_no_default_domain(tmp_path):
    model = make_model([helper.make_node("Op", ["x"], ["y"], domain="custom")], {"x": X}, ["y"], 1)
    model.opset_import[0].CopyFrom(helper.make_opsetid("custom", 2))
    assert convert(model, 21, tmp_path) == model


# ---- Refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["graph", "body", "function"])
def test_refused_conversion_changes_nothing(place, tmp_path):
    refused = resize(
        11, (1, 1, 2, 2), mode="nearest", nearest_mode="ceil",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )  # fmt: skip
    placed = {
        "graph": refused.model, "body": lambda: place_in_if(refused),
        "function": lambda: place_in_function(refused),
    }  # fmt: skip
    model, _ = placed[place]()
    squeeze = helper.make_node("Squeeze", ["q"], ["r"], axes=[0])
    model.graph.node.insert(0, squeeze)
    model.graph.input.append(helper.make_tensor_value_info("q", TensorProto.FLOAT, [1, 2]))
    message = convert(model, 13, tmp_path, fails=True)
    assert "(Resize) from opset 11 to 13: " in message and "tf_half_pixel_for_nn" in message


def test_refused_scan(tmp_path):
    model, _ = scan_8(lengths=True)
    assert "node '@y' (Scan) from opset 8 to 13: " in convert(model, 13, tmp_path, fails=True)


@pytest.mark.parametrize(("opset", "version"), [(6, 13), (1, 17), (13, 27), (13, 5)])
def test_unknown_versions(opset, version, tmp_path):
    model, _ = chain(opset, ("Relu", [], {}))
    message = convert(model, version, tmp_path, fails=True)
    assert str(version) in message and "7" in message
