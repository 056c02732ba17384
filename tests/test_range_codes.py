"""Ranges for every kind of codes, from the library itself: against the definitions (ranges.py), against ONNX Runtime's own
calibrators where those are sound, and the same to the bit on another processor (tools/test runs the tool under an emulator)."""

import os
import subprocess
from pathlib import Path

import harness
import numpy as np
import pytest
import ranges
from test_calibration import KINDS, values

TOOL = harness.CLI.parent / "test-tools" / "choose_range"
CODES = {
    "int8-symmetric": (-128, 127, True),
    "int8-asymmetric": (-128, 127, False),
    "uint8-symmetric": (0, 255, True),
    "uint8-asymmetric": (0, 255, False),
    "int16-symmetric": (-32768, 32767, True),
    "int16-asymmetric": (-32768, 32767, False),
    "uint16-asymmetric": (0, 65535, False),
}
PERCENTILES = ("50", "99", "99.9", "99.99", "100")
# To cross a processor's border the whole way: the emulated tool, as a command.
EMULATED = os.environ.get("ONNXPTQ_EMULATED_TOOL", "").split()


def run_tool(folder, x, command=(TOOL,)):
    path = Path(folder) / "values.f32"
    np.asarray(x, "<f4").tofile(path)
    command = [str(word) for word in (*command, path, *PERCENTILES)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


def choose(folder, x):
    """{(method, codes): (lo, hi)}"""
    lines = [line.split() for line in run_tool(folder, x).splitlines()]
    return {(w[0], w[1]): (float.fromhex(w[2]), float.fromhex(w[3])) for w in lines[1:]}


def limit(ends):
    return max(-ends[0], ends[1])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_codes_against_the_definitions(tmp_path, kind):
    x = values(kind)
    chosen = choose(tmp_path, x)
    clean = ranges.without_masks(x)
    rounding = 1e-12 * np.abs(clean).max() ** 2
    for name, codes in CODES.items():
        lo, hi = chosen["max", name]
        assert (lo, hi) == (clean.min(), clean.max())
        for percentile in PERCENTILES:
            want = ranges.percentile(x, *codes, float(percentile))
            assert chosen[percentile, name] == pytest.approx(want, rel=1e-12), (name, percentile)
        if codes[1] - codes[0] > 255:
            want = ranges.within(clean, np.abs(clean).max(), codes[2])
        else:
            want = ranges.entropy(x, *codes)
        assert chosen["entropy", name] == pytest.approx(want, rel=1e-12), name
        error = ranges.quantization_error(clean, *chosen["mse", name], *codes)
        assert error <= ranges.least_error(x, *codes) * 1.01 + rounding, name


@pytest.mark.parametrize("codes", ["int8-asymmetric", "uint8-asymmetric"])
def test_shifted_codes_have_the_same_range(tmp_path, codes):
    """A zero point shifts codes; it moves no range."""
    chosen = choose(tmp_path, values("silu"))
    for method in ("entropy", "mse", *PERCENTILES):
        assert chosen[method, codes] == chosen[method, "uint8-asymmetric"]


# Against ONNX Runtime's calibrators


def ort_collector(method, **arguments):
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    settings = {"symmetric": True, "num_bins": 4096, "num_quantized_bins": 128, "percentile": 99.99}
    settings["scenario"] = "same"
    return calibrate.HistogramCollector(method=method, **{**settings, **arguments})


def ort_range(method, x, **arguments):
    collector = ort_collector(method, **arguments)
    collector.collect({"x": [np.asarray(x, np.float32)]})
    low, high = collector.compute_collection_result()["x"][:2]
    return float(low), float(high)


@pytest.mark.parametrize("kind", ["normal", "laplace", "uniform"])
@pytest.mark.parametrize("percentile", PERCENTILES[1:4])
def test_percentile_is_onnx_runtimes(tmp_path, kind, percentile):
    """It cuts half of the rest off each end, which is the same where both ends are alike; up to the width of its bins, which
    are equal parts of the whole range, and the difference of the ends."""
    x = values(kind)
    x = np.concatenate([x, -x])
    got = limit(choose(tmp_path, x)[percentile, "int8-symmetric"])
    want = ort_range("percentile", x, percentile=float(percentile), symmetric=False)
    assert got == pytest.approx(want[1], abs=2 * np.abs(x).max() * 2 / 4096)
    assert got == pytest.approx(-want[0], abs=2 * np.abs(x).max() * 2 / 4096)


@pytest.mark.parametrize("kind", ["normal", "laplace", "exponential"])
def test_entropy_is_near_onnx_runtimes(tmp_path, kind):
    """On many ordinary values and with more bins than levels, without which it never cuts anything off."""
    x = values(kind, 64 * 12000)
    got = limit(choose(tmp_path, x)["entropy", "int8-symmetric"])
    want = limit(ort_range("entropy", x, num_bins=2048, num_quantized_bins=128))
    assert got == pytest.approx(want, rel=0.15)


def test_outliers_on_which_onnx_runtimes_entropy_does_nothing(tmp_path):
    """microsoft/onnxruntime #9597: as many bins as levels, which is its default, leave one limit to try."""
    x = values("outlier")
    assert limit(ort_range("entropy", x, num_bins=128)) == pytest.approx(5000, rel=0.01)
    assert limit(choose(tmp_path, x)["entropy", "int8-symmetric"]) < 6


# Speed


@pytest.mark.serial
def test_the_ranges_of_400_tensors_take_less_than_a_second():
    done = subprocess.run(
        [TOOL.parent / "time_ranges", "400"], check=True, capture_output=True, text=True
    )
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    seconds = {method: (float(a), float(b)) for method, a, b in rows}
    assert seconds.keys() == {"max", "percentile", "mse", "entropy"}
    assert all(max(pair) < 1 for pair in seconds.values()), seconds


# Other processors


@pytest.mark.skipif(not EMULATED, reason="ONNXPTQ_EMULATED_TOOL names no emulated choose_range")
@pytest.mark.parametrize("kind", KINDS)
def test_another_processor_gives_the_same_bits(tmp_path, kind):
    x = values(kind)
    x[::997] = np.nan
    x[5::1009] = -np.inf
    assert run_tool(tmp_path, x) == run_tool(tmp_path, x, EMULATED)
