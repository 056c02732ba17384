"""The result does not depend on how the samples were gone through: any order, split into shards,
number of processes and of threads gives the same bytes."""

import json
import shutil

import harness
import models
import numpy as np
import pytest

MODELS = ["encoder_layer", "motivating", "downsample_block", "data_dependent_shape"]
N_SAMPLES = 26


def samples(case, seed):
    """More of them, of other magnitudes."""
    rng = np.random.default_rng(seed)
    data = {}
    for name, array in case.data.items():
        rows = rng.integers(0, len(array), N_SAMPLES)
        data[name] = array[rows]
        if array.dtype == np.float32:
            factors = rng.choice([1e-3, 1, 1, -2, 30], N_SAMPLES).astype(np.float32)
            data[name] = data[name] * factors.reshape(-1, *[1] * (array.ndim - 1))
    return data


def reordered(data, rng):
    """Those that calibration sees change places with each other, but for the first, which is
    traced; those that are held back as well."""
    order = np.arange(N_SAMPLES)
    held_back = order % 8 == 7
    for group in (order[~held_back][1:], order[held_back]):
        order[group] = rng.permutation(group)
    return {name: array[order] for name, array in data.items()}


class Split:
    """One way to go through the samples."""

    def __init__(self, bench, case, target, seed):
        self.rng = np.random.default_rng(seed)
        self.bench, self.case, self.target = bench, case, target
        self.data = bench.write_data(samples(case, seed=11), "straight.npz")

    def calibrate(self, out, *args, data=None):
        libs = [
            word for lib in self.case.libs for word in ("--custom-op-lib", harness.library(lib))
        ]
        model = self.bench.write_model(self.case.model)
        base = ["calibrate", model, "-o", out, "--data", data or self.data, *libs]
        harness.run_cli(*base, "--target", self.target, "--size-rules", "off", *args).ok()
        return out

    def choose(self):
        """Arguments at random."""
        args = [[], ["--threads", 1], ["--threads", 2], ["--threads", 5]][self.rng.integers(4)]
        jobs = int(self.rng.integers(1, 5))
        return args + (["--jobs", jobs] if jobs > 1 else [])

    def shards(self, folder, data):
        n = int(self.rng.integers(1, 5))
        folder.mkdir()
        parts = [
            self.calibrate(folder / f"{i}.json", "--shard", f"{i}/{n}", *self.choose(), data=data)
            for i in range(1, n + 1)
        ]
        self.rng.shuffle(parts)
        harness.run_cli("merge", *parts, "-o", folder / "merged.json").ok()
        return folder / "merged.json"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full),
                                  pytest.param(2, marks=pytest.mark.full)])  # fmt: skip
def test_ranges_and_model(bench, target, name, seed):
    case = getattr(models, name)()
    split = Split(bench, case, target, seed)
    want = split.calibrate(bench.out / "want.json", "--threads", 1)
    other = bench.write_data(reordered(samples(case, seed=11), split.rng), "other.npz")
    got = split.calibrate(bench.out / "got.json", *split.choose(), data=other)
    assert got.read_bytes() == want.read_bytes()
    merged = split.shards(bench.out / "shards", other)
    assert merged.read_bytes() == want.read_bytes()

    args = ["--method", str(split.rng.choice(["max", "percentile", "entropy", "mse"]))]
    data = split.data
    one = bench.quantize(case, *args, "--threads", 1, data=data, target=target, out="1.onnx").ok()
    more = split.choose()
    two = bench.quantize(case, *args, *more, data=other, target=target, out="2.onnx").ok()
    args += ["--ranges", merged]
    three = bench.quantize(case, *args, data="", target=target, out="3.onnx").ok()
    assert two.model == one.model, more
    assert three.model == one.model


@pytest.mark.parametrize("name", MODELS)
def test_any_order(bench, target, name):
    """The trace is of another sample then; what is chosen by all of them is not."""
    case = getattr(models, name)()
    split = Split(bench, case, target, seed=5)
    data = {key: array[:15] for key, array in samples(case, seed=11).items()}  # none is held back
    order = split.rng.permutation(15)
    straight = bench.write_data(data, "a.npz")
    other = bench.write_data({key: array[order] for key, array in data.items()}, "b.npz")
    one = json.loads(split.calibrate(bench.out / "one.json", data=straight).read_text())
    two = json.loads(split.calibrate(bench.out / "two.json", data=other).read_text())
    assert one["tensors"] == two["tensors"] and one["samples"] == two["samples"] == 15


def test_the_default_method_chooses_the_same(bench, target):
    """It measures candidates, which takes sums: in the same order however many processes ran."""
    case = models.encoder_layer()
    split = Split(bench, case, target, seed=6)
    one = bench.quantize(case, data=split.data, target=target, out="1.onnx").ok()
    two = bench.quantize(case, "--jobs", 3, data=split.data, target=target, out="2.onnx").ok()
    assert one.model == two.model and one.json["method"] == two.json["method"]


def test_copies_of_the_data_are_as_good(bench):
    """Where a file lies, and when it was written, is no part of what is saved."""
    case = models.motivating()
    split = Split(bench, case, "tensorrt", seed=7)
    want = split.calibrate(bench.out / "want.json")
    copy = bench.inside / "copy.npz"
    shutil.copyfile(split.data, copy)
    got = split.calibrate(bench.out / "got.json", data=copy)
    assert got.read_bytes() == want.read_bytes()
