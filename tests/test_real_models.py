"""Models of the size and shape that users bring: a real text encoder, and a ResNet-50 with random weights."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import harness
import numpy as np
import onnx
import pytest
import qdq

MODELS = Path(os.environ.get("ONNXPTQ_MODELS", harness.ROOT / ".deps" / "models"))
GENERATOR = harness.ROOT / "bench" / "models.py"
MINILM = "paraphrase-MiniLM-L3-v2.onnx"
EMBEDDING = 3  # of MiniLM's outputs; the two before it are per token, or copies of the inputs

MIN_COSINE = 0.98
MIN_SQNR = 20.0  # of a ResNet-50: 53 layers of rounding

PAD, CLS, SEP, FIRST_WORD, VOCABULARY = 0, 101, 102, 1996, 30522


def sentences(count, seed, tokens=64):
    """Token ids as a BERT tokenizer gives them: frequent words have small ids, texts differ in length, the rest is padding."""
    rng = np.random.default_rng(seed)
    ids = np.full((count, tokens), PAD, np.int64)
    mask = np.zeros((count, tokens), np.int64)
    for row, row_mask in zip(ids, mask):
        length = rng.integers(6, tokens + 1)
        words = FIRST_WORD + rng.zipf(1.2, length - 2) % (VOCABULARY - FIRST_WORD)
        row[:length] = [CLS, *words, SEP]
        row_mask[:length] = 1
    return {"input_ids": ids, "attention_mask": mask}


def one_by_one(data):
    count = len(next(iter(data.values())))
    return [{name: array[i : i + 1] for name, array in data.items()} for i in range(count)]


def signature(values):
    return [value.SerializeToString(deterministic=True) for value in values]


def cosines(reference, got):
    a, b = np.concatenate(reference), np.concatenate(got)
    return np.sum(a * b, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def quantize(bench, path, data, target, *args):
    output = bench.out / "int8.onnx"
    run = harness.run_cli(
        "quantize",
        path,
        "-o",
        output,
        "--data",
        bench.write_data(data),
        "--target",
        target,
        "--json",
        *args,
        timeout=240,
    )
    run.path = output
    return run.ok()


def generate(bench, name):
    path = bench.inside / f"{name}.onnx"
    subprocess.run([sys.executable, GENERATOR, name, path], check=True)
    return path


@pytest.mark.runtime
def test_text_encoder(bench, target):
    """Every matrix product on int8 inputs, and embeddings that still point the same way, texts unseen, padding and all."""
    path = MODELS / MINILM
    assert path.exists(), f"{path} is missing: run tools/setup test, or set ONNXPTQ_MODELS"
    run = quantize(bench, path, sentences(32, seed=1), target)
    original, model = onnx.load(path), run.model

    onnx.checker.check_model(model, full_check=True)
    assert signature(model.graph.input) == signature(original.graph.input)
    assert signature(model.graph.output) == signature(original.graph.output)
    products = {n.name for n in original.graph.node if n.op_type == "MatMul"}
    edges = qdq.View(model).edges()
    assert {name: edges[name] for name in products} == {name: {0, 1} for name in products}
    assert run.path.stat().st_size < 0.8 * path.stat().st_size  # the embedding table stays float

    unseen = one_by_one(sentences(32, seed=2))
    names = [o.name for o in original.graph.output]
    reference = harness.run_model(original, unseen)
    for optimize in (True, False):
        got = harness.run_model(model, unseen, optimize=optimize)
        for name in names[:2]:
            assert all(np.array_equal(r[name], g[name]) for r, g in zip(reference, got)), name
        name = names[EMBEDDING]
        similarity = cosines([r[name] for r in reference], [g[name] for g in got])
        assert similarity.mean() >= MIN_COSINE, (
            f"{similarity.mean():.4f}, optimizations {'on' if optimize else 'off'}"
        )


def test_resnet50_for_tensorrt(bench):
    """The data inputs of all convolutions and the shortcuts of all residual blocks, and nothing else."""
    path = generate(bench, "resnet50")
    run = quantize(bench, path, images(8), "tensorrt", "--threads", "2")
    original, model = onnx.load(path), run.model
    onnx.checker.check_model(model, full_check=True)
    expected = {n.name: {0, 1} for n in original.graph.node if n.op_type == "Conv"}
    expected |= {n.name: {1} for n in original.graph.node if n.op_type == "Add"}
    assert qdq.View(model).edges() == expected
    assert_close(original, model)


def test_resnet50_for_onnxruntime(bench):
    """The runtime computes every convolution and every residual Add on integers."""
    path = generate(bench, "resnet50")
    run = quantize(bench, path, images(8), "onnxruntime", "--threads", "2")
    original, model = onnx.load(path), run.model
    onnx.checker.check_model(model, full_check=True)
    optimized = bench.folder / "optimized.onnx"
    harness.session(run.path, save_to=optimized)
    counts = Counter(n.op_type for n in onnx.load(optimized).graph.node)
    assert (counts["QLinearConv"], counts["QLinearAdd"]) == (53, 16), counts
    assert not {"Conv", "FusedConv", "Add", "Relu"} & counts.keys(), counts
    assert_close(original, model)


def images(count, seed=1):
    """Noise over random flat patches, of the range that pictures have after the usual normalisation."""
    rng = np.random.default_rng(seed)
    patches = np.repeat(np.repeat(rng.standard_normal((count, 3, 8, 8)), 28, axis=2), 28, axis=3)
    return {"input": (patches + 0.3 * rng.standard_normal(patches.shape)).astype(np.float32)}


def assert_close(original, model):
    feeds = one_by_one(images(4, seed=2))
    want = [r["output"] for r in harness.run_model(original, feeds)]
    for optimize in (True, False):
        got = [g["output"] for g in harness.run_model(model, feeds, optimize=optimize)]
        assert harness.sqnr_db(want, got) >= MIN_SQNR
