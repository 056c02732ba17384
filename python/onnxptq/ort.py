"""The call of ONNX Runtime's quantizer, onnxruntime.quantization.quantize_static, with its names
(docs/migration.md). What is not done raises; nothing is ignored in silence."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _compat, _engine
from . import quantize as _quantize
from ._compat import Unsupported, warn
from ._engine import Model
from ._options import Names, Providers
from ._result import Result

__all__ = ["CalibrationMethod", "QuantFormat", "QuantType", "Unsupported", "quantize_static"]


class QuantFormat(enum.Enum):
    QOperator = 0
    QDQ = 1


class QuantType(enum.Enum):
    QInt8 = 0
    QUInt8 = 1
    QInt16 = 3
    QUInt16 = 4


class CalibrationMethod(enum.Enum):
    MinMax = 0
    Entropy = 1
    Percentile = 2
    Distribution = 3


# By the names of ONNX Runtime's own enums, which are taken as well.
METHODS = {"MinMax": "max", "Entropy": "entropy", "Percentile": "percentile"}
TYPES = {"QInt8": "int8", "QUInt8": "uint8", "QInt16": "int16", "QUInt16": "uint16"}
# Entries of extra_options with the value that is what the engine does.
EXTRA: dict[str, Any] = {
    "ActivationSymmetric": False,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": False,
    "DedicatedQDQPair": False,
    "CalibTensorRangeSymmetric": False,
    "CalibMovingAverage": False,
    "SmoothQuant": False,
    "UseQDQContribOps": False,
    "QDQKeepRemovableActivations": False,
    "ForceQuantizeNoInputCheck": False,
    "EnableSubgraph": False,
    "MinimumRealRange": None,
    "TensorQuantOverrides": {},
    "OpTypesToExcludeOutputQuantization": [],
    "QDQOpTypePerChannelSupportToAxis": {},
    "ActivationRestrictedAsymmetric": False,
}
# Entries that concern how much memory or time calibration takes, and not what comes out.
IMMATERIAL = ("CalibMaxIntermediateOutputs",)


def _name(value: Any) -> str:
    return str(getattr(value, "name", value))


def _pick(parameter: str, value: Any, known: Mapping[str, str]) -> str:
    if _name(value) not in known:
        raise Unsupported(parameter, value, f"there are {', '.join(known)}")
    return known[_name(value)]


def _extra(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in options.items():
        if name == "CalibPercentile":
            found["percentile"] = float(value)
        elif name in IMMATERIAL:
            warn(f"extra_options['{name}']: memory does not grow with the number of samples")
        elif name not in EXTRA or not _compat.same(value, EXTRA[name]):
            raise Unsupported(f"extra_options['{name}']", value, "the engine has no such choice")
    return found


def _check(given: Mapping[str, Any]) -> None:
    _pick("quant_format", given["quant_format"], {"QDQ": "QDQ"})
    _pick("weight_type", given["weight_type"], {"QInt8": "int8"})
    if given["reduce_range"]:
        raise Unsupported("reduce_range", True, "weights have eight bits")


def _cache(path: str | os.PathLike[str] | None) -> dict[str, Any]:
    """A file that is there is used, one that is not is made; both in the engine's own format."""
    if path is None:
        return {}
    return {"ranges" if os.path.exists(path) else "save_ranges": os.fspath(path)}


def quantize_static(
    model_input: Model,
    model_output: str | os.PathLike[str],
    calibration_data_reader: Any = None,
    quant_format: Any = QuantFormat.QDQ,
    op_types_to_quantize: Sequence[str] | None = None,
    per_channel: bool = False,
    reduce_range: bool = False,
    activation_type: Any = QuantType.QInt8,
    weight_type: Any = QuantType.QInt8,
    nodes_to_quantize: Sequence[str] | None = None,
    nodes_to_exclude: Sequence[str] | None = None,
    use_external_data_format: bool = False,
    calibrate_method: Any = CalibrationMethod.MinMax,
    calibration_providers: Providers | None = None,
    extra_options: Mapping[str, Any] | None = None,
    calibration_cache_path: str | os.PathLike[str] | None = None,
    *,
    custom_op_libs: Names = (),
) -> Result:
    """Quantizes a model for ONNX Runtime's CPU provider into `model_output`, replacing what is there.

    Parameters are those of onnxruntime.quantization.quantize_static, enums its own or the ones here.
    Weights have a scale per output channel wherever the runtime has a kernel for it, `per_channel`
    or not: it costs nothing and is more accurate. `custom_op_libs` are libraries with the model's
    custom operators.

    Raises Unsupported, with the parameter's name, for what the engine does not do.
    """
    given = dict(locals())
    _check(given)
    extra = _extra(extra_options or {})
    runtime: dict[str, Any] = {
        "custom_op_libs": custom_op_libs,
        "providers": calibration_providers or (),
    }
    cache = _cache(calibration_cache_path)
    with _engine.scratch() as folder:
        path = _engine.model_path(model_input, folder)
        graph = _compat.Graph(path, runtime)
        return _quantize(
            path,
            model_output,
            calibration_data_reader,
            target="onnxruntime",
            method=_pick("calibrate_method", calibrate_method, METHODS),
            allow_low_quality=True,  # quantize_static has no gate: the note is logged
            repair=False,
            activation_type=_pick("activation_type", activation_type, TYPES),
            external_data=True if use_external_data_format else None,
            overwrite=True,
            **runtime,
            **cache,
            **extra,
            **_compat.select(graph, given, exact=True),
        )
