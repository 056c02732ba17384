"""Ranges of every method against their definitions (docs/formulas.md), on distributions whose answers are known, and on
the tensors that make other calibrators fail."""

import harness
import models
import numpy as np
import pytest
import qdq
import ranges

METHODS = ("max", "percentile", "entropy", "mse")
ROWS, WIDTH = 960, 64


def matmul(width=WIDTH, batch=None):
    """The activation is the input itself: what is fed is what is measured."""
    g = models.Graph()
    g.matmul(g.input("X", [batch, width]), "Y", width, 8, "mm")
    g.output("Y", [batch, 8])
    return g.build()


def case_of(x):
    return models.Case(matmul(), {"X": np.asarray(x, np.float32).reshape(-1, WIDTH)})


def run(bench, x, target, method, *args):
    return bench.quantize(
        case_of(x), "--method", method, "--batch", "64", "--force", *args, target=target
    )


def seen(x):
    """What calibration sees of the data: runs of 64 rows, every eighth of 16 and more held back."""
    rows = np.asarray(x, np.float32).reshape(-1, WIDTH)
    kept = [i for i in range(len(rows)) if len(rows) < 16 or i % 8 != 7]
    return rows[kept].reshape(-1)


def range_of(run, node="mm"):
    """The numbers that the least and the greatest code stand for; symmetric ones reach -127."""
    p = qdq.View(run.ok().model).params(node, 0)
    low, high = (-127, 127) if p.type == np.int8 else (0, 255)
    return tuple(float(p.scale) * (code - int(p.zero_point)) for code in (low, high))


def assert_range(got, want):
    """Equal up to the rounding of the zero point, which shifts a range by half a step at most."""
    lo, hi = min(want[0], 0), max(want[1], 0)
    assert got[1] - got[0] == pytest.approx(hi - lo, rel=1e-6)
    assert got[0] == pytest.approx(lo, abs=0.51 * (hi - lo) / 255)


def values(kind, n=ROWS * WIDTH, seed=0):
    r = np.random.default_rng(seed)
    normal = r.standard_normal(n)
    x = {
        "normal": lambda: normal,
        "laplace": lambda: r.laplace(size=n),
        "relu": lambda: np.maximum(normal, 0),
        "uniform": lambda: r.uniform(-1, 1, n),
        "exponential": lambda: r.exponential(size=n),
        "silu": lambda: 3 * normal / (1 + np.exp(-3 * normal)),
        "heavy tails": lambda: r.standard_t(2, n),
        "tiny": lambda: normal * 1e-30,
        "outlier": lambda: np.where(np.arange(n) == n // 2, 5000.0, normal),
        "mask": lambda: np.where(r.uniform(size=n) < 0.3, np.finfo(np.float32).min, normal),
        "softmax": lambda: np.exp(-30 * np.abs(normal)),
        "almost all zero": lambda: np.where(np.arange(n) % 20011 == 5, 1 + np.abs(normal), 0.0),
        "negative": lambda: -1 - np.abs(normal),
        "far from zero": lambda: 100 + 0.03 * r.uniform(size=n),
        "two values": lambda: np.where(normal > 0, 0.75, -0.5),
    }[kind]()
    return r.permutation(x).astype(np.float32)


KINDS = (
    "normal laplace relu uniform exponential silu tiny outlier mask softmax negative".split()
    + ["heavy tails", "almost all zero", "far from zero", "two values"]
)


# Against the definitions


@pytest.mark.parametrize("kind", KINDS)
def test_max(bench, target, kind):
    got = run(bench, values(kind), target, "max")
    assert_range(range_of(got), ranges.maximum(seen(values(kind)), *ranges.BITS8[target]))


@pytest.mark.parametrize(
    "kind, percent",
    [(kind, 99.99) for kind in KINDS]
    + [(kind, p) for kind in ("normal", "silu", "almost all zero") for p in (99.9, 75, 100)],
)
def test_percentile(bench, target, kind, percent):
    x = values(kind)
    got = run(bench, x, target, "percentile", "--percentile", str(percent))
    want = ranges.percentile(seen(x), *ranges.BITS8[target], percent)
    assert_range(range_of(got), want)


@pytest.mark.parametrize("kind", KINDS)
def test_entropy(bench, target, kind):
    x = values(kind)
    got = run(bench, x, target, "entropy")
    assert_range(range_of(got), ranges.entropy(seen(x), *ranges.BITS8[target]))


@pytest.mark.parametrize("kind", KINDS)
def test_mse(bench, target, kind):
    """The error of the chosen range is the least of all that were tried, the values themselves quantized. Each counted as
    the middle of its bin, hence the allowance."""
    x = values(kind)
    codes = ranges.BITS8[target]
    lo, hi = range_of(run(bench, x, target, "mse"))
    clean = ranges.without_masks(seen(x))
    got = ranges.quantization_error(clean, min(lo, 0), max(hi, 0), *codes)
    rounding = 1e-12 * np.abs(clean).max() ** 2
    assert got <= ranges.least_error(seen(x), *codes) * 1.01 + rounding


# Known answers


def test_percentile_alone_chooses_the_method(bench):
    x = values("normal")
    got = bench.quantize(case_of(x), "--batch", "64", "--percentile", "99")
    assert got.json["method"] == "percentile"
    assert_range(range_of(got), ranges.percentile(seen(x), *ranges.BITS8["tensorrt"], 99))


def test_best_range_of_a_normal_distribution(bench):
    """3.92 standard deviations for 8 bits: Banner et al., https://arxiv.org/abs/1810.05723."""
    x = values("normal", 64 * 8000)
    assert range_of(run(bench, x, "tensorrt", "mse"))[1] == pytest.approx(3.92, rel=0.03)


def test_nothing_is_cut_off_a_uniform_distribution(bench, target):
    x = values("uniform")
    full = np.abs(seen(x)).max()
    for method in METHODS:
        assert range_of(run(bench, x, target, method))[1] == pytest.approx(full, rel=0.01), method


def tensorrt_style(x):
    """As the calibrator of TensorRT's tools has it: 2048 equal bins, the first overwritten by the second, every limit from bin
    128 on."""
    a = np.abs(x)
    counts, edges = np.histogram(a, 2048, (0, a.max()))
    counts = counts.astype(np.float64)
    counts[0] = counts[1]
    best = (np.inf, None)
    for i in range(128, 2049):
        p, kept = counts[:i].copy(), counts[:i]
        p[-1] += counts[i:].sum()
        level = np.arange(i) * 128 // i
        used = np.bincount(level, kept > 0, 128)
        q = np.where(kept > 0, (np.bincount(level, kept, 128) / np.maximum(used, 1))[level], 0)
        p, q = p / p.sum(), q / q.sum()
        if (q[p > 0] > 0).all():
            best = min(best, (float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum()), edges[i]))
    return best[1]


@pytest.mark.parametrize("kind", ["normal", "laplace", "relu", "exponential"])
def test_entropy_is_near_tensorrts(bench, kind):
    """Where that is sound: on ordinary distributions with many values."""
    x = values(kind, 64 * 12000)
    got = range_of(run(bench, x, "tensorrt", "entropy"))[1]
    assert got == pytest.approx(tensorrt_style(seen(x)), rel=0.12)


# Outliers, one-sided, all-negative, far from zero: microsoft/onnxruntime #10571, #9597, pull request #13346


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_an_outlier_is_cut_off(bench, target, method):
    """5000 among standard normal values, on which ONNX Runtime's percentile and entropy calibrators end at 5000."""
    percent = ["--percentile", "99.9"] if method == "percentile" else []
    lo, hi = range_of(run(bench, values("outlier"), target, method, *percent))
    assert 2.5 < hi < 6 and -6 < lo < -2.5


@pytest.mark.parametrize("method", METHODS)
def test_ranges_far_from_zero_hold_it(bench, target, method):
    for kind in ("negative", "far from zero"):
        got = run(bench, values(kind), target, method)
        lo, hi = range_of(got)
        largest = np.abs(seen(values(kind))).max()
        assert lo <= 0 <= hi and 0.8 * largest < max(-lo, hi) <= largest * 1.001, (kind, lo, hi)
        assert got.json["check"]["outputs"][0]["sqnr_db"] > 30


# Masks


@pytest.mark.parametrize("mask", [np.finfo(np.float32).min, -1e9, np.float32(3.4e38), -np.inf])
@pytest.mark.parametrize("method", METHODS)
def test_masks_do_not_swallow_the_range(bench, target, method, mask):
    x = values("normal").reshape(ROWS, WIDTH)
    x[::5, 30:] = mask
    got = run(bench, x, target, method)
    lo, hi = range_of(got)
    assert 3 < hi < 6 and -6 < lo < -3
    hidden = int((np.abs(seen(x)) > 1e6).sum())
    assert any("'X'" in n and str(hidden) in n for n in got.json["notes"]), got.json["notes"]


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_of_masks_alone_keeps_its_range(bench, target, method):
    x = np.where(values("normal") > 0, np.float32(0), np.float32(-1e9))
    assert range_of(run(bench, x, target, method))[0] == pytest.approx(-1e9, rel=0.01)


# Varying shapes: microsoft/onnxruntime #18792, NVIDIA/Model-Optimizer #565


def relu_chain():
    g = models.Graph()
    g.matmul(g.input("X", ["B", "S", 8]), "h", 8, 8, "mm1")
    g.matmul(g.node("Relu", ["h"], "r"), "Y", 8, 8, "mm2")
    g.output("Y", ["B", "S", 8])
    return g.build()


def write_samples(bench, samples):
    folder = bench.inside / "samples"
    folder.mkdir()
    for i, sample in enumerate(samples):
        np.savez(folder / f"{i:02}.npz", **sample)
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_shapes_vary_from_sample_to_sample(bench, target, method):
    """The same values in one batch give the same ranges."""
    shapes = [(1, 3, 8), (1, 7, 8), (1, 16, 8), (2, 5, 8)]
    samples = [{"X": models.noise(*s, seed=i)} for i, s in enumerate(shapes)]
    case = models.Case(relu_chain(), {})
    data = write_samples(bench, samples)
    apart = bench.quantize(case, "--method", method, data=data, target=target).ok()
    joined = np.concatenate([s["X"].reshape(1, -1, 8) for s in samples], axis=1)
    data = bench.write_data({"X": joined})
    together = bench.quantize(
        case, "--method", method, data=data, target=target, out="together.onnx"
    ).ok()
    assert range_of(apart, "mm1") == range_of(together, "mm1")
    assert range_of(apart, "mm2") == range_of(together, "mm2")


# Empty tensors: microsoft/onnxruntime #23600, #18987


def cache():
    g = models.Graph()
    k = g.matmul(g.input("X", ["B", "S", 8]), "k", 8, 8, "mm1")
    past = g.input("past", ["B", "P", 8])
    g.matmul(past, "p", 8, 8, "mm2")
    g.matmul(g.node("Concat", ["p", k], "c", axis=1), "Y", 8, 8, "mm3")
    g.output("Y", ["B", "T", 8])
    return g.build()


@pytest.mark.parametrize("method", METHODS)
def test_empty_samples_contribute_nothing(bench, target, method):
    samples = [
        {"X": models.noise(1, 5, 8, seed=1), "past": np.zeros((1, 0, 8), np.float32)},
        {"X": models.noise(1, 5, 8, seed=2), "past": models.noise(1, 4, 8, seed=3)},
    ]
    case = models.Case(cache(), {})
    run = bench.quantize(
        case, "--method", method, data=write_samples(bench, samples), target=target
    ).ok()
    largest = np.abs(samples[1]["past"]).max()
    lo, hi = range_of(run, "mm2")
    assert 0.8 * largest < max(-lo, hi) <= largest * 1.01
    assert qdq.View(run.model).edges().keys() >= {"mm1", "mm2", "mm3"}


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_that_is_always_empty_gets_no_pair(bench, target, method):
    """A later, real past must not be quantized with a scale that nobody measured."""
    samples = [
        {"X": models.noise(1, 5, 8, seed=i), "past": np.zeros((1, 0, 8), np.float32)}
        for i in range(3)
    ]
    case = models.Case(cache(), {})
    run = bench.quantize(
        case, "--method", method, data=write_samples(bench, samples), target=target
    ).ok()
    edges = qdq.View(run.model).edges()
    assert "mm2" not in edges and {"mm1", "mm3"} <= edges.keys()
    assert any("'past'" in note for note in run.json["notes"])
    feed = {"X": models.noise(1, 5, 8, seed=9), "past": models.noise(1, 4, 8, seed=8)}
    assert harness.compare(case, run.model, feeds=[feed])["Y"] > 20


# Values that are not finite: microsoft/onnxruntime pull request #23749, NVIDIA/TensorRT #2126


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_take_no_part(bench, target, method, bad):
    clean = values("normal", 12 * WIDTH).reshape(12, WIDTH)
    dirty = np.concatenate([clean, clean[:1]])
    dirty[12, ::2] = bad
    dirty[12, 1::2] = 0
    want = bench.quantize(case_of(clean), "--method", method, target=target, out="clean.onnx")
    got = bench.quantize(case_of(dirty), "--method", method, target=target)
    if method != "percentile":  # the zeros take part, and move the rank
        assert range_of(got) == range_of(want)
    assert np.isfinite(range_of(got)).all() and max(np.abs(range_of(got))) < 5
    counted = "32 NaN and 0 infinite" if np.isnan(bad) else "0 NaN and 32 infinite"
    notes = [n for n in got.json["notes"] if "'X'" in n]
    assert len(notes) == 1 and counted in notes[0] and "sample 12" in notes[0]


# The same for any order, batch and number of threads


@pytest.mark.parametrize("method", METHODS)
def test_order_batch_and_threads_make_no_difference(bench, target, method):
    rows = values("heavy tails", 15 * WIDTH).reshape(15, WIDTH)
    wanted = None
    for i, (order, batch, threads) in enumerate(
        [(rows, 1, 1), (rows[::-1], 4, 2), (np.roll(rows, 5, axis=0), 15, 3)]
    ):
        args = ["--method", method, "--batch", str(batch), "--threads", str(threads)]
        got = bench.quantize(case_of(order), *args, target=target, out=f"{i}.onnx").ok()
        wanted = wanted or got.json["tensors"]
        assert got.json["tensors"] == wanted


# Memory: microsoft/onnxruntime #10503, #21979


@pytest.mark.serial
@pytest.mark.parametrize("method", METHODS)
def test_memory_does_not_grow_with_the_samples(bench, target, method):
    g = models.Graph()
    x = g.input("X", ["S", 256])
    for i in range(6):
        x = g.matmul(x, f"h{i}" if i < 5 else "Y", 256, 256, f"mm{i}")
    g.output("Y", ["S", 256])
    case = models.Case(g.build(), {})
    peak = {}
    for n in (10, 160):
        samples = models.noise(n, 1024, 256)
        np.save(bench.inside / "x.npy", samples)
        data = bench.inside / "x.npy"
        run = bench.quantize(case, "--method", method, data=data, target=target, out=f"{n}.onnx")
        peak[n] = run.ok().json["peak_memory"]["anonymous_bytes"]
    assert peak[160] < peak[10] + (4 << 20), peak
