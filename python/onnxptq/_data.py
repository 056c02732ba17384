"""Calibration data from Python. What is in memory goes to files that the engine reads, so that the
same rules hold for every source and memory does not grow with the number of samples."""

from __future__ import annotations

import itertools
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from ._errors import Error


@runtime_checkable
class DataReader(Protocol):
    """As onnxruntime.quantization.CalibrationDataReader: the next sample, or None at the end."""

    def get_next(self) -> Mapping[str, Any] | None: ...


Sample = Mapping[str, Any]
CalibrationData = Union[
    str, "os.PathLike[str]", np.ndarray, Sample, Sequence[Sample], Iterable[Sample], DataReader
]


def to_array(value: Any) -> np.ndarray:
    """NumPy's view of an array, a torch tensor on any device, an OrtValue or a list."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            import torch  # type: ignore[import-not-found, unused-ignore]

            return value.view(torch.int16).numpy().view("V2")
        value = value.numpy()
    elif hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        value = value.numpy()
    array = np.asarray(value)
    return array.view("V2") if array.dtype.name == "bfloat16" else array


def write_npy(file: Any, value: Any, what: str) -> None:
    try:
        array = to_array(value)
        if array.dtype.hasobject or array.dtype.kind in "US":
            raise TypeError(f"it holds {array.dtype}, not numbers")
        # As NumPy's own files; C order is what can be read row by row.
        np.lib.format.write_array(file, np.ascontiguousarray(array).reshape(array.shape))
    except (TypeError, ValueError) as fault:
        raise Error("data", f"cannot use {what}: {fault}; give numeric arrays") from fault


def write_npz(path: Path, arrays: Sample, what: str) -> None:
    with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
        for name, value in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_npy(file, value, f"{what} for input '{name}'")


def write_sample(folder: Path, index: int, sample: Any) -> None:
    what = f"calibration sample {index}"
    if isinstance(sample, Mapping):
        write_npz(folder / f"{index:09}.npz", sample, what)
    elif isinstance(sample, (str, bytes, tuple, list)):
        raise Error(
            "data",
            f"cannot use {what}: it is a {type(sample).__name__}; give dicts from input name to array",
        )
    else:
        with open(folder / f"{index:09}.npy", "wb") as file:
            write_npy(file, sample, what)


def samples_of(data: Any) -> Iterator[Any]:
    if isinstance(data, DataReader):
        return iter(data.get_next, None)
    if isinstance(data, Iterable):
        return iter(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):  # a torch Dataset
        return (data[i] for i in range(len(data)))
    raise Error(
        "usage",
        f"cannot use calibration_data: a {type(data).__name__} is no data; give a path, a dict of "
        "arrays, an iterable of dicts or an object with get_next()",
    )


def is_array(data: Any) -> bool:
    return isinstance(data, np.ndarray) or (hasattr(data, "detach") and hasattr(data, "shape"))


def as_path(data: Any, folder: Path, samples: int | None) -> str:
    """Where the engine finds `data`: as given, or written into `folder`."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    if is_array(data):
        path = folder / "calibration.npy"
        with open(path, "wb") as file:
            write_npy(file, data, "calibration_data")
        return str(path)
    if isinstance(data, Mapping):
        path = folder / "calibration.npz"
        write_npz(path, data, "calibration_data")
        return str(path)
    path = folder / "calibration"
    path.mkdir()
    n = 0
    for n, sample in enumerate(itertools.islice(samples_of(data), samples), 1):
        write_sample(path, n - 1, sample)
    if n == 0:
        raise Error(
            "data",
            "cannot calibrate: calibration_data yields no sample; a generator or a reader gives its "
            "samples once, so make a new one",
        )
    return str(path)
