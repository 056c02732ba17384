"""The call of NVIDIA's Model Optimizer, modelopt.onnx.quantization.quantize, with its names and
defaults (docs/migration.md). What is not done raises; nothing is ignored in silence."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _compat, _data
from . import quantize as _quantize
from . import inspect as _inspect
from ._compat import Unsupported, warn
from ._errors import Error
from ._options import Names
from ._result import Result

__all__ = ["Unsupported", "quantize"]

METHODS = ("entropy", "max", "percentile", "mse", "auto")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LEAST_OPSET = 19
AUTOTUNE = "placement is not searched by timing engines; it follows the rules of docs/targets.md"
# Parameters with one value that the engine does, and why.
FIXED = {
    "override_shapes": "the shapes of a model are not rewritten; give it with the shapes it is to have",
    "disable_mha_qdq": "name the MatMul nodes of attention in nodes_to_exclude instead",
    "dq_only": "activations are quantized too, so both Q and DQ are needed",
    "block_size": "blocks belong to int4 weights",
    "use_zero_point": "TensorRT takes zero point 0 only",
    "passes": "tensors that are joined share their scale where that costs no accuracy, always",
    "simplify": "run a simplifier of your choice before",
    "model_id": "name the shapes in calibration_shapes or input_shapes_profile",
    "trust_remote_code": "nothing is downloaded",
    "target_dla": "Q/DQ is placed for TensorRT on a GPU",
    "trt_rtx_backend": "the provider is the one that the installed ONNX Runtime has",
    **{
        name: AUTOTUNE
        for name in (
            "autotune",
            "autotune_output_dir",
            "autotune_num_schemes_per_region",
            "autotune_pattern_cache_file",
            "autotune_state_file",
            "autotune_qdq_baseline",
            "autotune_node_filter_list",
            "autotune_verbose",
            "autotune_use_trtexec",
            "autotune_timing_cache",
            "autotune_warmup_runs",
            "autotune_timing_runs",
            "autotune_trtexec_args",
        )
    },
}
# One Identity, to see whether a provider comes.
PROBE = (
    b'\x08\x08:7\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04'
    b"\n\x02\x08\x01b\x0f\n\x01y\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\r"
)


def _provider(name: str) -> str:
    kind, _, device = name.partition(":")
    if kind in ("cuda", "trt"):
        return f"{kind}:{device or 0}"
    return {"NvTensorRtRtx": "NvTensorRTRTXExecutionProvider"}.get(kind, name)


def _choose_providers(names: Sequence[str]) -> list[tuple[int, str]]:
    """Those that this machine has, with their places in the list."""
    found = []
    for place, name in enumerate(names):
        provider = _provider(name)
        try:
            if provider != "cpu":
                _inspect(PROBE, providers=[provider])
        except Error as fault:
            warn(f"calibration_eps: '{name}' is left out: {fault.message}")
        else:
            found.append((place, provider))
    if not found:
        raise Error("runtime", f"cannot use calibration_eps: none of {list(names)} is there")
    return found


def _profiles(
    profiles: Sequence[Mapping[str, str]] | None, n: int, providers: Sequence[tuple[int, str]]
) -> dict[str, Any]:
    """Shapes of TensorRT's engines, from an entry for each provider."""
    if profiles is None:
        return {}
    if len(profiles) != n:
        raise ValueError(
            f"input_shapes_profile has {len(profiles)} entries for {n} calibration_eps"
        )
    found: dict[str, Any] = {}
    for place, provider in providers:
        for key, value in profiles[place].items():
            which = {f"trt_profile_{w}_shapes": f"trt_profile_{w}" for w in ("min", "opt", "max")}
            if not provider.startswith("trt") or key not in which:
                raise Unsupported("input_shapes_profile", {key: value}, "only TensorRT's are known")
            found[which[key]] = _compat.parse_shapes(value, "input_shapes_profile")
    return found


def _halves(pairs: Sequence[str] | None, half: str) -> list[str]:
    """Custom operators that take half precision, of "TYPE:PRECISION"."""
    found = []
    for pair in pairs or ():
        op, _, precision = pair.rpartition(":")
        if precision not in ("fp32", half) or not op:
            raise Unsupported("trt_plugins_precision", pair, f"it is TYPE:fp32 or TYPE:{half}")
        if precision == half and half != "fp32":
            found.append(op)
    return found


def _samples(
    given: Mapping[str, Any], shapes: dict[str, Any], graph: _compat.Graph
) -> dict[str, Any]:
    """Without any, one random sample: free dimensions are 1 unless their shape is given."""
    data, reader = given["calibration_data"], given["calibration_data_reader"]
    if data is not None and reader is not None:
        raise ValueError("both calibration_data and calibration_data_reader are given")
    _compat.unused_inputs(shapes, graph, "calibration_shapes")
    if data is None and reader is None:
        free = {name: [n or 1 for n in shape] for name, shape in graph.inputs.items() if shape}
        return {"random_data": 1, "input_shapes": {**free, **shapes}}
    if reader is not None or not (isinstance(data, Mapping) or _data.is_array(data)):
        if shapes:
            warn("calibration_shapes: the samples have shapes of their own")
        return {}
    rows = {shape[0] for shape in shapes.values() if shape}
    if len(rows) > 1:
        raise ValueError(f"calibration_shapes: inputs differ in their batch sizes {sorted(rows)}")
    return {"batch": rows.pop()} if rows else {}


@contextlib.contextmanager
def _logging(level: str, file: str | None) -> Iterator[logging.Logger]:
    if str(level).upper() not in LEVELS:
        raise ValueError(f"log_level: there is no '{level}'; there are {', '.join(LEVELS)}")
    logger = logging.getLogger("onnxptq.modelopt")
    before = logger.level, logger.propagate
    handlers: list[logging.Handler] = [] if logger.hasHandlers() else [logging.StreamHandler()]
    if file:
        handlers.append(logging.FileHandler(file))
    for handler in handlers:
        handler.setFormatter(logging.Formatter("[onnxptq] - %(levelname)s - %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(str(level).upper())
    try:
        yield logger
    finally:
        logger.setLevel(before[0])
        for handler in handlers:
            logger.removeHandler(handler)
            handler.close()


def _opset(opset: int | None) -> int:
    if opset is not None and opset < LEAST_OPSET:
        warn(f"opset: {opset} is raised to {LEAST_OPSET}, which scales in half precision need")
    return max(opset or LEAST_OPSET, LEAST_OPSET)


def _check(given: Mapping[str, Any]) -> None:
    if given["quantize_mode"] != "int8":
        raise Unsupported("quantize_mode", given["quantize_mode"], "int8 is the one there is")
    if given["calibration_method"] not in (None, *METHODS):
        raise Unsupported(
            "calibration_method", given["calibration_method"], f"there are {', '.join(METHODS)}"
        )
    if given["high_precision_dtype"] not in ("fp32", "fp16", "bf16"):
        raise Unsupported(
            "high_precision_dtype", given["high_precision_dtype"], "there are fp32, fp16, bf16"
        )
    if given["mha_accumulation_dtype"] not in ("fp16", "fp32"):
        raise Unsupported("mha_accumulation_dtype", given["mha_accumulation_dtype"], "fp16 or fp32")
    _compat.require_default(given, DEFAULTS, FIXED)
    for name in ("keep_intermediate_files", "calibrate_per_node"):
        if given[name]:
            warn(f"{name}: there are no intermediate files, and memory does not grow with samples")


def _run(given: dict[str, Any], logger: logging.Logger) -> Result:
    path = os.fspath(given["onnx_path"])
    providers = _choose_providers(given["calibration_eps"])
    names = [provider for _, provider in providers]
    with_trt = any(name.startswith("trt") for name in names)
    if given["trt_plugins"] and not with_trt:
        warn("trt_plugins: without the provider trt nothing loads them")
    runtime = {
        "custom_op_libs": given["ort_custom_plugins"] or (),
        "providers": names,
        "trt_plugins": (given["trt_plugins"] or ()) if with_trt else (),
        **_profiles(given["input_shapes_profile"], len(given["calibration_eps"]), providers),
    }
    graph = _compat.Graph(path, runtime)
    shapes = _compat.parse_shapes(given["calibration_shapes"], "calibration_shapes")
    half = given["high_precision_dtype"]
    data, reader = given["calibration_data"], given["calibration_data_reader"]
    cache = given["calibration_cache_path"]
    options = {
        **runtime,
        **_samples(given, shapes, graph),
        **_compat.select(graph, given, exact=False),
        "ranges": cache,
        # What a calibration cache holds is what its method chose.
        "method": given["calibration_method"] or (None if cache else "entropy"),
        "external_data": True if given["use_external_data_format"] else None,
        "opset": _opset(given["opset"]),
        "allow_low_quality": True,  # ModelOpt has no gate: the note is logged
        "repair": False,
        "high_precision": half,
        "io_types": "native" if given["direct_io_types"] and half != "fp32" else "keep",
        "keep_float_op_types": graph.expand_types(
            given["op_types_to_exclude_fp16"] or () if half != "fp32" else (),
            "op_types_to_exclude_fp16",
        ),
        "half_op_types": graph.expand_types(
            _halves(given["trt_plugins_precision"], half), "trt_plugins_precision"
        ),
        "target": "tensorrt",
        "overwrite": True,
        "log": lambda level, message: logger.log(level, "%s", message),
    }
    output = given["output_path"] or str(Path(path).with_suffix("")) + ".quant.onnx"
    result = _quantize(path, output, reader if data is None else data, **options)
    logger.info("Quantized onnx model is saved as %s", output)
    return result


@_compat.with_settings
def quantize(
    onnx_path: str,
    quantize_mode: str = "int8",
    calibration_data: Any = None,
    calibration_method: str | None = None,
    calibration_cache_path: str | None = None,
    calibration_data_reader: Any = None,
    calibration_shapes: str | None = None,
    calibration_eps: Sequence[str] = ("cpu", "cuda:0", "trt"),
    override_shapes: str | None = None,
    op_types_to_quantize: Sequence[str] | None = None,
    op_types_to_exclude: Sequence[str] | None = None,
    op_types_to_exclude_fp16: Sequence[str] | None = None,
    nodes_to_quantize: Sequence[str] | None = None,
    nodes_to_exclude: Sequence[str] | None = None,
    use_external_data_format: bool = False,
    keep_intermediate_files: bool = False,
    output_path: str | None = None,
    log_level: str = "INFO",
    log_file: str | None = None,
    trt_plugins: Sequence[str] | None = None,
    trt_plugins_precision: Sequence[str] | None = None,
    high_precision_dtype: str = "fp16",
    mha_accumulation_dtype: str = "fp16",
    disable_mha_qdq: bool = False,
    dq_only: bool = False,
    block_size: int | None = None,
    use_zero_point: bool = False,
    passes: Sequence[str] = ("concat_elimination",),
    simplify: bool = False,
    calibrate_per_node: bool = False,
    input_shapes_profile: Sequence[Mapping[str, str]] | None = None,
    model_id: str | None = None,
    trust_remote_code: bool = False,
    direct_io_types: bool = False,
    opset: int | None = None,
    target_dla: bool = False,
    autotune: bool = False,
    autotune_output_dir: str | None = None,
    autotune_num_schemes_per_region: int = 50,
    autotune_pattern_cache_file: str | None = None,
    autotune_state_file: str | None = None,
    autotune_qdq_baseline: str | None = None,
    autotune_node_filter_list: Sequence[str] | None = None,
    autotune_verbose: bool = False,
    autotune_use_trtexec: bool = False,
    autotune_timing_cache: str | None = None,
    autotune_warmup_runs: int = 50,
    autotune_timing_runs: int = 100,
    autotune_trtexec_args: str | None = None,
    trt_rtx_backend: str = "legacy",
    *,
    engine_settings: Mapping[str, Any] | None = None,
    ort_custom_plugins: Names | None = None,
) -> Result:
    """Quantizes `onnx_path` for TensorRT, by default with the rest in float16, into `output_path` or
    a file ".quant.onnx" beside it, replacing what is there.

    Parameters are those of modelopt.onnx.quantization.quantize. Besides:

    ort_custom_plugins: libraries with the model's custom operators, as ONNX Runtime registers them.
    engine_settings: a dict whose entries act as arguments; two different values for one raise.

    Raises Unsupported, with the parameter's name, for what the engine does not do.
    """
    given = dict(locals())
    _check(given)
    with _logging(log_level, log_file) as logger:
        return _run(given, logger)


DEFAULTS = {
    name: parameter.default for name, parameter in inspect.signature(quantize).parameters.items()
}
