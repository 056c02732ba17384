"""Ranges files: saving, using, merging, and TensorRT's calibration cache."""

import json
import shutil
import struct

import harness
import models
import numpy as np
import pytest
import qdq

METHODS = ("max", "percentile", "entropy", "mse")


def write(bench, case, name="calib.npz", rows=None, order=None):
    """Calibration data of a case, or some rows of it."""
    data = case.data
    if rows is not None:
        data = {k: v[rows] for k, v in data.items()}
    if order is not None:
        data = {k: v[order] for k, v in data.items()}
    return bench.write_data(data, name)


def calibrate(bench, case, data, *args, out="ranges.json", target="tensorrt"):
    model = bench.write_model(case.model)
    libs = [word for lib in case.libs for word in ("--custom-op-lib", harness.library(lib))]
    run = harness.run_cli(
        *["calibrate", model, "-o", bench.out / out, "--data", data, "--target", target],
        *["--size-rules", "off", "--json", *libs, *args],
    )
    run.path = bench.out / out
    return run


def load(path):
    return json.loads(path.read_text())


@pytest.fixture(params=["encoder", "custom"])
def case(request):
    return models.encoder_layer() if request.param == "encoder" else models.motivating()


# Using what was saved


@pytest.mark.parametrize("method", METHODS)
def test_the_result_is_that_of_calibrating(bench, target, case, method):
    """Bit by bit, without samples; a calibration takes every method."""
    data = write(bench, case)
    want = bench.quantize(case, "--method", method, data=data, target=target, out="want.onnx").ok()
    ranges = calibrate(bench, case, data, target=target).ok().path
    got = bench.quantize(
        case, "--method", method, "--ranges", ranges, data="", target=target, out="got.onnx"
    ).ok()
    assert got.model == want.model
    report = got.json
    assert report["calibration_samples"] == want.json["calibration_samples"]
    assert report["check"]["samples"] == 0 and report["check"]["outputs"] == []
    assert any("not measured" in note for note in report["notes"])
    assert "Measured" not in harness.run_cli(*got.args[1:], "--force").out


def test_samples_beside_ranges_measure_the_result(bench, case):
    data = write(bench, case)
    ranges = calibrate(bench, case, data).ok().path
    run = bench.quantize(case, "--ranges", ranges, data=data).ok()
    assert run.json["check"]["samples"] > 0
    assert not any("not measured" in note for note in run.json["notes"])


def test_ranges_saved_on_the_way_are_the_same(bench, target, case):
    data = write(bench, case)
    ranges = calibrate(bench, case, data, target=target).ok().path
    saved = bench.out / "saved.json"
    bench.quantize(case, "--save-ranges", saved, data=data, target=target).ok()
    assert saved.read_bytes() == ranges.read_bytes()


def test_a_smaller_selection_takes_what_it_needs(bench):
    case = models.two_convolutions()
    ranges = calibrate(bench, case, write(bench, case)).ok().path
    args = ["--exclude-nodes", "conv1"]
    run = bench.quantize(case, "--ranges", ranges, *args, data="").ok()
    assert set(qdq.View(run.model).edges()) == {"conv2"}


def test_a_larger_selection_is_refused(bench):
    case = models.two_convolutions()
    args = ["--exclude-nodes", "conv2"]
    ranges = calibrate(bench, case, write(bench, case), *args).ok().path
    run = bench.quantize(case, "--ranges", ranges, data="")
    run.failed("ranges.json", "tensors that target", "calibrate")
    assert harness.files_in(bench.out) == ["ranges.json"]


def test_bodies_have_names_of_their_own(bench):
    """Tensors of the same name in both branches of an If keep their ranges apart."""
    from onnx import helper

    def branch(name, factor):
        g = models.Graph(seed=3)
        x = g.node("Mul", ["X", g.const(f"{name}.f", np.float32(factor))], "t", f"{name}.mul")
        g.matmul(x, "y", 8, 8, f"{name}.mm")
        g.output("y", [4, 8])
        return helper.make_graph(g.nodes, name, [], g.outputs, g.initializers)

    g = models.Graph()
    x, c = g.input("X", [4, 8]), g.input("C", [], models.onnx.TensorProto.BOOL)
    g.node("If", [c], "Y", "if", then_branch=branch("then", 1), else_branch=branch("else", 100))
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {})
    folder = bench.inside / "samples"
    folder.mkdir()
    for i in range(2):
        np.savez(folder / f"{i}.npz", X=models.noise(4, 8, seed=i), C=np.bool_(i))
    assert x
    want = bench.quantize(case, data=folder, out="want.onnx").ok()
    ranges = calibrate(bench, case, folder).ok().path
    names = [n for n in load(ranges)["tensors"] if n.startswith("t")]
    assert len(names) == 2
    got = bench.quantize(case, "--ranges", ranges, data="", out="got.onnx").ok()
    assert got.model == want.model


def test_a_range_written_by_hand_is_used(bench, target):
    case = models.two_convolutions()
    path = calibrate(bench, case, write(bench, case), target=target).ok().path
    ranges = load(path)
    name = next(iter(ranges["tensors"]))
    ranges["tensors"][name] = {"range": [-1.5, 2.54]}
    path.write_text(json.dumps(ranges))
    run = bench.quantize(case, "--ranges", path, data="", target=target).ok()
    tensor = next(t for t in run.json["tensors"] if t["name"] == name)
    scale = 2.54 / 127 if target == "tensorrt" else 4.04 / 255
    assert tensor["scale"] == pytest.approx(scale, rel=1e-6)


# Merging


@pytest.mark.parametrize("seed", range(3))
def test_merging_is_exact(bench, target, seed):
    """Any split in any order: the same bytes as one run over all samples, traces aside, which are of each first sample."""
    case = models.motivating()
    case.data = {k: np.concatenate([v, -3 * v]) for k, v in case.data.items()}
    n = len(next(iter(case.data.values())))
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)[:14]
    whole = calibrate(bench, case, write(bench, case, rows=order), out="all.json", target=target)
    cuts = sorted(rng.choice(np.arange(1, 14), 2, replace=False))
    parts = []
    for i, rows in enumerate(np.split(order, cuts)):
        data = write(bench, case, f"part{i}.npz", rows=rows)
        parts.append(calibrate(bench, case, data, out=f"part{i}.json", target=target).ok().path)
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *parts, "-o", merged).ok()
    assert merged.read_bytes() == whole.ok().path.read_bytes()
    harness.run_cli("merge", *parts[::-1], "-o", merged, "--force").ok()
    again = load(merged)
    assert again["tensors"] == load(whole.path)["tensors"] and again["samples"] == 14


def test_one_file_is_merged_into_itself(bench):
    case = models.two_convolutions()
    ranges = calibrate(bench, case, write(bench, case)).ok().path
    copy = bench.out / "copy.json"
    harness.run_cli("merge", ranges, "-o", copy).ok()
    assert copy.read_bytes() == ranges.read_bytes()


def test_merge_refuses_what_does_not_belong_together(bench):
    one, other = models.two_convolutions(), models.two_convolutions(seed=1)
    a = calibrate(bench, one, write(bench, one), out="a.json").ok().path
    b = calibrate(bench, other, write(bench, other), out="b.json").ok().path
    c = calibrate(bench, one, write(bench, one), "--nodes", "conv1", out="c.json").ok().path
    merged = bench.out / "merged.json"
    harness.run_cli("merge", a, b, "-o", merged).failed("b.json", "another model", code=2)
    harness.run_cli("merge", a, c, "-o", merged).failed("c.json", "not every file", code=2)
    harness.run_cli("merge", c, a, "-o", merged).failed("a.json", "not every file", code=2)
    harness.run_cli("merge", a, "-o", bench.out / "x.cache").failed("cache", code=2)
    harness.run_cli("merge", a, bench.out / "none.json", "-o", merged).failed("none.json")
    harness.run_cli("merge", a, "-o", a).failed("exists", code=2)
    harness.run_cli("merge", a).failed("-o", code=2)
    assert harness.files_in(bench.out) == ["a.json", "b.json", "c.json"]


# Files that do not fit


def test_ranges_of_another_model_are_refused(bench):
    one, other = models.two_convolutions(), models.two_convolutions(seed=1)
    ranges = calibrate(bench, one, write(bench, one)).ok().path
    bench.quantize(other, "--ranges", ranges, data="").failed("ranges.json", "another model")
    assert harness.files_in(bench.out) == ["ranges.json"]


def test_weights_outside_the_model_count(bench):
    """The hash covers external data: other weights under the same model are another model."""
    import onnx

    case = models.mlp()
    path = bench.inside / "outside.onnx"
    onnx.save(case.model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    data = write(bench, case)
    ranges = bench.out / "r.json"
    base = ["--data", data, "--size-rules", "off"]
    harness.run_cli("calibrate", path, "-o", ranges, *base).ok()
    args = ["quantize", path, "-o", bench.out / "q.onnx", "--ranges", ranges, "--force"]
    harness.run_cli(*args, "--size-rules", "off").ok()
    weights = bytearray((bench.inside / "w.bin").read_bytes())
    weights[-1] ^= 1
    (bench.inside / "w.bin").write_bytes(weights)
    harness.run_cli(*args, "--size-rules", "off").failed("another model")


def broken(name):
    text = '{"format":"onnxptq ranges","version":1,"model_hash":"","tensors":{"x":%s}}'
    octave = '{"type":"float","shape":[],"seen":1,"finite":3,"min":1,"max":1.5,"octaves":[%s]}'
    return {
        "empty": "",
        "text": "hello",
        "cut": '{"format":"onnxptq ranges","version":1,',
        "another format": "{}",
        "an array": "[]",
        "newer": '{"format":"onnxptq ranges","version":2}',
        "no object": text % "1",
        "type": text % '{"type":"flaot","shape":[],"seen":1}',
        "shape": text % '{"type":"float","shape":[-1],"seen":1}',
        "rank": text % f'{{"type":"float","shape":{[1] * 17},"seen":1}}',
        "empty more often than seen": text % '{"type":"float","shape":[],"seen":1,"empty":2}',
        "no extremes": text % '{"type":"float","shape":[],"seen":1,"finite":3}',
        "extremes": text % '{"type":"float","shape":[],"seen":1,"finite":3,"min":2,"max":1}',
        "range": text % '{"range":[2,1]}',
        "half a range": text % '{"range":[2]}',
        "few bins": text % (octave % '{"exponent":0,"positive":[3]}'),
        "more than seen": text % (octave % '{"exponent":0,"positive":[4,-2047]}'),
        "too many bins": text % (octave % '{"exponent":0,"positive":[3,-2048]}'),
        "exponent": text % (octave % '{"exponent":128,"positive":[3,-2047]}'),
        "half a count": text % (octave % '{"exponent":0,"positive":[0.5,-2047]}'),
        "upwards": text
        % (octave % '{"exponent":0,"positive":[1,-2047]},{"exponent":1,"positive":[1,-2047]}'),
        "twice": '{"format":"onnxptq ranges","version":1,"tensors":{"x":{},"x":{}}}',
        "cache": "TRT-8601-EntropyCalibration2\nx 3c000000\n",
        "cache bits": "TRT-8601-EntropyCalibration2\nx: 3c00000g\n",
        "cache infinite": "TRT-8601-EntropyCalibration2\nx: 7f800000\n",
    }[name]


NAMES = (
    "empty|text|cut|another format|an array|newer|no object|type|shape|rank|empty more often than seen|no extremes|"
    "extremes|range|half a range|few bins|more than seen|too many bins|exponent|half a count|upwards|twice|cache|"
    "cache bits|cache infinite"
).split("|")


@pytest.mark.parametrize("name", NAMES)
def test_broken_files_are_refused(bench, name):
    case = models.two_convolutions()
    path = bench.inside / "r.json"
    path.write_text(broken(name))
    bench.quantize(case, "--ranges", path, data=write(bench, case)).failed("r.json")
    harness.run_cli("merge", path, "-o", bench.out / "m.json").failed("r.json")
    assert harness.files_in(bench.out) == []


def test_options_that_contradict(bench):
    case = models.two_convolutions()
    data = write(bench, case)
    ranges = calibrate(bench, case, data).ok().path
    kept = ranges.read_bytes()
    bench.quantize(case, "--save-ranges", ranges, data=data).failed("ranges.json", code=2)
    args = ["--ranges", ranges, "--save-ranges", ranges, "--force"]
    bench.quantize(case, *args, data="").failed("ranges file", code=2)
    args = ["--save-ranges", bench.out / "model.int8.onnx"]
    bench.quantize(case, *args, data=data).failed("output", code=2)
    args = ["--save-ranges", bench.inside / "model.onnx", "--force"]
    bench.quantize(case, *args, data=data).failed("the model", code=2)
    bench.quantize(case, "--ranges", bench.out / "none.json", data="").failed("none.json")
    args = ["--observe", "device", "--save-ranges", bench.out / "new.json"]
    bench.quantize(case, *args, data=data).failed("histograms", code=2)
    assert ranges.read_bytes() == kept and harness.files_in(bench.out) == ["ranges.json"]


def test_a_failure_leaves_no_ranges(bench):
    case = models.two_convolutions()
    bad = models.Case(case.model, {"Z": np.zeros((4, 2), np.float32)})
    calibrate(bench, case, write(bench, bad)).failed("Z")
    assert harness.files_in(bench.out) == []


def test_a_link_to_the_ranges_stays_a_link(bench):
    """As for models: what the link leads to is replaced."""
    case = models.two_convolutions()
    data = write(bench, case)
    target = bench.out / "real.json"
    target.write_text("old")
    (bench.out / "link.json").symlink_to(target)
    calibrate(bench, case, data, "--force", out="link.json").ok()
    assert load(target)["format"] == "onnxptq ranges"
    assert (bench.out / "link.json").is_symlink()


# TensorRT's calibration cache


def read_cache(path):
    head, *lines = path.read_text().splitlines()
    assert head.startswith("TRT-") and head.endswith("-EntropyCalibration2")
    pairs = (line.rsplit(": ", 1) for line in lines)
    return {name: struct.unpack(">f", bytes.fromhex(bits))[0] for name, bits in pairs}


@pytest.mark.parametrize("method", METHODS)
def test_cache_holds_the_chosen_scales(bench, case, method):
    data = write(bench, case)
    run = bench.quantize(case, "--method", method, data=data).ok()
    cache = calibrate(bench, case, data, "--method", method, out="t.cache").ok().path
    scales = {t["name"]: np.float32(t["scale"]) for t in run.json["tensors"]}
    got = read_cache(cache)
    assert set(got) == set(scales)
    assert all(got[name] == pytest.approx(scales[name], rel=1e-6) for name in got)
    ranges = calibrate(bench, case, data).ok().path
    other = bench.out / "other.cache"
    args = ["--method", method, "--ranges", ranges, "--save-ranges", other]
    bench.quantize(case, *args, data="", out="again.onnx").ok()
    assert read_cache(other) == got


def test_cache_is_used_as_it_is(bench):
    case = models.two_convolutions()
    data = write(bench, case)
    cache = calibrate(bench, case, data, out="t.cache").ok().path
    lines = cache.read_text().splitlines()
    name = lines[1].rsplit(": ", 1)[0]
    lines[0] = "TRT-8601-EntropyCalibration2"
    lines[1] = f"{name}: {struct.pack('>f', 0.25).hex()}"
    cache.write_text("\r\n".join(lines))
    run = bench.quantize(case, "--ranges", cache, "--method", "entropy", data=data).ok()
    tensor = next(t for t in run.json["tensors"] if t["name"] == name)
    assert tensor["scale"] == 0.25
    assert run.json["check"]["samples"] > 0


def test_cache_needs_a_sample_and_every_tensor(bench):
    case = models.two_convolutions()
    data = write(bench, case)
    cache = calibrate(bench, case, data, out="t.cache").ok().path
    bench.quantize(case, "--ranges", cache, data="").failed("t.cache", "--data", code=2)
    lines = cache.read_text().splitlines()
    cache.write_text("\n".join(lines[:-1]))
    name = lines[-1].rsplit(": ", 1)[0]
    bench.quantize(case, "--ranges", cache, data=data).failed("t.cache", name)
    assert harness.files_in(bench.out) == ["t.cache"]


# Robustness of what is read


def test_the_file_survives_a_round_trip_through_json(bench, target):
    """Another program may write it anew: the numbers are exact as JSON has them."""
    case = models.encoder_layer()
    path = calibrate(bench, case, write(bench, case), target=target).ok().path
    copy = bench.out / "copy.json"
    copy.write_text(json.dumps(load(path), indent=2))
    back = bench.out / "back.json"
    harness.run_cli("merge", copy, "-o", back).ok()
    assert back.read_bytes() == path.read_bytes()


def test_input_files_are_left_alone(bench):
    case = models.two_convolutions()
    data = write(bench, case)
    path = calibrate(bench, case, data).ok().path
    kept = bench.inside / "kept.json"
    shutil.copy(path, kept)
    bench.quantize(case, "--ranges", path, "--save-ranges", bench.out / "new.json", data="").ok()
    assert path.read_bytes() == kept.read_bytes()
    assert (bench.out / "new.json").read_bytes() == kept.read_bytes()
