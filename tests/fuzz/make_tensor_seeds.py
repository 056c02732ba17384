#!/usr/bin/env python3
"""Writes the seeds of fuzz_tensor: small ONNX tensors in every form that the reader knows.

usage: tests/fuzz/make_tensor_seeds.py
"""

import pathlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FOLDER = pathlib.Path(__file__).parent / "seeds" / "fuzz_tensor"

TYPED = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "uint64": TensorProto.UINT64,
    "int8": TensorProto.INT8,
    "half": TensorProto.FLOAT16,
    "string": TensorProto.STRING,
}


def unpacked():
    """float_data one by one, as old writers have it."""
    head = TensorProto(dims=[3], data_type=TensorProto.FLOAT, name="x").SerializeToString()
    return head + b"".join(b"\x25" + np.float32(v).tobytes() for v in (1, 2, 3))


SEEDS = {
    **{
        name: helper.make_tensor(
            "x", kind, [2, 2], ["a"] * 4 if name == "string" else [1, 0, 3, 2]
        ).SerializeToString()
        for name, kind in TYPED.items()
    },
    "raw": numpy_helper.from_array(np.ones((2, 3), np.float32), "x").SerializeToString(),
    "scalar": numpy_helper.from_array(np.float32(1), "x").SerializeToString(),
    "empty": numpy_helper.from_array(np.ones((0, 3), np.int32), "x").SerializeToString(),
    "unpacked": unpacked(),
    "external": TensorProto(
        dims=[1], data_type=1, data_location=TensorProto.EXTERNAL
    ).SerializeToString(),
}

if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in SEEDS.items():
        (FOLDER / f"{name}.pb").write_bytes(content)
