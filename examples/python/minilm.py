"""Quantize a text encoder and measure it: size, latency, and how far the embeddings moved.

usage: minilm.py MODEL TEXTS.npz [OUTPUT]

MODEL is an encoder such as paraphrase-MiniLM-L3-v2.onnx, TEXTS an array of token ids for each of its
inputs, one text a row. Half of the texts calibrate, the other half measure.
"""

# %% The model and the texts
import os
import statistics
import sys
import time

import numpy as np

import onnxptq

model_path, texts_path = sys.argv[1:3]
output_path = sys.argv[3] if len(sys.argv) > 3 else "minilm.int8.onnx"

with np.load(texts_path) as file:
    texts = {name: file[name] for name in file.files}
n = len(next(iter(texts.values())))
calibration = {name: array[: n // 2] for name, array in texts.items()}
unseen = [{name: array[i : i + 1] for name, array in texts.items()} for i in range(n // 2, n)]

# %% Quantize for ONNX Runtime on this machine's processor
result = onnxptq.quantize(
    model_path, output_path, calibration, target="onnxruntime", overwrite=True, progress=True
)
print(result)

# %% Run both on texts that calibration has not seen
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime as ort


def measure(path):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    embeddings, seconds = [], []
    for text in unseen:
        start = time.perf_counter()
        outputs = session.run(None, text)
        seconds.append(time.perf_counter() - start)
        embeddings.append(outputs[-1].reshape(-1))
    return np.array(embeddings), 1000 * statistics.median(seconds), os.path.getsize(path) / 1e6


before, after = measure(model_path), measure(output_path)
norms = np.linalg.norm(before[0], axis=1) * np.linalg.norm(after[0], axis=1)
cosine = np.sum(before[0] * after[0], axis=1) / norms

# %% What came of it
print(f"{'':22}{'float':>8}{'int8':>8}")
print(f"{'size, MB':22}{before[2]:8.1f}{after[2]:8.1f}")
print(f"{'latency, ms a text':22}{before[1]:8.2f}{after[1]:8.2f}")
print(f"{'cosine of embeddings':22}{1:8.4f}{cosine.mean():8.4f}")
