"""The scripts under examples/python, as their readers run them."""

import os
import re
import subprocess
import sys

import harness
import models
import numpy as np
import onnx
import pytest
import zoo

EXAMPLES = harness.ROOT / "examples" / "python"
MINILM = zoo.FOLDER / "paraphrase-MiniLM-L3-v2.onnx"


def run(script, *args):
    env = {**os.environ, "PYTHONPATH": str(harness.ROOT / "python")}
    command = [sys.executable, str(EXAMPLES / script), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=env)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def headers():
    """Where the build found the runtime's header."""
    cache = (harness.CLI.parent / "CMakeCache.txt").read_text()
    return re.search(r"^ORT_INCLUDE_DIR:PATH=(.*)$", cache, re.MULTILINE)[1]


def test_all_are_run():
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {"minilm.py", "custom_op.py", "compare_methods.py"}


@pytest.mark.skipif(not MINILM.exists(), reason="needs `tools/setup demo`")
def test_minilm(tmp_path):
    np.savez(tmp_path / "texts.npz", **zoo.sentences(48, seed=1))
    out = tmp_path / "minilm.int8.onnx"
    text = run("minilm.py", MINILM, tmp_path / "texts.npz", out)
    cosine = float(re.search(r"cosine of embeddings +1\.0000 +([\d.]+)", text)[1])
    assert cosine > 0.98, text
    size = re.search(r"size, MB +([\d.]+) +([\d.]+)", text)
    assert float(size[2]) < 0.8 * float(size[1])
    onnx.checker.check_model(out)


def test_custom_op(tmp_path):
    text = run("custom_op.py", tmp_path, headers())
    assert "missing: ['custom_domain::Swish']" in text
    assert "missing with the library: []" in text
    found = {words[0]: words[2] for words in map(str.split, text.splitlines()) if len(words) > 3}
    assert (found["first"], found["swish"], found["second"]) == (
        "quantized",
        "foreign",
        "quantized",
    )
    assert float(re.search(r"new samples: ([\d.]+) dB", text)[1]) > 30


def test_compare_methods(tmp_path):
    case = models.two_convolutions()
    onnx.save(case.model, tmp_path / "m.onnx")
    np.savez(tmp_path / "c.npz", **case.data)
    plot = tmp_path / "plot.png"
    text = run("compare_methods.py", tmp_path / "m.onnx", tmp_path / "c.npz", plot)
    assert re.search(r"max +\S+: [\d.]+ dB", text) and re.search(r"entropy +\S+: [\d.]+ dB", text)
    assert "of the range of max" in text
    assert plot.read_bytes().startswith(b"\x89PNG")
