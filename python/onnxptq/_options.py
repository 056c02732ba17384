"""From keywords to the engine's option structs."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _abi
from ._errors import Error
from ._hooks import Hooks
from ._library import load, runtime_path

Names = str | Sequence[str]
Path = Union[str, "os.PathLike[str]"]
Providers = Sequence[str | tuple[str, Mapping[str, Any]]]
ProviderOptions = Mapping[str, Mapping[str, Any]] | Sequence[str]
Shapes = Mapping[str, Sequence[int]]

# How ONNX Runtime's Python package calls those that have a short name here.
SHORT_NAMES = {
    "CPUExecutionProvider": "cpu",
    "CUDAExecutionProvider": "cuda",
    "TensorrtExecutionProvider": "trt",
}
CHOICES = {
    "method": (_abi.METHOD, "ONNXPTQ_METHOD_"),
    "observe": (_abi.OBSERVE, "ONNXPTQ_OBSERVE_"),
    "foreign_edges": (_abi.FOREIGN_EDGES, "ONNXPTQ_FOREIGN_"),
    "activation_type": (_abi.TYPE, "ONNXPTQ_TYPE_"),
}
# keyword: field, of those that are not called alike
TEXTS = {
    "ranges": "ranges_path",
    "save_ranges": "save_ranges_path",
    "images": "images_path",
    "preprocess": "preprocess",
    "state": "state_path",
    "target": "target",
}
NUMBERS = {
    "overwrite": "overwrite",
    "random_data": "random_samples",
    "seed": "seed",
    "samples": "max_samples",
    "batch": "batch",
    "resume": "resume",
    "convert_only": "convert_only",
    "percentile": "percentile",
    "size_rules": "size_rules",
    "quantize_outputs": "quantize_outputs",
    "external_data_threshold": "external_data_threshold",
    "external_data_above": "external_data_above",
    "opset": "opset",
    "min_sqnr": "min_sqnr",
    "allow_low_quality": "allow_low_quality",
    "min_int8_macs": "min_int8_macs",
    "repair_budget": "repair_budget",
}
LISTS = (
    "op_types",
    "exclude_op_types",
    "nodes",
    "exclude_nodes",
    "keep_float_op_types",
    "keep_float_nodes",
    "half_op_types",
)
PRECISIONS = {
    "fp32": _abi.TYPE["ONNXPTQ_TYPE_FLOAT"],
    "fp16": _abi.TYPE["ONNXPTQ_TYPE_FLOAT16"],
    "bf16": _abi.TYPE["ONNXPTQ_TYPE_BFLOAT16"],
}
REPAIR_ON, REPAIR_OFF = 1, 2  # ONNXPTQ_REPAIR_
IO_TYPES = {"keep": False, "native": True}


def usage(keyword: str, fact: str) -> Error:
    return Error("usage", f"cannot use {keyword}: {fact}")


def texts(values: Names | Path | None) -> list[bytes]:
    if values is None:
        return []
    if isinstance(values, (str, os.PathLike)):
        values = [values]  # type: ignore[list-item]
    return [os.fsencode(value) for value in values]


def set_list(struct: Any, field: str, values: Sequence[bytes]) -> None:
    array = (ctypes.c_char_p * len(values))(*values)
    setattr(struct, field, array)
    setattr(struct, f"n_{field}", len(values))


def set_shapes(struct: Any, field: str, shapes: Shapes | None, keyword: str) -> None:
    rows: list[Any] = []
    for name, shape in (shapes or {}).items():
        limit = _abi.InputShape.shape.size // 8
        if len(shape) > limit:
            raise usage(keyword, f"'{name}' has {len(shape)} dimensions; at most {limit} can be")
        rows.append((os.fsencode(name), len(shape), tuple(int(size) for size in shape)))
    setattr(struct, field, (_abi.InputShape * len(rows))(*rows))
    setattr(struct, f"n_{field}", len(rows))


def choose(keyword: str, value: Any) -> int:
    values, prefix = CHOICES[keyword]
    known = {name.removeprefix(prefix).lower(): number for name, number in values.items()}
    return pick(keyword, known, value)


def pick(keyword: str, known: Mapping[str, int], value: Any) -> int:
    name = str(getattr(value, "name", value)).lower()
    if name not in known:
        raise usage(keyword, f"there is no '{value}'; there are {', '.join(known)}")
    return known[name]


def split_providers(
    providers: Providers | str, options: ProviderOptions | None
) -> tuple[list[str], list[str]]:
    """Names and "NAME:KEY=VALUE", from what ONNX Runtime's sessions take too."""
    names, pairs = [], []
    if isinstance(providers, str):
        providers = providers.split(",")
    for entry in providers:
        name, own = (entry, {}) if isinstance(entry, str) else entry
        own = dict(own)
        short = SHORT_NAMES.get(name, name)
        if short in ("cuda", "trt"):
            short += f":{own.pop('device_id', 0)}"
        names.append(short)
        pairs += [f"{short}:{key}={value}" for key, value in own.items()]
    if isinstance(options, Mapping):
        for name, own in options.items():
            pairs += [f"{name}:{key}={value}" for key, value in own.items()]
    else:
        pairs += list(options or ())
    return names, pairs


def runtime_struct(given: dict[str, Any], hooks: Hooks) -> _abi.RuntimeOptions:
    """Takes its keywords out of `given`."""
    struct = _abi.RuntimeOptions()
    load().onnxptq_runtime_options_fill(ctypes.byref(struct), ctypes.sizeof(struct))
    library = given.pop("ort_lib", None) or runtime_path()
    struct.ort_library = os.fsencode(library) if library else None
    set_list(struct, "custom_op_libraries", texts(given.pop("custom_op_libs", ())))
    names, pairs = split_providers(
        given.pop("providers", None) or (), given.pop("provider_options", None)
    )
    set_list(struct, "providers", texts(names))
    set_list(struct, "provider_options", texts(pairs))
    set_list(struct, "trt_plugins", texts(given.pop("trt_plugins", ())))
    for field in ("trt_profile_min", "trt_profile_opt", "trt_profile_max"):
        set_shapes(struct, field, given.pop(field, None), field)
    struct.threads = given.pop("threads", None) or 0
    if hooks.activity is not None:
        struct.activity = hooks.c_activity
    return struct


def set_ranges(struct: _abi.QuantizeOptions, ranges: Mapping[str, Iterable[float]] | None) -> None:
    rows: list[Any] = []
    for name, (low, high) in (ranges or {}).items():
        rows.append((os.fsencode(name), float(low), float(high)))
    struct.input_ranges = (_abi.InputRange * len(rows))(*rows)
    struct.n_input_ranges = len(rows)


def set_external_data(struct: _abi.QuantizeOptions, value: bool | None) -> None:
    if value is not None:
        name = "ALWAYS" if value else "NEVER"
        struct.external_data = _abi.EXTERNAL_DATA[f"ONNXPTQ_EXTERNAL_DATA_{name}"]


def set_shard(struct: _abi.QuantizeOptions, shard: tuple[int, int] | None) -> None:
    if shard is None:
        return
    number, total = shard
    if not 1 <= number <= total:
        raise usage("shard", f"there is no shard {number} of {total}; the first is (1, {total})")
    struct.shard, struct.n_shards = number - 1, total


def set_method(struct: _abi.QuantizeOptions, method: Any, percentile: float | None) -> None:
    """A percentile alone chooses the method of that name."""
    if method is None and percentile is not None:
        method = "percentile"
    if method is not None:
        struct.method = choose("method", method)


def set_repair(struct: _abi.QuantizeOptions, repair: float | bool | None) -> None:
    """None: where the result is below the gate. Else off, or on with the figure that was given."""
    if repair is None:
        return
    if repair is False:
        struct.repair = REPAIR_OFF
        return
    struct.repair = REPAIR_ON
    if repair is not True:
        struct.repair_db = float(repair)


def quantize_struct(given: dict[str, Any], hooks: Hooks) -> _abi.QuantizeOptions:
    """Every keyword of quantize() but those that say what goes in and comes out."""
    given = {key: value for key, value in given.items() if value is not None}
    runtime = runtime_struct(given, hooks)
    struct = _abi.QuantizeOptions()
    load().onnxptq_quantize_options_fill(ctypes.byref(struct), ctypes.sizeof(struct))
    struct.runtime = ctypes.pointer(runtime)
    set_shapes(struct, "input_shapes", given.pop("input_shapes", None), "input_shapes")
    set_ranges(struct, given.pop("input_ranges", None))
    set_external_data(struct, given.pop("external_data", None))
    set_method(struct, given.pop("method", None), given.get("percentile"))
    set_shard(struct, given.pop("shard", None))
    struct.part, struct.n_parts = given.pop("part", (0, 0))
    set_repair(struct, given.pop("repair", None))
    struct.high_precision = pick("high_precision", PRECISIONS, given.pop("high_precision", "fp32"))
    struct.native_io = pick("io_types", IO_TYPES, given.pop("io_types", "keep"))
    for keyword in LISTS:
        set_list(struct, keyword, texts(given.pop(keyword, ())))
    for keyword, field in TEXTS.items():
        if keyword in given:
            setattr(struct, field, os.fsencode(given.pop(keyword)))
    for keyword in [name for name in CHOICES if name in given]:
        setattr(struct, keyword, choose(keyword, given.pop(keyword)))
    for keyword, field in NUMBERS.items():
        if keyword in given:
            try:
                setattr(struct, field, given.pop(keyword))
            except TypeError as fault:
                raise usage(keyword, str(fault)) from fault
    if given:
        raise TypeError(f"no such option: {', '.join(sorted(given))}")
    struct.progress = hooks.c_progress
    struct.log = hooks.c_log
    return struct
