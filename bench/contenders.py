#!/usr/bin/env python3
"""What the benchmark measures us against, each in a process of its own; prints one line of JSON.

usage: contenders.py plain MODEL DATA SAMPLES THREADS
       contenders.py quantize_static MODEL DATA SAMPLES THREADS OUTPUT MinMax|Entropy
       contenders.py modelopt MODEL DATA SAMPLES THREADS OUTPUT max|entropy
"""

import importlib
import json
import math
import os
import sys
import time
import zipfile

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the runtime is loaded

import numpy as np
import onnxruntime as ort


def rows(path, count):
    """Rows of an uncompressed .npz, one at a time: what was read stays out of the measured memory."""
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): archive.open(name) for name in archive.namelist()}
        headers = {}
        for name, member in members.items():
            np.lib.format.read_magic(member)
            headers[name] = np.lib.format.read_array_header_1_0(member)
        for _ in range(count):
            feed = {}
            for name, (shape, _, dtype) in headers.items():
                size = dtype.itemsize * math.prod(shape[1:])
                feed[name] = np.frombuffer(members[name].read(size), dtype).reshape(1, *shape[1:])
            yield feed


def anonymous_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def options(threads):
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    o.log_severity_level = 3
    return o


def plain(model, samples, threads):
    """Inference and nothing else: the runtime's defaults, all optimizations."""
    started = time.perf_counter()
    session = ort.InferenceSession(model, options(threads), providers=["CPUExecutionProvider"])
    created = time.perf_counter()
    for feed in samples:
        session.run(None, feed)
    return {"session_seconds": created - started, "run_seconds": time.perf_counter() - created}


def quantize_static(model, samples, threads, output, method):
    """ONNX Runtime's own quantizer; calibration is all that its calibrator does."""
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType

    implementation = importlib.import_module("onnxruntime.quantization.quantize")
    spent = 0.0

    def timed(function):
        def call(*arguments, **keywords):
            nonlocal spent
            started = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                spent += time.perf_counter() - started

        return call

    def create(*arguments, **keywords):
        calibrator = original(*arguments, **keywords)
        calibrator.collect_data = timed(calibrator.collect_data)
        calibrator.compute_data = timed(calibrator.compute_data)
        return calibrator

    class Reader(CalibrationDataReader):
        def get_next(self):
            return next(samples, None)

    original = implementation.create_calibrator
    implementation.create_calibrator = timed(create)
    implementation.quantize_static(
        model,
        output,
        Reader(),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=CalibrationMethod[method],
    )
    return {"calibrate_seconds": spent}


def modelopt(model, samples, threads, output, method):
    """NVIDIA's quantizer, which runs the samples through a runtime of its own making, on CPU here."""
    from modelopt.onnx.quantization import quantize

    rows = list(samples)
    started = time.perf_counter()
    quantize(
        model,
        quantize_mode="int8",
        calibration_data={name: np.concatenate([row[name] for row in rows]) for name in rows[0]},
        calibration_method=method,
        calibration_eps=["cpu"],
        calibration_shapes=",".join(
            f"{name}:{'x'.join(map(str, value.shape))}" for name, value in rows[0].items()
        ),
        high_precision_dtype="fp32",
        output_path=output,
        log_level="ERROR",
    )
    return {"calibrate_seconds": time.perf_counter() - started}


CONTENDERS = {"plain": plain, "quantize_static": quantize_static, "modelopt": modelopt}


def main(arguments):
    if len(arguments) < 5 or arguments[0] not in CONTENDERS:
        sys.exit(__doc__)
    kind, model, data, count, threads, *rest = arguments
    overhead = anonymous_bytes()
    samples = rows(data, int(count))
    started, processor = time.perf_counter(), time.process_time()
    result = CONTENDERS[kind](model, samples, int(threads), *rest)
    result |= {
        "seconds": time.perf_counter() - started,
        "processor_seconds": time.process_time() - processor,
        "interpreter_bytes": overhead,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
