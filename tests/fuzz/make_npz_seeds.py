#!/usr/bin/env python3
"""Writes the seeds of fuzz_npz: one small .npz or .npy file for every form that the reader knows.

usage: tests/fuzz/make_npz_seeds.py
"""

import io
import pathlib
import zipfile

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "seeds" / "fuzz_npz"


def npy(array, version=None):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version)
    return buffer.getvalue()


def npz(compression=zipfile.ZIP_STORED, **arrays):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, array in arrays.items():
            # A ZipInfo of its own has a fixed date, so that the seeds do not change.
            archive.writestr(zipfile.ZipInfo(name + ".npy"), npy(array), compression)
    return buffer.getvalue()


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


SEEDS = {
    "rows.npy": npy(numbers(3, 2, 2)),
    "entries.npy": npy(numbers(3, 1, 2, 2)),
    "version2.npy": npy(numbers(2, 2), (2, 0)),
    "version3.npy": npy(numbers(2, 2), (3, 0)),
    "fortran.npy": npy(np.asfortranarray(numbers(3, 2, 2))),
    "big_endian.npy": npy(numbers(3, 2, 2, dtype=">f8")),
    "half.npy": npy(numbers(2, 3, dtype=np.float16)),
    "scalar.npy": npy(np.float32(1)),
    "empty.npy": npy(numbers(0, 2)),
    "record.npy": npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")])),
    "text.npy": npy(np.array(["a", "bc"])),
    "stored.npz": npz(x=numbers(3, 2, 2)),
    "deflated.npz": npz(zipfile.ZIP_DEFLATED, x=numbers(3, 2, 2)),
    "fortran.npz": npz(zipfile.ZIP_DEFLATED, x=np.asfortranarray(numbers(3, 2, 2))),
    "two.npz": npz(x=numbers(4, 3), ids=numbers(4, dtype=np.int64)),
    "fixed.npz": npz(x=numbers(8, dtype=np.float64), ids=numbers(8, 2, dtype=np.uint8)),
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS.items():
        (FOLDER / name).write_bytes(content)
