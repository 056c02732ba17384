"""Number formats and places that the user chooses: codes of activations, Q/DQ behind outputs."""

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, Graph, noise
from onnx import TensorProto

CODES = {
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16,
    "uint16": TensorProto.UINT16,
}


def matmul_relu():
    g = Graph()
    g.node("Relu", [g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")], "Y", "relu")
    g.output("Y", [4, 8])
    return models.Case(g.build(), {"X": noise(64, 8)}, {"mm": BOTH})


def conv_outputs():
    """A convolution in the middle, whose result is an output too, and one at the end."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 8, name="first")
    g.conv(c, "Y", 8, 4, name="second")
    g.output("Y", [1, 4, 6, 6])
    g.output("c", [1, 8, 6, 6])
    return models.Case(g.build(), {"X": noise(16, 4, 6, 6)}, {"first": BOTH, "second": BOTH})


# 16-bit activations: microsoft/onnxruntime #25223 and pull requests #28202 and #20376, onnx/onnx #6534


@pytest.mark.parametrize("name", CODES)
def test_activation_type(bench, name):
    """The codes asked for, in a valid model of the opset that has them; 16 bits are as good as float, weights aside."""
    case = matmul_relu()
    words = ("--method", "max", "--activation-type", name)
    run, view = expect.quantized(bench, case, "onnxruntime", *words)
    params = view.params("mm", 0)
    assert params.zero_point.dtype == np.dtype(name)
    assert {t["type"] for t in run.json["tensors"]} == {name}
    wide = name.endswith("16")
    opset = next(o.version for o in run.model.opset_import if o.domain == "")
    assert opset == (21 if wide else 17)
    exact = harness.compare(case, run.model)["Y"]
    usual = bench.quantize(case, "--method", "max", target="onnxruntime", out="usual.onnx").ok()
    gain = exact - harness.compare(case, usual.model)["Y"]
    assert gain > 3 if wide else abs(gain) < 3, f"{gain:.1f} dB"


@pytest.mark.parametrize("name", ["int16", "uint16"])
@pytest.mark.parametrize("method", ["max", "percentile", "entropy", "mse"])
def test_wide_codes_by_every_method(bench, name, method):
    """Sixteen bits have codes for everything: no method clips what eight bits would have to."""
    case = matmul_relu()
    case.data["X"][3, 2] = 9.0
    words = ("--activation-type", name, "--method", method, "--percentile", 100)
    _, view = expect.quantized(bench, case, "onnxruntime", *words, at_least=35)
    levels = 65535
    extent = case.data["X"].max() - case.data["X"].min()
    assert view.params("mm", 0).scale == pytest.approx(extent / levels, rel=0.05)


@pytest.mark.parametrize("name", ["uint8", "int16", "uint16"])
def test_activation_type_that_the_target_lacks(bench, name):
    run = bench.quantize(matmul_relu(), "--activation-type", name, target="tensorrt")
    run.failed("cannot", name, "--activation-type", "tensorrt", "int8", code=2)
    assert harness.files_in(bench.out) == []


def test_biases_beside_wide_codes_stay_float(bench):
    """No integer kernel would take them."""
    case = models.two_convolutions()
    edges = {name: BOTH for name in case.edges("onnxruntime")}
    run = bench.quantize(case, "--activation-type", "uint16", target="onnxruntime").ok()
    view = expect.valid(run, case)
    assert {name: view.edges()[name] & BOTH for name in edges} == edges
    assert not any(
        view.is_bias(node.input[2])
        for node in view.nodes.values()
        if len(node.input) > 2 and node.op_type == "Conv"
    )


# Q/DQ at outputs: microsoft/onnxruntime #13328, NVIDIA/TensorRT #2604


@pytest.mark.parametrize("outputs", ["on", "off"])
def test_outputs_quantized_or_not(bench, target, outputs):
    case = conv_outputs()
    run, view = expect.quantized(bench, case, target, "--quantize-outputs", outputs)
    producers = {name: view.producer[name].op_type for name in ("Y", "c")}
    kind = "DequantizeLinear" if outputs == "on" else "Conv"
    assert producers == {"Y": kind, "c": kind}
    assert [o.name for o in run.model.graph.output] == ["Y", "c"]
    if outputs == "on":  # all values are multiples of a scale
        for name, tensor in harness.run_model(run.model, case.feeds()[:1], optimize=False)[
            0
        ].items():
            assert len(np.unique(tensor)) <= 256, name


def test_outputs_that_cannot_be_quantized_stay(bench, target):
    """Those of foreign and excluded operators, of integers, and what the caller fed."""
    case = models.custom_last()
    run = bench.quantize(case, "--quantize-outputs", "on", target=target).ok()
    view = qdq.View(run.model)
    for output in case.model.graph.output:
        assert view.producer[output.name].domain == "custom_domain"

    g = Graph()
    m = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    g.node("ArgMax", [m], "best", "best", axis=1)
    g.node("Relu", [m], "Y", "relu")
    for name, shape, kind in (("Y", [4, 8], 1), ("best", [4, 1], 7), ("X", [4, 8], 1)):
        g.output(name, shape, kind)
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm": BOTH})
    words = ("--quantize-outputs", "on", "--exclude-nodes", "relu")
    run, view = expect.quantized(bench, case, target, *words, out="b.onnx")
    assert view.producer["Y"].op_type == "Relu"
    assert harness.compare(case, run.model)["X"] == np.inf
