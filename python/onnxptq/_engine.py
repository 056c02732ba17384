"""Runs of the engine."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _library
from ._data import as_path
from ._errors import Error
from ._hooks import Hooks
from ._options import quantize_struct, runtime_struct, usage

if TYPE_CHECKING:
    import onnx

Model = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "onnx.ModelProto"]
STEPS = ("plan", "calibrate", "emit", "check", "commit")
HOOKS = ("progress", "log", "activity")


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for what has to be a file, removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="onnxptq-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def serialized(model: Any) -> bytes | None:
    """The bytes of a model that is in memory; None for a path."""
    if isinstance(model, (str, os.PathLike)):
        return None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if not hasattr(model, "SerializeToString"):
        raise usage("model", f"a {type(model).__name__} is no path, bytes or onnx.ModelProto")
    try:
        return model.SerializeToString()
    except Exception as fault:  # protobuf's own kinds; the usual one is a model above 2 GB
        raise usage(
            "model", f"it cannot be serialized: {fault}; save it with external data, give its path"
        ) from fault


def model_path(model: Any, folder: Path) -> str:
    data = serialized(model)
    if data is None:
        return os.fspath(model)
    path = folder / "model.onnx"
    path.write_bytes(data)
    return str(path)


class Job:
    """A run in steps, as onnxptq_job_*() has them."""

    def __init__(self, options: Any, hooks: Hooks) -> None:
        self.hooks = hooks
        self.options = options  # borrowed by the engine until the end
        self.handle = ctypes.c_void_p()
        self.step("create", ctypes.byref(options), ctypes.byref(self.handle))

    def step(self, name: str, *arguments: Any) -> None:
        arguments = arguments or (self.handle,)
        try:
            _library.call(f"onnxptq_job_{name}", *arguments)
        except Error:
            self.hooks.reraise()  # what a callback raised is the cause
            raise
        self.hooks.reraise()

    def report(self) -> dict[str, Any]:
        return json.loads(_library.take_text("onnxptq_job_report_json", self.handle))

    def close(self) -> None:
        _library.load().onnxptq_job_destroy(self.handle)
        self.hooks.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def need_runtime(given: dict[str, Any]) -> None:
    """A clear word where no runtime is installed, unless the system has one of its own."""
    if given.get("ort_lib") or os.environ.get("ONNXPTQ_ORT_LIB") or _library.runtime_path():
        return
    try:
        ctypes.CDLL("libonnxruntime.so.1")
    except OSError:
        raise Error("runtime", _library.NO_RUNTIME) from None


def run(
    model: Any,
    output: Any,
    calibration_data: Any,
    given: dict[str, Any],
    steps: tuple[str, ...],
) -> dict[str, Any]:
    """The report of a run through `steps`. `given` holds the other keywords."""
    need_runtime(given)
    hooks = {name: given.pop(name, None) for name in HOOKS}
    jobs = given.pop("jobs", None) or 1
    with scratch() as folder:
        work: dict[str, Any] = {
            "model": model_path(model, folder),
            "output": None if output is None else os.fspath(output),
            "data": None,
            "given": given,
        }
        if calibration_data is not None:
            work["data"] = as_path(calibration_data, folder, given.get("samples"))
        set_state(given, work["output"], folder, jobs)
        if jobs > 1:
            from . import _jobs

            _jobs.share(work, jobs)
            given["resume"] = True
        return run_path(**work, steps=steps, **hooks)


def set_state(given: dict[str, Any], output: str | None, folder: Path, jobs: int) -> None:
    """The file that `resume` and `jobs` need, where none is named."""
    if given.get("state"):
        return
    if given.get("resume"):
        beside = output or given.get("save_ranges")
        if beside is None:
            raise usage(
                "resume", "there is no output that its state could lie beside; name a state"
            )
        given["state"] = f"{os.fspath(beside)}.state"
    elif jobs > 1:
        given["state"] = str(folder / "state")


def run_path(
    model: str,
    output: str | None,
    data: str | None,
    given: dict[str, Any],
    steps: tuple[str, ...],
    **callbacks: Any,
) -> dict[str, Any]:
    """The same with nothing but files."""
    hooks = Hooks(**callbacks)
    options = quantize_struct(given, hooks)
    options.model_path = os.fsencode(model)
    options.output_path = None if output is None else os.fsencode(output)
    options.data_path = None if data is None else os.fsencode(data)
    with hooks.hearing_interrupts(), Job(options, hooks) as job:
        for name in steps:
            job.step(name)
        return job.report()


def inspect(model: Any, target: str | None, given: dict[str, Any]) -> dict[str, Any]:
    need_runtime(given)
    handle = ctypes.c_void_p()
    with scratch() as folder:
        struct = runtime_struct(given, Hooks())
        path = os.fsencode(model_path(model, folder))
        _library.call(
            "onnxptq_inspect",
            path,
            os.fsencode(target) if target else None,
            ctypes.byref(struct),
            ctypes.byref(handle),
        )
        try:
            return json.loads(_library.take_text("onnxptq_inspector_json", handle))
        finally:
            _library.load().onnxptq_inspector_destroy(handle)
