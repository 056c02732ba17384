"""Post-training quantization of ONNX models, custom operators included.

    import onnxptq

    result = onnxptq.quantize("model.onnx", "model.int8.onnx", calibration_data="calib.npz",
                              custom_op_libs=["./libmyops.so"])
    print(result)

`onnxptq.modelopt` and `onnxptq.ort` take the calls of NVIDIA's Model Optimizer and of ONNX
Runtime's quantizer. `python -m onnxptq` is the command line tool.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _engine, _library
from ._data import CalibrationData, DataReader
from ._engine import Model
from ._errors import Error
from ._hooks import Activity, ActivityCallback, LogCallback, ProgressCallback
from ._options import Names, ProviderOptions, Providers, Shapes, usage
from ._result import Decision, Inspection, Range, Result

__all__ = [
    "Activity",
    "CalibrationData",
    "DataReader",
    "Decision",
    "Error",
    "Inspection",
    "Range",
    "Result",
    "calibrate",
    "convert",
    "inspect",
    "merge",
    "quantize",
]


# Keywords that convert() has no use for.
_QUANTIZING = {
    "activation_type",
    "exclude_nodes",
    "exclude_op_types",
    "foreign_edges",
    "jobs",
    "method",
    "min_int8_macs",
    "nodes",
    "observe",
    "op_types",
    "percentile",
    "quantize_outputs",
    "ranges",
    "repair",
    "repair_budget",
    "resume",
    "save_ranges",
    "shard",
    "size_rules",
    "state",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _library.version()
    if name in ("modelopt", "ort"):  # imported when first used
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'onnxptq' has no attribute {name!r}")


def quantize(
    model: Model,
    output: str | os.PathLike[str] | None = None,
    calibration_data: CalibrationData | None = None,
    *,
    overwrite: bool = False,
    external_data: bool | None = None,
    external_data_threshold: int | None = None,
    external_data_above: int | None = None,
    opset: int | None = None,
    images: str | os.PathLike[str] | None = None,
    preprocess: str | None = None,
    random_data: int | None = None,
    seed: int | None = None,
    input_shapes: Shapes | None = None,
    input_ranges: Mapping[str, tuple[float, float]] | None = None,
    samples: int | None = None,
    batch: int | None = None,
    ranges: str | os.PathLike[str] | None = None,
    save_ranges: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    resume: bool = False,
    state: str | os.PathLike[str] | None = None,
    shard: tuple[int, int] | None = None,
    custom_op_libs: Names | os.PathLike[str] = (),
    providers: Providers | str = (),
    provider_options: ProviderOptions | None = None,
    trt_plugins: Names = (),
    trt_profile_min: Shapes | None = None,
    trt_profile_opt: Shapes | None = None,
    trt_profile_max: Shapes | None = None,
    observe: str | None = None,
    threads: int | None = None,
    ort_lib: str | os.PathLike[str] | None = None,
    target: str = "tensorrt",
    method: str | None = None,
    percentile: float | None = None,
    op_types: Names = (),
    exclude_op_types: Names = (),
    nodes: Names = (),
    exclude_nodes: Names = (),
    size_rules: bool | None = None,
    activation_type: str | None = None,
    quantize_outputs: bool | None = None,
    foreign_edges: str | None = None,
    min_sqnr: float | None = None,
    allow_low_quality: bool = False,
    repair: float | bool | None = None,
    min_int8_macs: float | None = None,
    repair_budget: float | None = None,
    high_precision: str = "fp32",
    io_types: str = "keep",
    keep_float_op_types: Names = (),
    keep_float_nodes: Names = (),
    half_op_types: Names = (),
    progress: ProgressCallback | bool | None = None,
    log: LogCallback | None = None,
    activity: ActivityCallback | None = None,
) -> Result:
    """Quantizes a model, measures the result beside the original, and says what was done and why.

    Every keyword is the option of the command line tool that is called alike; `None` is its
    default (docs/python.md lists them). Custom operators run in this process: a library that
    crashes takes it along. `python -m onnxptq` contains such faults.

    model: path, serialized bytes, or onnx.ModelProto; never changed.
    output: path of the result, written whole or not at all. None: the result is in memory.
    calibration_data: path (docs/calibration-data.md), dict from input name to the array of all
        samples, array (for a model with one input), list, generator or DataLoader of dicts (each
        one run of the model), or an object with get_next() that returns None in the end.
    repair: decibels that every float output is to keep; True: 25; False: no node goes back to float.
    shard: (I, N) calibrates with every N-th run from the I-th on, counted from 1.
    jobs: processes that share the samples; `progress` is told of the rest only.
    state: file for what `resume` needs, kept while calibration runs; with `resume` output + ".state".
    progress: callback(stage, done, total) that may return False to stop, or True for a bar.
    log: callback(level, message) with the levels of `logging`; None: the logger "onnxptq".

    Raises Error; what a callback or the data raise comes out as it is. Ctrl-C raises
    KeyboardInterrupt after the run of the model that is going on.
    """
    given = dict(locals())
    for name in ("model", "output", "calibration_data"):
        del given[name]
    return _make(model, output, calibration_data, given)


def _make(model: Any, output: Any, calibration_data: Any, given: dict[str, Any]) -> Result:
    if output is not None:
        report = _engine.run(model, output, calibration_data, given, _engine.STEPS)
        return Result(report, Path(output))
    if given.get("external_data"):
        raise usage("external_data", "a model in memory has none; name an output")
    with _engine.scratch() as folder:
        path = folder / "model.onnx"
        given["external_data"] = False
        report = _engine.run(model, path, calibration_data, given, _engine.STEPS)
        return Result(report, None, path.read_bytes())


def convert(
    model: Model,
    output: str | os.PathLike[str] | None = None,
    calibration_data: CalibrationData | None = None,
    *,
    high_precision: str,
    **options: Any,
) -> Result:
    """Computes a float32 model in "fp16" or "bf16" as far as the values of the samples allow, without
    quantizing it, and measures the result. `options` are keywords of quantize()."""
    for name in sorted(_QUANTIZING & set(options)):
        raise TypeError(f"convert() takes no '{name}': nothing is quantized")
    given = {**options, "high_precision": high_precision, "convert_only": True}
    return _make(model, output, calibration_data, given)


def calibrate(
    model: Model,
    output: str | os.PathLike[str],
    calibration_data: CalibrationData | None = None,
    *,
    overwrite: bool = False,
    **options: Any,
) -> Result:
    """Runs the samples and saves the ranges of what the target quantizes, for quantize(ranges=...).
    `output` ending in ".cache" becomes a calibration cache of TensorRT. `options` are keywords of
    quantize()."""
    for name in ("ranges", "save_ranges", "external_data"):
        if options.get(name) is not None:
            raise TypeError(f"calibrate() takes no '{name}'")
    given = {**options, "overwrite": overwrite, "save_ranges": output}
    steps = ("plan", "calibrate", "save_ranges")
    return Result(_engine.run(model, None, calibration_data, given, steps), None)


def merge(
    ranges: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Joins the ranges files of one model's calibrations into what one run over all of their samples
    would have saved."""
    paths = [os.fsencode(path) for path in ranges]
    array = (ctypes.c_char_p * len(paths))(*paths)
    _library.call("onnxptq_merge_ranges", array, len(paths), os.fsencode(output), overwrite)


def inspect(
    model: Model,
    *,
    target: str = "tensorrt",
    custom_op_libs: Names | os.PathLike[str] = (),
    providers: Providers | str = (),
    provider_options: ProviderOptions | None = None,
    trt_plugins: Names = (),
    trt_profile_min: Shapes | None = None,
    trt_profile_opt: Shapes | None = None,
    trt_profile_max: Shapes | None = None,
    ort_lib: str | os.PathLike[str] | None = None,
) -> Inspection:
    """Says what a model holds and which of its operators can run. Nothing is run."""
    given = dict(locals())
    del given["model"], given["target"]
    return Inspection(_engine.inspect(model, target, given))
