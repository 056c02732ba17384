"""Nodes in the forms of old opsets, with values that are not the default."""

import numpy as np
import onnx
from onnx import TensorProto
from opsets import NEWEST, Case, f32, floats, ints

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
