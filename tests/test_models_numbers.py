"""Numbers at the edges: nothing, constants, denormals, the ends of float32, NaN. Scales are finite and positive
always; what cannot be represented stays float, and the report says so."""

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, Graph, noise

LARGEST = np.finfo(np.float32).max
SMALLEST = np.finfo(np.float32).tiny  # that is normal


def scales(view):
    return [view.value(n.input[1]) for n in view.graph.node if qdq.is_pair(n)]


def sane(view):
    for scale in scales(view):
        assert np.all(np.isfinite(scale)) and np.all(scale >= SMALLEST)


# Zeros, constants, denormals: microsoft/onnxruntime pull request #12470, NVIDIA/TensorRT #1826


def dead_relu(second=None, x=None):
    """Weights that are never positive, so that the Relu gives zeros only, and a second convolution."""
    g = Graph()
    w = g.const("w1", -np.abs(noise(4, 3, 3, 3)))
    c = g.node("Conv", [g.input("X", [1, 3, 8, 8]), w], "c", "conv1")
    r = g.node("Relu", [c], "r", "relu")
    g.node(
        "Conv", [r, g.const("w2", noise(4, 4, 1, 1) if second is None else second)], "Y", "conv2"
    )
    g.output("Y", [1, 4, 6, 6])
    data = np.abs(noise(8, 3, 8, 8)) if x is None else x
    return models.Case(g.build(), {"X": data}, {"conv1": BOTH, "conv2": BOTH})


def test_a_tensor_of_zeros(bench, target):
    """The result is exactly zero, as the float one."""
    case = dead_relu()
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == case.edges(target)
    assert view.params("conv2", 0).zero_point == 0
    sane(view)
    for optimize in (True, False):
        got = harness.run_model(run.model, case.feeds(), optimize=optimize)
        assert not any(r["Y"].any() for r in got)


@pytest.mark.parametrize("tiny", [0, 1e-42, 1e-39, 1e-20], ids=str)
def test_dead_and_denormal_channels(bench, target, tiny):
    """Of a weight; the others keep their precision."""
    g = Graph()
    w = noise(8, 4, 3, 3)
    w[1], w[2] = 0, np.sign(w[2]) * tiny
    g.node("Conv", [g.input("X", [1, 4, 8, 8]), g.const("w", w)], "Y", "conv")
    g.output("Y", [1, 8, 6, 6])
    case = models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, {"conv": BOTH})
    _, view = expect.quantized(bench, case, target)
    sane(view)
    np.testing.assert_allclose(
        view.params("conv", 1).scale[3:], np.abs(w[3:]).max(axis=(1, 2, 3)) / 127, rtol=1e-6
    )


@pytest.mark.parametrize("value", [3.0, -3.0, 1e-3, 1e30, -1e-30], ids=str)
def test_a_constant_input(bench, target, value):
    """Reproduced to less than a step."""
    g = Graph()
    g.node("Conv", [g.input("X", [1, 4, 8, 8]), g.const("w", noise(8, 4, 1, 1))], "Y", "conv")
    g.output("Y", [1, 8, 8, 8])
    x = np.full((8, 4, 8, 8), value, np.float32)
    case = models.Case(g.build(), {"X": x}, {"conv": BOTH})
    _, view = expect.quantized(bench, case, target)
    sane(view)


def test_a_denormal_input(bench, target):
    g = Graph()
    g.node("MatMul", [g.input("X", [4, 8]), g.weight("w", 8, 8)], "Y", "mm")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8, scale=1e-40)}, {"mm": BOTH})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == {"mm": BOTH}
    sane(view)
    for optimize in (True, False):
        got = harness.run_model(run.model, case.feeds(), optimize=optimize)
        assert all(np.all(np.abs(r["Y"]) < 1e-38) for r in got)


# Biases that do not fit: microsoft/onnxruntime #21000, NVIDIA/Model-Optimizer pull request #510


@pytest.mark.parametrize("small", [1e-7, 1e-12, 1e-20, 1e-30], ids=str)
def test_tiny_weights_with_an_ordinary_bias(bench, target, small):
    """Clipped to int32 the bias would be lost, and with it the whole result."""
    g = Graph()
    w = g.const("w", noise(2, 3, 1, 1) * np.float32(small))
    b = g.const("b", np.array([5, -4.5], np.float32))
    g.node("Conv", [g.input("X", [1, 3, 4, 4]), w, b], "Y", "conv")
    g.output("Y", [1, 2, 4, 4])
    case = models.Case(g.build(), {"X": noise(8, 3, 4, 4)}, {"conv": BOTH})
    _, view = expect.quantized(bench, case, target)
    sane(view)


@pytest.mark.parametrize("dead", [0, 1e-9, 1e-30], ids=str)
@pytest.mark.parametrize("op", ["Conv", "Gemm"])
def test_one_tiny_channel_with_a_bias(bench, target, dead, op):
    g = Graph()
    w = noise(4, 8)
    w[2] *= np.float32(dead)
    b = g.const("b", np.array([3, -3, 3, 0.1], np.float32))
    if op == "Conv":
        inputs = [g.input("X", [1, 8, 4, 4]), g.const("w", w[:, :, None, None]), b]
        g.node("Conv", inputs, "Y", "op")
        g.output("Y", [1, 4, 4, 4])
        data = noise(8, 8, 4, 4)
    else:
        g.node("Gemm", [g.input("X", [4, 8]), g.const("w", w), b], "Y", "op", transB=1)
        g.output("Y", [4, 4])
        data = noise(32, 8)
    case = models.Case(g.build(), {"X": data}, {"op": BOTH})
    _, view = expect.quantized(bench, case, target)
    sane(view)


def test_a_raised_scale_does_not_spoil_the_other_reader(bench, target):
    """Two convolutions share a weight with one tiny channel; only one of them has a bias."""
    g = Graph()
    w = noise(4, 4, 1, 1)
    w[0] *= np.float32(1e-6)
    x = g.input("X", [1, 4, 4, 4])
    g.node("Conv", [x, g.const("w", w), g.const("b", np.full(4, 1e4, np.float32))], "Y", "biased")
    g.node("Conv", [x, "w"], "Z", "plain")
    g.output("Y", [1, 4, 4, 4])
    g.output("Z", [1, 4, 4, 4])
    case = models.Case(g.build(), {"X": noise(8, 4, 4, 4)}, {"biased": BOTH, "plain": BOTH})
    _, view = expect.quantized(bench, case, target)
    expect.weight_is_int8(view, "plain", 1, w, 0)


def test_a_bias_of_infinity(bench, target):
    """It has no int32: float on the target that would need one, and the report says so."""
    g = Graph()
    b = g.const("b", np.array([1, np.inf, -1, 0], np.float32))
    x = g.input("X", [1, 4, 4, 4])
    g.node("Conv", [x, g.weight("w", 4, 4, 1, 1), b], "c", "conv")
    g.node("Clip", ["c", g.const("lo", np.float32(-9)), g.const("hi", np.float32(9))], "Y", "clip")
    g.output("Y", [1, 4, 4, 4])
    case = models.Case(g.build(), {"X": noise(8, 4, 4, 4)}, {"conv": BOTH}, {})
    run = bench.quantize(case, target=target).ok()
    edges = qdq.View(run.model).edges()
    assert edges.get("conv", set()) in (set(), BOTH)
    harness.assert_quality(case, run.model)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
def test_a_weight_that_is_not_finite_stays_float(bench, target, bad):
    g = Graph()
    w = noise(8, 8)
    w[3, 3] = bad
    x = g.matmul(g.input("X", [4, 8]), "a", 8, 8, "mm1")
    g.node("MatMul", [x, g.const("w", w)], "m", "mm2")
    g.node("Slice", ["m", *(g.const(f"k{i}", np.array([i])) for i in (0, 3, 1))], "Y", "slice")
    g.output("Y", [4, 3])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm1": BOTH})
    run, _ = expect.quantized(bench, case, target)
    assert any("'w'" in note for note in run.json["notes"])


# The ends of float32


def attention_mask(value):
    """Scores plus a mask of 0 and `value`, Softmax, and a product with constants: a decoder in small."""
    g = Graph()
    x = g.input("X", [1, 6, 8])
    t = g.node("Transpose", [x], "t", "transpose", perm=[0, 2, 1])
    s = g.node("MatMul", [x, t], "s", "scores")
    mask = np.triu(np.full((6, 6), value, np.float32), 1)
    s = g.node("Add", [s, g.const("mask", mask)], "masked", "mask")
    p = g.node("Softmax", [s], "p", "softmax", axis=-1)
    g.node("MatMul", [p, x], "m", "mix")
    g.matmul("m", "Y", 8, 8, "mm")
    g.output("Y", [1, 6, 8])
    edges = {"scores": BOTH, "mix": BOTH, "mm": BOTH}
    data = {"X": noise(8, 6, 8, scale=0.7)}
    return models.Case(g.build(), data, edges, {**edges, "transpose": {0}})


@pytest.mark.parametrize("value", [-LARGEST, -1e9, -10000.0, -np.inf], ids=str)
def test_attention_masks(bench, target, value):
    """What is masked takes no part in a range: the mask's own values are never quantized."""
    _, view = expect.quantized(bench, attention_mask(value), target, at_least=25)
    assert all(np.all(scale < 1) for scale in scales(view))


def test_padding_with_infinity(bench, target):
    """As in front of a MaxPool; the convolution behind it sees finite values only."""
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 8, 8]), "c", 4, 4, name="conv1")
    pads = g.const("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    p = g.node("Pad", [c, pads, g.const("low", np.float32(-np.inf))], "p", "pad")
    m = g.node("MaxPool", [p], "m", "pool", kernel_shape=[2, 2], strides=[2, 2])
    g.conv(m, "Y", 4, 4, name="conv2")
    g.output("Y", [1, 4, 5, 5])
    edges = {"conv1": BOTH, "conv2": BOTH}
    case = models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, edges)
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert {n: e for n, e in view.edges().items() if n.startswith("conv")} == edges
    assert all(np.all(scale < 1) for scale in scales(view))
    harness.assert_quality(case, run.model)


@pytest.mark.parametrize("huge", [1e30, 1e38], ids=str)
def test_values_near_the_end(bench, target, huge):
    """Their range, hence their scale, stays finite."""
    g = Graph()
    w = g.weight("w", 8, 8, std=0.01)
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 8])
    data = np.clip(noise(32, 8), -3, 3) * np.float32(huge)
    case = models.Case(g.build(), {"X": data}, {"mm": BOTH})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == {"mm": BOTH}
    sane(view)
    feeds = case.feeds()
    for optimize in (True, False):
        want, got = (
            harness.run_model(m, feeds, optimize=optimize) for m in (case.model, run.model)
        )
        shrink = np.float64(huge)
        assert harness.sqnr_db([r["Y"] / shrink for r in want], [r["Y"] / shrink for r in got]) > 25


# NaN, infinity and nothing in activations


def division(rows):
    """X / D in front of a product; `rows` overwrite rows of X and D in the second sample."""
    g = Graph()
    d = g.node("Div", [g.input("X", [4, 8]), g.input("D", [4, 1])], "d", "div")
    g.matmul(d, "Y", 8, 8, "mm")
    g.output("Y", [4, 8])
    data = {"X": noise(8, 8), "D": np.ones((8, 1), np.float32)}
    x, divisor = rows
    data["X"][7], data["D"][7] = x, divisor
    return models.Case(g.build(), data, {"mm": BOTH})


@pytest.mark.parametrize("rows", [(0, 0), (1, 0), (-1, 0)], ids=["NaN", "Inf", "-Inf"])
def test_values_that_are_not_finite_are_left_out(bench, target, rows):
    """Counted and reported, with the sample; the range is that of the finite ones."""
    case = division(rows)
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == {"mm": BOTH}
    finite = case.data["X"][:7]
    low, high = float(finite.min()), float(finite.max())
    step = max(-low, high) / 127 if target == "tensorrt" else (high - low) / 255
    assert view.params("mm", 0).scale == pytest.approx(step, rel=1e-5)
    (note,) = [n for n in run.json["notes"] if "'d'" in n]
    assert "8" in note and "sample 4" in note  # the first of its run


def test_a_tensor_that_is_always_empty(bench, target):
    """Past keys and values of a first step: no range, so no pair; with a real past the result is as
    good as the float one."""
    g = Graph()
    past = g.input("past", [1, "P", 8])
    k = g.matmul(g.input("X", [1, 3, 8]), "k", 8, 8, "keys")
    p = g.node("MatMul", [past, g.weight("v", 8, 8)], "pv", "of_the_past")
    g.node("Concat", [p, k], "Y", "concat", axis=1)
    g.output("Y", [1, "T", 8])
    data = {"X": noise(8, 3, 8), "past": np.zeros((8, 0, 8), np.float32)}
    case = models.Case(g.build(), data, {"keys": BOTH})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.edges() == {"keys": BOTH}
    assert any("of_the_past" in n or "past" in n for n in run.json["notes"])
    feeds = [{"X": noise(1, 3, 8, seed=4), "past": noise(1, 5, 8, seed=5) * 9}]
    for optimize in (True, False):
        want, got = (
            harness.run_model(m, feeds, optimize=optimize) for m in (case.model, run.model)
        )
        assert harness.sqnr_db([want[0]["Y"]], [got[0]["Y"]]) > 30
