"""Samples on which other calibrators fail, for every method on both targets. test_calibration.py has their ranges beside the
definitions; here are the graphs and feeds as they were reported."""

import io
import zipfile

import harness
import models
import numpy as np
import pytest
import qdq

METHODS = ("max", "percentile", "entropy", "mse", "auto")

pytestmark = pytest.mark.parametrize("method", METHODS)


def range_of(model, node):
    """What the least and the greatest code of a node's input stand for; symmetric ones reach -127."""
    p = qdq.View(model).params(node, 0)
    low, high = (-127, 127) if p.type == np.int8 else (0, 255)
    return tuple(float(p.scale) * (code - int(p.zero_point)) for code in (low, high))


def write_runs(bench, samples, name="runs"):
    folder = bench.inside / name
    folder.mkdir()
    for i, sample in enumerate(samples):
        np.savez(folder / f"{i:02}.npz", **sample)
    return folder


# Outliers: microsoft/onnxruntime #10571, #9597, pull request #10261


def product():
    g = models.Graph()
    g.matmul(g.input("X", [64, 64]), "Y", 64, 8, "mm")
    g.output("Y", [64, 8])
    return g.build()


def with_outlier():
    x = models.noise(2, 64, 64)
    x[1, 36, 7] = 5000
    return x


def test_one_outlier_in_8192_values(bench, target, method):
    """Percentile and entropy cut it off on both sides; the largest value and the least square error keep it."""
    args = ["--percentile", "99.9"] if method == "percentile" else []
    case = models.Case(product(), {"X": with_outlier()})
    run = bench.quantize(case, "--method", method, *args, target=target).ok()
    lo, hi = range_of(run.model, "mm")
    if method in ("percentile", "entropy"):
        assert 2.5 < hi < 6 and -6 < lo < -2.5
    elif method == "max":
        assert hi == pytest.approx(5000, rel=0.01)
    else:
        assert 0.5 * 5000 < hi <= 5000 * 1.01


@pytest.mark.parametrize("shift", ["negative", "positive"])
def test_values_far_from_zero_keep_zero_in_the_range(bench, target, method, shift):
    x = np.random.default_rng(0).uniform(0, 0.03, (2, 64, 64)).astype(np.float32)
    x = 100 + x if shift == "positive" else -1 - 30 * x
    run = bench.quantize(models.Case(product(), {"X": x}), "--method", method, target=target).ok()
    lo, hi = range_of(run.model, "mm")
    assert lo <= 0 <= hi and max(-lo, hi) == pytest.approx(np.abs(x).max(), rel=0.02)
    if target == "onnxruntime":  # one-sided: no code is spent on the other side
        assert min(-lo, hi) == 0


# Empty tensors: microsoft/onnxruntime #23600, openvinotoolkit/nncf pull request #1728


def test_an_empty_region_of_interest(bench, target, method):
    """A constant without elements feeds Resize. It is nobody's range, and stays as it is."""
    g = models.Graph()
    c = g.conv(g.input("X", ["B", 3, 8, 8]), "c", 3, 4, name="conv1")
    roi = g.node(
        "Constant",
        [],
        "roi",
        "no_roi",
        value=models.numpy_helper.from_array(np.zeros(0, np.float32)),
    )
    scales = g.const("scales", np.array([1, 1, 2, 2], np.float32))
    r = g.node("Resize", [c, roi, scales], "r", "resize")
    g.conv(r, "Y", 4, 4, name="conv2")
    g.output("Y", ["B", 4, 16, 16])
    case = models.Case(g.build(), {"X": models.noise(6, 3, 8, 8)})
    run = bench.quantize(case, "--method", method, target=target).ok()
    view = qdq.View(run.model)
    assert {"conv1", "conv2"} <= view.edges().keys()
    resize = next(n for n in run.model.graph.node if n.op_type == "Resize")
    assert view.producer[resize.input[1]].op_type == "Constant"
    assert not any("roi" in t["name"] for t in run.json["tensors"])
    harness.assert_quality(case, run.model)


def concat_with_past():
    g = models.Graph()
    k = g.matmul(g.input("X", ["B", "S", 8]), "k", 8, 8, "mm1")
    c = g.node("Concat", [g.input("past", ["B", "P", 8]), k], "c", axis=1)
    g.matmul(c, "Y", 8, 8, "mm2")
    g.output("Y", ["B", "T", 8])
    return g.build()


def test_a_past_that_is_empty_at_first(bench, target, method):
    """The result is that of the second sample with the keys of the first."""
    x = models.noise(2, 5, 8)
    past = models.noise(1, 4, 8, seed=7)
    empty = np.zeros((1, 0, 8), np.float32)
    data = write_runs(bench, [{"X": x[:1], "past": empty}, {"X": x[1:], "past": past}])
    case = models.Case(concat_with_past(), {})
    got = bench.quantize(case, "--method", method, data=data, target=target).ok()
    split = write_runs(
        bench, [{"X": x[:1], "past": past[:, :2]}, {"X": x[1:], "past": past[:, 2:]}], "split"
    )
    want = bench.quantize(case, "--method", method, data=split, target=target, out="w.onnx").ok()
    assert got.json["tensors"] == want.json["tensors"]
    assert all(np.isfinite(t["scale"]) and t["scale"] > 0 for t in got.json["tensors"])
    feed = {"X": x[:1], "past": models.noise(1, 6, 8, seed=8)}
    assert harness.compare(case, got.model, feeds=[feed])["Y"] > 20


# Values that are not finite, made by the model itself: microsoft/onnxruntime pull request #23749, NVIDIA/TensorRT #2126


@pytest.mark.parametrize("bad", ["nan", "infinite"])
def test_a_division_by_zero_in_one_sample(bench, target, method, bad):
    g = models.Graph()
    a = g.node("Div", [g.input("X", ["B", 8]), g.input("D", ["B", 1])], "a", "div")
    g.matmul(a, "Y", 8, 8, "mm")
    g.output("Y", ["B", 8])
    case = models.Case(g.build(), {})
    x = models.noise(8, 8)
    d = np.linspace(0.5, 2, 8, dtype=np.float32)[:, None]
    whole = [{"X": x[:4], "D": d[:4]}, {"X": x[4:7], "D": d[4:7]}]
    broken_x, broken_d = x[4:].copy(), d[4:].copy()
    broken_d[3] = 0
    if bad == "nan":
        broken_x[3] = 0
    dirty = [whole[0], {"X": broken_x, "D": broken_d}]
    want = bench.quantize(
        case,
        "--method",
        method,
        data=write_runs(bench, whole, "clean"),
        target=target,
        out="w.onnx",
    ).ok()
    got = bench.quantize(
        case, "--method", method, data=write_runs(bench, dirty), target=target
    ).ok()
    assert range_of(got.model, "mm") == range_of(want.model, "mm")
    counted = "8 NaN and 0 infinite" if bad == "nan" else "0 NaN and 8 infinite"
    notes = [n for n in got.json["notes"] if "'a'" in n]
    assert len(notes) == 1 and counted in notes[0], got.json["notes"]
    assert "in 1 of the 2 times" in notes[0] and "first at sample 1;" in notes[0], notes


# Feeds that are wrong, or only look so: microsoft/onnxruntime #13044, inference-examples #297


def fixed():
    g = models.Graph()
    g.matmul(g.input("X", [4, 8]), "Y", 8, 8, "mm")
    g.output("Y", [4, 8])
    return g.build()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def empty_zip():
    buffer = io.BytesIO()
    zipfile.ZipFile(buffer, "w").close()
    return buffer.getvalue()


X = models.noise(12, 8)
WRONG = {
    "another name": (npz(x=X), ["'X'", "float (4, 8)", "'x'"]),
    "no sample": (npz(X=X[:0]), ["'X'", "float (4, 8)", "float (0, 8)"]),
    "no array": (empty_zip(), ["'X'", "float (4, 8)", "no array"]),
    "an array too many": (npz(X=X, Z=X), ["'Z'", "'X'"]),
    "too few rows": (npz(X=X[:2]), ["'X'", "4 rows", "found 2"]),
    "another width": (npz(X=X.T), ["'X'", "float (4, 8)", "float (8, 12)"]),
    "another type": (npz(X=X.astype(np.int64)), ["'X'", "float (4, 8)", "int64 (12, 8)"]),
    "another rank": (npz(X=X[0]), ["'X'", "float (4, 8)", "float (8,)"]),
    "cut short": (npz(X=X)[:-40], []),
    "cut in half": (npz(X=X)[:300], []),
}


@pytest.mark.parametrize("feed", WRONG)
def test_a_wrong_feed_is_refused_before_anything_runs(bench, target, method, feed):
    content, words = WRONG[feed]
    data = bench.inside / "feed.npz"
    data.write_bytes(content)
    run = bench.quantize(models.Case(fixed(), {}), "--method", method, data=data, target=target)
    run.failed("feed.npz", *words)
    assert harness.files_in(bench.out) == []


RIGHT = {
    "double": npz(X=X.astype(np.float64)),
    "half": npz(X=X.astype(np.float16).astype(np.float32).astype(np.float16)),
    "fortran order": npy(np.asfortranarray(X)),
    "big-endian": npy(X.astype(">f4")),
    "entries": npz(X=X.reshape(3, 4, 8)),
}


@pytest.mark.parametrize("feed", RIGHT)
def test_a_feed_in_another_form_gives_the_same_range(bench, target, method, feed):
    data = bench.inside / "feed"
    data.write_bytes(RIGHT[feed])
    plain = X.astype(np.float16).astype(np.float32) if feed == "half" else X
    case = models.Case(fixed(), {"X": plain})
    got = bench.quantize(case, "--method", method, data=data, target=target).ok()
    want = bench.quantize(case, "--method", method, target=target, out="w.onnx").ok()
    assert range_of(got.model, "mm") == range_of(want.model, "mm")
