"""The method auto: what it measures, what it keeps, and that the result is the one of the method it kept."""

import harness
import models
import numpy as np
import onnx
import pace
import pytest

METHODS = ("max", "percentile", "mse", "entropy")
BETTER_DB = 0.05  # what a method must be better by than those before it


def chain(outputs=("Y",), width=32):
    """Two products; the first makes next to nothing of column 5 of X."""
    g = models.Graph()
    columns = np.where(np.arange(width) == 5, 1e-4, 1).astype(np.float32)
    w = columns[:, None] * models.noise(width, width, seed=2, scale=0.3)
    h = g.node("MatMul", [g.input("X", [None, width]), g.const("w1", w)], "h", "mm1")
    g.matmul(g.node("Relu", [h], "r"), "Y", width, 8, "mm2")
    for name in outputs:
        g.output(name, [None, width if name == "h" else 8])
    return g.build()


def rows(kind, n=64, width=32, seed=0):
    r = np.random.default_rng(seed)
    x = r.standard_normal((n, width))
    if kind == "outlier":
        x[::3, 5] = 500
    if kind == "heavy tails":
        x = r.standard_t(2, (n, width))
    if kind == "uniform":
        x = r.uniform(-1, 1, (n, width))
    return x.astype(np.float32)


KINDS = ("normal", "outlier", "heavy tails", "uniform")


def spread(samples, n):
    """n of them, evenly."""
    n = min(n, len(samples))
    return [samples[i * len(samples) // n] for i in range(n)]


def measured_on(n, runs=64):
    """The samples that auto measures on, and how many of them calibration did not see."""
    unseen, seen = list(range(7, n, 8)), [i for i in range(n) if i % 8 != 7]
    if n < 16:
        return spread(range(n), runs), 0
    n_unseen = min(len(unseen), runs - min(runs // 2, len(seen)))
    return spread(unseen, n_unseen) + spread(seen, runs - n_unseen), n_unseen


def figures(case, quantized, x):
    """Of the worst output, as the runtime measures it."""
    feeds = [{"X": x[i][None]} for i in measured_on(len(x))[0]]
    return min(harness.compare(case, quantized, feeds=feeds).values())


def expected_choice(figures):
    best = 0
    for i, figure in enumerate(figures):
        if figure > figures[best] + BETTER_DB:
            best = i
    return METHODS[best]


@pytest.mark.parametrize("outputs", [("Y",), ("h", "Y")])
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_by_measurement_is_kept(bench, target, kind, outputs):
    x = rows(kind)
    case = models.Case(chain(outputs), {"X": x})
    auto = bench.quantize(case, target=target, out="auto.onnx").ok()
    choice = auto.json["choice"]
    assert choice["samples"] == 64 and choice["held_back"] == 8
    assert [c["method"] for c in choice["candidates"]] == list(METHODS)
    assert [c["percentile"] for c in choice["candidates"]] == [None, 99.99, None, None]
    measured, files = [], {}
    for method in METHODS:
        run = bench.quantize(case, "--method", method, target=target, out=f"{method}.onnx").ok()
        assert run.json["choice"] is None and run.json["requested_method"] == method
        measured.append(figures(case, run.model, x))
        files[method] = run.path.read_bytes()
    assert [c["sqnr_db"] for c in choice["candidates"]] == pytest.approx(measured, abs=1e-3)
    kept = [c["method"] for c in choice["candidates"] if c["chosen"]]
    assert kept == [expected_choice(measured)] == [auto.json["method"]]
    assert auto.path.read_bytes() == files[kept[0]]


def test_outliers_that_do_not_matter_decide_against_max(bench, target):
    run = bench.quantize(models.Case(chain(), {"X": rows("outlier")}), target=target).ok()
    assert run.json["method"] != "max" and run.json["requested_method"] == "auto"


def test_the_figures_name_the_worst_output(bench):
    case = models.Case(chain(("h", "Y")), {"X": rows("outlier")})
    run = bench.quantize(case).ok()
    kept = next(c for c in run.json["choice"]["candidates"] if c["chosen"])
    measured = harness.compare(case, run.model)
    assert kept["output"] == min(measured, key=measured.get)
    assert kept["sqnr_db"] == pytest.approx(min(measured.values()), abs=1e-3)


def test_threads_make_no_difference(bench, target):
    case = models.Case(chain(), {"X": rows("heavy tails")})
    files = []
    for threads in ("1", "2"):
        out = f"{threads}.onnx"
        run = bench.quantize(case, "--threads", threads, target=target, out=out).ok()
        files.append(run.path.read_bytes())
    assert files[0] == files[1]


def test_few_samples_measure_what_they_calibrated(bench):
    run = bench.quantize(models.Case(chain(), {"X": rows("normal", 15)})).ok()
    choice = run.json["choice"]
    assert choice["samples"] == 15 and choice["held_back"] == 0


def test_many_samples_are_thinned_out(bench):
    """Evenly, half of them held back, and so many as a small model may have."""
    x = rows("heavy tails", 800)
    case = models.Case(chain(), {"X": x})
    run = bench.quantize(case).ok()
    choice = run.json["choice"]
    assert (choice["samples"], choice["held_back"]) == (64, 32)
    kept = next(c for c in choice["candidates"] if c["chosen"])
    assert kept["sqnr_db"] == pytest.approx(figures(case, run.model, x), abs=1e-3)


def test_the_price_is_bounded(bench):
    """A large model is measured on eight runs, whatever the number of samples."""
    g = models.Graph()
    g.matmul(g.input("X", [None, 4096, 256]), "Y", 256, 8, "mm1")
    g.output("Y", [None, 4096, 8])
    x = np.random.default_rng(0).standard_normal((24, 4096, 256), dtype=np.float32)
    run = bench.quantize(models.Case(g.build(), {"X": x})).ok()
    assert (run.json["choice"]["samples"], run.json["choice"]["held_back"]) == (8, 3)


def test_the_original_runs_once_on_each_sample(bench):
    """However many methods are tried: what auto runs beyond max is at most five runs of each sample, one of them the
    original's."""
    runs = {}
    for method in ("max", "auto"):
        fast = pace.Pace(bench, pace.case())
        fast.run("--method", method, "--force", command="quantize", out=bench.out / "q.onnx").ok()
        runs[method] = fast.ran()
        fast.log.unlink()
    more = len(runs["auto"]) - len(runs["max"])
    assert more % 40 == 0 and 2 * 40 <= more <= 5 * 40


def test_auto_tries_the_given_percentile(bench):
    case = models.Case(chain(), {"X": rows("normal")})
    run = bench.quantize(case, "--method", "auto", "--percentile", "90").ok()
    assert [c["percentile"] for c in run.json["choice"]["candidates"]] == [None, 90, None, None]
    assert run.json["method"] != "percentile"


def test_where_nothing_can_be_measured_it_is_percentile(bench, target):
    """The output is zero whatever is fed."""
    g = models.Graph()
    h = g.matmul(g.input("X", [None, 32]), "h", 32, 32, "mm1")
    g.node("Mul", [h, g.const("zero", np.zeros(1, np.float32))], "Y")
    g.output("Y", [None, 32])
    run = bench.quantize(models.Case(g.build(), {"X": rows("normal")}), target=target).ok()
    assert run.json["method"] == "percentile" and run.json["percentile"] == 99.99
    assert not any(c["chosen"] for c in run.json["choice"]["candidates"])
    assert any("not chosen by measuring" in note for note in run.json["notes"])


def test_integer_outputs_decide_where_there_are_no_others(bench, target):
    g = models.Graph()
    h = g.matmul(g.input("X", [None, 32]), "h", 32, 32, "mm1")
    g.node("ArgMax", [h], "Y", axis=1, keepdims=0)
    g.output("Y", [None], onnx.TensorProto.INT64)
    run = bench.quantize(models.Case(g.build(), {"X": rows("outlier")}), target=target).ok()
    candidates = run.json["choice"]["candidates"]
    assert {c["output"] for c in candidates} == {"Y"}
    figures = [np.inf if c["sqnr_db"] is None else c["sqnr_db"] for c in candidates]
    assert run.json["method"] == expected_choice(figures)
    assert len(set(figures)) > 1


def test_a_model_without_activations_to_quantize_needs_no_choice(bench):
    g = models.Graph()
    g.node("Relu", [g.input("X", [None, 32])], "Y")
    g.output("Y", [None, 32])
    run = bench.quantize(models.Case(g.build(), {"X": rows("normal")})).ok()
    assert run.json["method"] == "max" and run.json["choice"] is None


@pytest.mark.parametrize("n", [64, 12])
def test_the_summary_says_what_was_tried(bench, n):
    model = bench.write_model(chain())
    data = bench.write_data({"X": rows("outlier", n)})
    given = ["--data", data, "--size-rules", "off", "--allow-low-quality"]
    run = harness.run_cli("quantize", model, "-o", bench.out / "q.onnx", *given).ok()
    line = next(line for line in run.out.splitlines() if line.startswith("  Methods"))
    assert all(method in line for method in METHODS) and line.count("(kept)") == 1
    held_back = {64: 8, 12: 0}[n]
    assert line.endswith(f"; {n} samples, {held_back} of them held back")


def test_the_result_does_not_depend_on_where_samples_lie(bench, target):
    """The same samples calibrate and measure, in another order within each part."""
    x = rows("heavy tails")
    order = np.arange(64)
    order[7::8] = order[7::8][::-1]
    rest = np.setdiff1d(np.arange(64), order[7::8])
    order[[i for i in range(64) if i % 8 != 7]] = np.random.default_rng(1).permutation(rest)
    files = []
    for i, samples in enumerate((x, x[order])):
        case = models.Case(chain(), {"X": samples})
        files.append(bench.quantize(case, target=target, out=f"{i}.onnx").ok().path.read_bytes())
    assert files[0] == files[1]


# Shared work, and ranges from a file


def test_processes_make_no_difference(bench, target):
    case = models.Case(chain(), {"X": rows("heavy tails")})
    one = bench.quantize(case, target=target, out="one.onnx").ok()
    three = bench.quantize(case, "--jobs", "3", target=target, out="three.onnx").ok()
    assert three.path.read_bytes() == one.path.read_bytes()
    assert three.json["choice"] == one.json["choice"]


def save_ranges(bench, target, *args):
    """(model, data, ranges file)"""
    model, data = bench.write_model(chain()), bench.write_data({"X": rows("heavy tails")})
    ranges = bench.out / "ranges.json"
    given = ["--data", data, "--target", target, "--size-rules", "off", *args]
    harness.run_cli("calibrate", model, "-o", ranges, *given).ok()
    return model, data, ranges


def quantize_with(bench, target, model, ranges, *args, out="q.onnx"):
    given = ["--ranges", ranges, "--target", target, "--size-rules", "off", "--json", *args]
    run = harness.run_cli("quantize", model, "-o", bench.out / out, *given).ok()
    run.path = bench.out / out
    return run


def test_ranges_without_samples_are_by_percentile(bench, target):
    model, _, ranges = save_ranges(bench, target)
    auto = quantize_with(bench, target, model, ranges)
    assert (auto.json["method"], auto.json["choice"]) == ("percentile", None)
    assert any("no samples were given" in note for note in auto.json["notes"])
    asked = quantize_with(bench, target, model, ranges, "--method", "percentile", out="asked.onnx")
    assert asked.path.read_bytes() == auto.path.read_bytes()


def test_ranges_and_samples_are_measured(bench, target):
    model, data, ranges = save_ranges(bench, target)
    auto = quantize_with(bench, target, model, ranges, "--data", data)
    case = models.Case(chain(), {"X": rows("heavy tails")})
    direct = bench.quantize(case, target=target).ok()
    assert auto.json["choice"] == direct.json["choice"]
    assert auto.path.read_bytes() == direct.path.read_bytes()
