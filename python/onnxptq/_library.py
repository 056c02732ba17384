"""Finding and loading libonnxptq.so, and the ONNX Runtime library of the installed package."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from ctypes import POINTER, c_bool, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path

from . import _abi
from ._errors import CODES, Error

HERE = Path(__file__).resolve().parent
NO_RUNTIME = (
    "cannot find ONNX Runtime: no onnxruntime package is installed in this environment; install the "
    "flavour that you run models with (pip install onnxruntime, onnxruntime-gpu or "
    "onnxruntime-openvino), or set ONNXPTQ_ORT_LIB to a libonnxruntime.so"
)


def runtime_path() -> str | None:
    """The library inside the installed onnxruntime package, whichever flavour that is, without
    importing it. None leaves the choice to the engine."""
    if os.environ.get("ONNXPTQ_ORT_LIB"):
        return None
    spec = importlib.util.find_spec("onnxruntime")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        found = sorted(Path(folder, "capi").glob("libonnxruntime.so*"))
        if found:
            return str(found[-1])
    return None


def engine_path() -> Path:
    """libonnxptq.so: $ONNXPTQ_LIBRARY, else the one in this package."""
    return Path(os.environ.get("ONNXPTQ_LIBRARY") or HERE / "lib" / "libonnxptq.so.0")


def command_path() -> Path:
    """The command line program: $ONNXPTQ_CLI, else the one in this package."""
    return Path(os.environ.get("ONNXPTQ_CLI") or HERE / "bin" / "onnxptq")


_options = POINTER(_abi.QuantizeOptions)
_error = POINTER(_abi.Error)
_text = POINTER(c_void_p)
_FUNCTIONS = {
    "onnxptq_version": (c_char_p,),
    "onnxptq_free": (None, c_void_p),
    "onnxptq_quantize_options_fill": (None, _options, c_size_t),
    "onnxptq_runtime_options_fill": (None, POINTER(_abi.RuntimeOptions), c_size_t),
    "onnxptq_merge_ranges": (c_int, POINTER(c_char_p), c_size_t, c_char_p, c_bool, _error),
    "onnxptq_state_join": (c_int, c_char_p, _error),
    "onnxptq_state_discard": (c_int, c_char_p, _error),
    "onnxptq_job_create": (c_int, _options, _text, _error),
    "onnxptq_job_plan": (c_int, c_void_p, _error),
    "onnxptq_job_calibrate": (c_int, c_void_p, _error),
    "onnxptq_job_save_ranges": (c_int, c_void_p, _error),
    "onnxptq_job_emit": (c_int, c_void_p, _error),
    "onnxptq_job_check": (c_int, c_void_p, _error),
    "onnxptq_job_commit": (c_int, c_void_p, _error),
    "onnxptq_job_report_json": (c_int, c_void_p, _text, _error),
    "onnxptq_job_destroy": (None, c_void_p),
    "onnxptq_inspect": (
        c_int,
        c_char_p,
        c_char_p,
        POINTER(_abi.RuntimeOptions),
        _text,
        _error,
    ),
    "onnxptq_inspector_json": (c_int, c_void_p, _text, _error),
    "onnxptq_inspector_destroy": (None, c_void_p),
}


@functools.cache
def load() -> ctypes.CDLL:
    """The engine. CDLL lets other Python threads run while it works."""
    # Recent runtimes look a server up when they start; the caller's own choice stays.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    path = engine_path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as fault:
        raise ImportError(f"cannot load the engine '{path}': {fault}; reinstall onnxptq") from fault
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def version() -> str:
    return load().onnxptq_version().decode()


def call(name: str, *arguments: object) -> None:
    """Calls a function whose last parameter is the error, and raises what it fails with."""
    error = _abi.Error()
    status = getattr(load(), name)(*arguments, ctypes.byref(error))
    if status != 0:
        raise Error(CODES[status], error.message.decode(errors="replace"))


def take_text(name: str, handle: c_void_p) -> str:
    text = c_void_p()
    call(name, handle, ctypes.byref(text))
    try:
        return (ctypes.cast(text, c_char_p).value or b"").decode(errors="replace")
    finally:
        load().onnxptq_free(text)
