"""TensorRT's own compiler as the judge of where the pairs are: it builds engines without a GPU.

Runs where TensorRT is installed: ONNXPTQ_TRT_PYTHON, or the environment that `tools/setup trt` makes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import harness
import models
import onnx
import pytest
import qdq
import test_real_models as real

JUDGE = Path(__file__).with_name("trt.py")
PYTHON = Path(os.environ.get("ONNXPTQ_TRT_PYTHON", harness.ROOT / ".venv-trt" / "bin" / "python"))

pytestmark = [
    pytest.mark.trt,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs TensorRT: run tools/setup trt"),
]


def judge(path, *shapes):
    """What the compiler makes of a model; the model must parse and build."""
    given = [word for shape in shapes for word in ("--shape", shape)]
    done = subprocess.run(
        [PYTHON, JUDGE, "--json", path, *given], capture_output=True, text=True, timeout=240
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)[str(path)]
    assert result["parsed"] and result["built"] and not result["errors"], result["errors"]
    return result


def quantized(bench, path, data, *args):
    return real.quantize(bench, path, data, "tensorrt", *args).path


def test_resnet50(bench):
    """All 53 convolutions are Int8; the last Gemm has one row at batch 1, and the size rules leave it float."""
    path = real.generate(bench, "resnet50")
    result = judge(quantized(bench, path, real.images(4)))
    assert result["operators"] == {"Conv": {"Int8": 53}, "Gemm": {"Float": 1}}
    assert result["kernels"] <= 105
    assert result["traffic_bytes"] <= 116e6, "shortcuts are float"


def test_encoder(bench):
    """All matrix products are Int8, and attention stays one kernel."""
    path = real.generate(bench, "encoder")
    data = bench.inside / "data.npz"
    subprocess.run([sys.executable, real.GENERATOR, "data", "encoder", "4", data], check=True)
    output = bench.out / "int8.onnx"
    harness.run_cli("quantize", path, "-o", output, "--data", data, "--json", timeout=240).ok()
    result = judge(output, "input_ids=1x128")
    assert result["operators"] == {"MatMul": {"Int8": 96}}
    assert result["kernels"] <= 133
    assert result["traffic_bytes"] <= 56e6, "residual connections are float"


@pytest.mark.parametrize("command, kind", [("quantize", "Int8"), ("convert", "Half")])
def test_encoder_in_half_precision(bench, command, kind):
    """What stays float is Half, and less is read and written than in float32 (55.6 and 118 MB)."""
    path = real.generate(bench, "encoder")
    data, output = bench.inside / "data.npz", bench.out / "half.onnx"
    subprocess.run([sys.executable, real.GENERATOR, "data", "encoder", "4", data], check=True)
    words = ("-o", output, "--data", data, "--high-precision", "fp16", "--json")
    harness.run_cli(command, path, *words, timeout=240).ok()
    result = judge(output, "input_ids=1x128")
    assert result["operators"] == {"MatMul": {kind: 96}}
    assert result["kernels"] <= 133
    assert result["traffic_bytes"] <= (34.5e6 if kind == "Int8" else 38e6)
    assert result["values"].get("Float", 0) <= 1, result["values"]  # the model's own output


def test_text_encoder(bench):
    output = quantized(bench, real.MODELS / real.MINILM, real.sentences(8, seed=1))
    result = judge(output, "input_ids=1x64", "attention_mask=1x64")
    assert result["operators"] == {"MatMul": {"Int8": 24}}
    assert result["kernels"] <= 38
    # With quantized shortcuts below 7.3 MB; eight bits do not hold these, so they are float.
    assert result["traffic_bytes"] <= 8.3e6


def test_two_convolutions(bench):
    """The motivating case without its foreign operator, which TensorRT would take for a plugin it lacks."""
    g = models.Graph()
    x = g.node(
        "Relu", [g.conv(g.input("X", [1, 3, 8, 8]), "c1", 3, 32, name="conv1")], "r1", "relu1"
    )
    g.node("Relu", [g.conv(x, "c2", 32, 32, name="conv2")], "Y", "relu2")
    g.output("Y", [1, 32, 8, 8])
    case = models.Case(
        g.build(), {"X": models.noise(8, 3, 8, 8)}, {"conv1": {0, 1}, "conv2": {0, 1}}
    )
    run = bench.quantize(case).ok()
    assert judge(run.path)["operators"] == {"Conv": {"Int8": 2}}


def test_residual_block_reads_its_shortcut_as_int8(bench):
    """A pair on the shortcut alone, and the compiler fuses Add and Relu into what requantizes."""
    g = models.Graph()
    x = g.node(
        "Relu", [g.conv(g.input("X", [1, 3, 16, 16]), "c0", 3, 32, name="stem")], "r0", "relu0"
    )
    for k in (1, 2):
        y = g.node("Relu", [g.conv(x, f"a{k}", 32, 32, name=f"conv{k}a")], f"ra{k}", f"relu{k}a")
        y = g.node("Add", [g.conv(y, f"b{k}", 32, 32, name=f"conv{k}b"), x], f"s{k}", f"add{k}")
        x = g.node("Relu", [y], f"r{k}", f"relu{k}")
    g.conv(x, "Y", 32, 32, name="last")
    g.output("Y", [1, 32, 16, 16])
    case = models.Case(g.build(), {"X": models.noise(8, 3, 16, 16)})
    run = bench.quantize(case).ok()
    edges = qdq.View(onnx.load(run.path)).edges()
    assert {name: edges[name] for name in ("add1", "add2")} == {"add1": {1}, "add2": {1}}

    result = judge(run.path)
    assert result["operators"] == {"Conv": {"Int8": 6}}
    assert result["kernels"] == 13, (
        "six convolutions, a kernel before the first and one behind each"
    )
    assert result["traffic_bytes"] <= 530e3, "644 kB with float shortcuts"
