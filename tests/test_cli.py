"""The command line: usage errors, help, options, samples, reproducibility."""

import json
import os
import re
import shutil

import harness
import models
import numpy as np
import onnx
import pytest
import qdq

OPTIONS = """
-o --data --ranges --save-ranges --random-data --seed --input-shape --input-range --samples --batch --custom-op-lib
--providers --target --method --percentile --op-types --exclude-op-types --nodes --exclude-nodes --size-rules
--foreign-edges --threads --ort-lib --json --quiet --verbose --force --version --help
""".split()


def scale_of(run, node="conv1"):
    return float(qdq.View(run.ok().model).params(node, 0).scale)


# Usage


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["quantize"],
        ["quantize", "m.onnx"],
        ["quantize", "m.onnx", "-o", "q.onnx"],
        ["quantize", "-o", "q.onnx", "--random-data", "1"],
        ["quantize", "m.onnx", "-o"],
        ["quantize", "m.onnx", "n.onnx", "-o", "q.onnx", "--random-data", "1"],
        ["inspect"],
        ["inspect", "m.onnx", "--nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage(args):
    run = harness.run_cli(*args)
    assert run.code == 2 and not run.out and "--help" in run.err, str(run)


def test_an_option_without_a_command():
    """Not `unknown`: it is one of quantize's."""
    for option in ("--data", "--data=x.npz", "-o"):
        run = harness.run_cli(option, "x.npz")
        assert run.code == 2 and "no command" in run.err and option in run.err, str(run)


@pytest.mark.parametrize(
    "option, value",
    [
        ("--nonsense", None),
        ("--samples", "0"),
        ("--samples", "-1"),
        ("--samples", "many"),
        ("--samples", "3x"),
        ("--batch", "0"),
        ("--threads", "-1"),
        ("--threads", "99999999999999999999"),
        ("--random-data", "0"),
        ("--seed", "abc"),
        ("--target", "nonsense"),
        ("--method", "nonsense"),
        ("--percentile", "49"),
        ("--percentile", "100.1"),
        ("--percentile", "most"),
        ("--size-rules", "maybe"),
        ("--foreign-edges", "cut"),
        ("--input-shape", "X"),
        ("--input-shape", "X:1x0y"),
        ("--input-shape", ":1x3"),
        ("--input-range", "X:1"),
        ("--input-range", "X:2:1"),
        ("--input-range", "X:a:b"),
        ("--input-range", "X:nan:1"),
        ("--samples", None),
        ("--data", "also.npz"),
    ],
)
def test_wrong_values_of_options(bench, option, value):
    """Exit 2, and the message names the option; given values are checked before any file is
    read."""
    args = (
        ["--random-data", "1", option] if value is None else ["--random-data", "1", option, value]
    )
    run = harness.run_cli("quantize", "missing.onnx", "-o", bench.out / "q.onnx", *args)
    assert run.code == 2 and option.lstrip("-") in run.err and not run.out, str(run)
    assert harness.files_in(bench.out) == []


def test_choices_are_listed_when_the_value_is_wrong(bench):
    run = harness.run_cli(
        "quantize", "m.onnx", "-o", bench.out / "q", "--random-data", "1", "--target", "nonsense"
    )
    assert "tensorrt" in run.err and "onnxruntime" in run.err


def test_help_lists_every_option():
    text = harness.run_cli("quantize", "--help").ok().out
    assert [o for o in OPTIONS if not re.search(rf"(?<![\w-]){re.escape(o)}(?![\w-])", text)] == []
    for word in ("quantize", "inspect"):
        assert word in harness.run_cli("--help").ok().out
    assert "--custom-op-lib" in harness.run_cli("inspect", "--help").ok().out


def test_version():
    run = harness.run_cli("--version").ok()
    assert re.search(r"\b\d+\.\d+\.\d+\b", run.out) and not run.err


# Selection


@pytest.mark.parametrize(
    "args, left",
    [
        (["--exclude-nodes", "conv1"], {"conv2"}),
        (["--exclude-nodes", "conv1", "--exclude-nodes", "conv2"], set()),
        (["--exclude-nodes", "c.*1"], {"conv2"}),
        (["--nodes", "conv2"], {"conv2"}),
        (["--nodes", "conv.", "--exclude-nodes", ".*2"], {"conv1"}),
        (["--op-types", "Conv"], {"conv1", "conv2"}),
        (["--op-types", "Conv,Relu"], {"conv1", "conv2"}),
        (["--exclude-op-types", "Conv"], set()),
        (["--op-types", "Conv", "--exclude-op-types", "Conv"], set()),
        (["--nodes", "conv1,?"], {"conv1"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_selection(bench, target, args, left):
    """Patterns match whole names; exclusion beats inclusion; a comma separates op types but is
    part of a node pattern."""
    run = bench.quantize(models.two_convolutions(), *args, target=target).ok()
    assert qdq.View(run.model).quantized() == left


@pytest.mark.parametrize(
    "args, nearest",
    [
        (["--exclude-nodes", "conv"], "conv1"),
        (["--exclude-nodes", "cnov2"], "conv2"),
        (["--nodes", "reul1"], "relu1"),
        (["--op-types", "Conw"], "Conv"),
        (["--exclude-op-types", "custom_domain::Conv"], "Conv"),
        (["--op-types", "Conv,Reul"], "Relu"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_pattern_that_matches_nothing(bench, args, nearest):
    run = bench.quantize(models.two_convolutions(), *args).failed(
        nearest, args[1].split(",")[-1], code=(1, 2)
    )
    assert harness.files_in(bench.out) == []
    assert args[0] in run.err or "match" in run.err


def test_a_pattern_that_is_no_regular_expression(bench):
    bench.quantize(models.two_convolutions(), "--exclude-nodes", "conv(").failed(
        "conv(", code=(1, 2)
    )


# Providers and runtimes


@pytest.mark.runtime
def test_a_provider_that_does_not_exist(bench):
    """The error lists those that the runtime has."""
    bench.quantize(models.two_convolutions(), "--providers", "nonsense").failed(
        "nonsense", "cpu", code=(1, 2)
    )
    assert harness.files_in(bench.out) == []


@pytest.mark.runtime
def test_a_provider_that_this_runtime_lacks(bench):
    bench.quantize(models.two_convolutions(), "--providers", "cuda:0,cpu").failed("cuda", "cpu")


def test_the_cpu_provider_by_name(bench):
    bench.quantize(models.two_convolutions(), "--providers", "cpu").ok()


def test_a_runtime_that_does_not_exist(bench):
    bench.quantize(models.two_convolutions(), "--ort-lib", bench.inside / "libmissing.so").failed(
        "libmissing.so"
    )


def test_a_runtime_that_is_another_library(bench):
    lib = harness.library("noentry")
    bench.quantize(models.two_convolutions(), "--ort-lib", lib).failed(lib, "OrtGetApiBase")


# Output


@pytest.mark.runtime
def test_json_is_one_object_with_the_whole_report(bench, target):
    run = bench.quantize(models.two_convolutions(), target=target).ok()
    report = json.loads(run.out)
    assert {
        "version",
        "model",
        "output",
        "target",
        "method",
        "nodes",
        "tensors",
        "weights",
        "summary",
        "check",
        "stages",
        "peak_memory",
        "notes",
    } <= set(report)
    assert report["target"] == target and report["requested_method"] == "auto"
    assert [(n["name"], n["op"], n["decision"]) for n in report["nodes"]] == [
        ("conv1", "Conv", "quantized"),
        ("relu1", "Relu", report["nodes"][1]["decision"]),
        ("conv2", "Conv", "quantized"),
    ]
    assert report["summary"]["quantized"]["Conv"] == 2
    assert [w["name"] for w in report["weights"]] == ["conv1.weight", "conv2.weight"]
    assert {"read", "trace", "calibrate", "choose", "emit", "check"} <= {
        s["name"] for s in report["stages"]
    }
    assert all(s["seconds"] >= 0 for s in report["stages"])
    assert (
        report["peak_memory"]["resident_bytes"] > 1 << 20
        and report["peak_memory"]["anonymous_bytes"] > 1 << 20
    )
    assert "\x1b" not in run.out + run.err


def test_quiet_prints_nothing(bench):
    model, data = (
        bench.write_model(models.two_convolutions().model),
        bench.write_data(models.two_convolutions().data),
    )
    run = harness.run_cli(
        "quantize", model, "-o", bench.out / "q.onnx", "--data", data, "--quiet"
    ).ok()
    assert (run.out, run.err) == ("", "")


def test_no_progress_bar_without_a_terminal(bench):
    model = bench.write_model(models.two_convolutions().model)
    run = harness.run_cli("quantize", model, "-o", bench.out / "q.onnx", "--random-data", "4").ok()
    assert run.out and "\r" not in run.out + run.err and "\x1b" not in run.out + run.err


def test_verbose_gives_every_node_its_reason(bench):
    model = bench.write_model(models.residual_block().model)
    args = (
        "quantize",
        model,
        "-o",
        bench.out / "q.onnx",
        "--random-data",
        "4",
        "--size-rules",
        "off",
        "--force",
    )
    plain, verbose = (harness.run_cli(*args, *more).ok() for more in ([], ["--verbose"]))
    for name in ("conv1", "relu1", "conv2", "add", "relu2"):
        assert re.search(rf"\b{name}\b", verbose.out + verbose.err)
    assert len(verbose.out + verbose.err) > len(plain.out + plain.err)


def test_an_existing_output_needs_force(bench):
    case = models.two_convolutions()
    out = bench.out / "model.int8.onnx"
    out.write_bytes(b"precious")
    bench.quantize(case).failed("model.int8.onnx", "--force", code=(1, 2))
    assert out.read_bytes() == b"precious"
    assert qdq.View(bench.quantize(case, "--force").ok().model).quantized() == {"conv1", "conv2"}


def test_output_over_input(bench):
    """Only with --force; then the result replaces the model."""
    case = models.two_convolutions()
    model, data = bench.write_model(case.model), bench.write_data(case.data)
    args = ("quantize", model, "-o", model, "--data", data, "--size-rules", "off")
    harness.run_cli(*args).failed("--force", code=(1, 2))
    assert onnx.load(model) == case.model
    harness.run_cli(*args, "--force").ok()
    assert qdq.View(onnx.load(model)).quantized() == {"conv1", "conv2"}
    harness.assert_quality(case, onnx.load(model))
    assert harness.files_in(bench.inside) == ["calib.npz", "model.onnx"]


def test_the_library_in_the_lines_to_copy(bench):
    """Its path is absolute, and looks like what was given."""
    case = models.motivating()
    bench.write_model(case.model)
    bench.write_data(case.data)
    shutil.copy(harness.library("dummy"), bench.inside / "libmyops.so")
    words = ["quantize", "model.onnx", "-o", "q.onnx", "--data", "calib.npz"]
    for given in ("./libmyops.so", "libmyops.so", ".//./libmyops.so"):
        run = harness.run_cli(
            *words, "--custom-op-lib", given, "--force", cwd=os.path.realpath(bench.inside)
        )
        path = os.path.realpath(bench.inside / "libmyops.so")
        assert f'register_custom_ops_library("{path}")' in run.ok().out


def test_odd_paths(bench):
    """Spaces, non-ASCII letters and a leading dash in names; a relative output."""
    model = bench.write_model(models.two_convolutions().model, "mödel one.onnx")
    harness.run_cli(
        "quantize", model.name, "-o", "-q ü.onnx", "--random-data", "2", cwd=bench.inside
    ).ok()
    assert "-q ü.onnx" in harness.files_in(bench.inside)


# Calibration data


def test_forms_of_the_same_data(bench):
    """npz or npy, rows or whole samples, C or Fortran order: the same bytes come out."""
    case = models.two_convolutions()
    array = case.data["X"]
    forms = {
        "rows.npz": array,
        "samples.npz": array[:, None],
        "rows.npy": array,
        "samples.npy": array[:, None],
        "fortran.npy": np.asfortranarray(array),
    }
    outputs = set()
    for name, value in forms.items():
        path = bench.inside / name
        np.savez(path, X=value) if name.endswith("npz") else np.save(path, value)
        outputs.add(bench.quantize(case, "--force", data=path).ok().path.read_bytes())
    np.savez_compressed(bench.inside / "small.npz", X=array)
    outputs.add(
        bench.quantize(case, "--force", data=bench.inside / "small.npz").ok().path.read_bytes()
    )
    assert len(outputs) == 1


def test_samples_takes_the_first(bench):
    case = models.two_convolutions()
    run = bench.quantize(case, "--method", "max", "--samples", "2")
    assert scale_of(run) == pytest.approx(np.abs(case.data["X"][:2]).max() / 127, rel=1e-6)
    assert run.json["check"]["samples"] == 2


def test_a_folder_is_taken_in_name_order(bench):
    case = models.two_convolutions()
    folder = bench.inside / "calib"
    folder.mkdir()
    for name, scale in (("b", 4), ("c", 8), ("a", 2), ("B", 1)):
        np.savez(folder / f"{name}.npz", X=models.noise(1, 4, 8, 8, scale=scale))
    (folder / "README.txt").write_text("not data")
    largest = np.abs(models.noise(1, 4, 8, 8)).max()
    for samples, scale in ((1, 1), (2, 2), (3, 4), (4, 8)):  # B, a, b, c
        given = ["--method", "max", "--samples", str(samples), "--force"]
        run = bench.quantize(case, *given, data=folder)
        assert scale_of(run) == pytest.approx(scale * largest / 127, rel=1e-6)


def dynamic(batch="N", size="S"):
    """Two convolutions over any batch and image size."""
    case = models.two_convolutions()
    for value in (case.model.graph.input[0], case.model.graph.output[0]):
        for place, dim in ((0, batch), (2, size), (3, size)):
            value.type.tensor_type.shape.dim[place].Clear()
            if isinstance(dim, int):
                value.type.tensor_type.shape.dim[place].dim_value = dim
            else:
                value.type.tensor_type.shape.dim[place].dim_param = dim
    return case


def test_shapes_may_differ_from_file_to_file(bench):
    folder = bench.inside / "calib"
    folder.mkdir()
    arrays = [models.noise(1, 4, size, size, seed=size) for size in (5, 8, 11)]
    for k, array in enumerate(arrays):
        np.savez(folder / f"{k}.npz", X=array)
    run = bench.quantize(dynamic(), data=folder)
    assert scale_of(run) == pytest.approx(max(np.abs(a).max() for a in arrays) / 127, rel=1e-6)
    assert run.json["check"]["samples"] == 3


@pytest.mark.parametrize("batch", [1, 3, 4, 10, 64])
def test_batch_does_not_change_the_range_of_an_input(bench, batch):
    """The short last batch is run short; its rows count."""
    case = dynamic()
    case.data["X"] = models.noise(10, 4, 8, 8)
    case.data["X"][9, 0, 0, 0] = 9
    run = bench.quantize(case, "--method", "max", "--batch", str(batch))
    assert scale_of(run) == pytest.approx(9 / 127, rel=1e-6)


def test_a_short_batch_is_skipped_where_the_batch_is_fixed(bench):
    """With a note; ten rows are two runs of four."""
    case = dynamic(batch=4, size=8)
    case.data["X"] = models.noise(10, 4, 8, 8)
    case.data["X"][9, 0, 0, 0] = 9
    run = bench.quantize(case)
    assert scale_of(run) == pytest.approx(np.abs(case.data["X"][:8]).max() / 127, rel=1e-6)
    assert any("2" in note for note in run.json["notes"])


def two_inputs():
    g = models.Graph()
    x = g.input("X", [1, 4, 8, 8])
    bias = g.input("bias", [4, 1, 1])
    x = g.node("Sub", [g.conv(x, "c1", 4, 4, name="conv1"), bias], "s", "sub")
    g.conv(x, "Y", 4, 4, name="conv2")
    g.output("Y", [1, 4, 8, 8])
    return models.Case(g.build(), {"X": models.noise(3, 4, 8, 8)})


def test_an_array_of_one_value_is_given_to_every_run(bench):
    """Its first dimension is not the number of samples, its shape the declared one."""
    case = two_inputs()
    case.data["bias"] = models.noise(4, 1, 1, scale=10)
    run = bench.quantize(case).ok()
    assert run.json["check"]["samples"] == 3
    feeds = [{"X": row[None], "bias": case.data["bias"]} for row in case.data["X"]]
    assert harness.compare(case, run.model, feeds=feeds)["Y"] > 30


def test_an_input_without_batch_axis_has_one_entry_per_sample(bench):
    case = two_inputs()
    case.data["bias"] = models.noise(3, 4, 1, 1, scale=10)
    run = bench.quantize(case).ok()
    feeds = [{"X": row[None], "bias": bias} for row, bias in zip(case.data["X"], case.data["bias"])]
    assert harness.compare(case, run.model, feeds=feeds)["Y"] > 30


# Random data, reproducibility


@pytest.mark.runtime
def test_random_data_is_reproducible_byte_for_byte(bench, target):
    case = models.motivating()

    def result(*args):
        args = ("--force", "--random-data", "5", *args)
        return bench.quantize(case, *args, data=False, target=target).ok().path.read_bytes()

    first = result("--seed", "7")
    assert result("--seed", "7") == first
    assert result("--seed", "7", "--threads", "1") == result("--seed", "7", "--threads", "2")
    assert result("--seed", "8") != first


def test_random_ranges(bench):
    """N(0,1) unless a range is given; uniform then."""
    case = models.two_convolutions()
    wide = scale_of(bench.quantize(case, "--random-data", "20", data=False))
    assert 3 / 127 < wide < 6 / 127
    narrow = scale_of(
        bench.quantize(
            case, "--random-data", "20", "--input-range", "X:-2:1", "--force", data=False
        )
    )
    assert 1.9 / 127 < narrow <= 2 / 127 * (1 + 1e-6)


def test_random_shapes(bench):
    run = bench.quantize(
        dynamic(), "--random-data", "4", "--input-shape", "X:1x4x9x9", data=False
    ).ok()
    assert run.json["check"]["samples"] == 4


def test_random_data_for_unknown_dimensions_needs_a_shape_or_takes_one(bench):
    """A dimension that nobody fixed is 1, or the run says which input needs --input-shape; never
    a crash."""
    run = bench.quantize(dynamic(), "--random-data", "4", data=False)
    assert run.code == 0 or ("--input-shape" in run.err and "X" in run.err), str(run)


def test_random_integers_are_zero_or_one(bench):
    """So that they can index a table of two rows; --input-range widens them, both ends included."""
    g = models.Graph()
    ids = g.input("ids", [4], models.INT64)
    x = g.node("Gather", [g.weight("table", 2, 32), ids], "e", "gather")
    g.matmul(x, "Y", 32, 16, "mm")
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {})
    bench.quantize(case, "--random-data", "8", data=False).ok()
    run = bench.quantize(
        case, "--random-data", "8", "--input-range", "ids:0:40", "--force", data=False
    )
    assert run.code == 1 and "gather" in run.err.lower(), str(run)
    for args in (["--input-range", "Z:0:1"], ["--input-shape", "Z:1x4x8x8"]):
        bench.quantize(case, "--random-data", "2", *args, "--force", data=False).failed(
            "Z", "ids", code=(1, 2)
        )


# inspect


@pytest.mark.runtime
def test_inspect(bench):
    model = bench.write_model(models.motivating().model)
    report = (
        harness.run_cli("inspect", model, "--custom-op-lib", harness.library("dummy"), "--json")
        .ok()
        .json
    )
    assert report["ir_version"] == 8
    assert report["opsets"] == {"": 17, "custom_domain": 1} or report["opsets"] == {
        "ai.onnx": 17,
        "custom_domain": 1,
    }
    assert [(i["name"], i["type"], i["shape"]) for i in report["inputs"]] == [
        ("X", "float", [1, 3, 8, 8])
    ]
    assert [(o["name"], o["type"], o["shape"]) for o in report["outputs"]] == [
        ("Y", "float", [1, 32, 8, 8])
    ]
    assert {o["op"]: o["count"] for o in report["operators"]} == {
        "Conv": 2,
        "Relu": 2,
        "custom_domain::DummyOp": 1,
    }
    assert all(o["runnable"] for o in report["operators"])
    assert report["weights"] == {"count": 4, "bytes": 4 * (32 * 27 + 32 + 32 * 288 + 32)}
    assert report["quantizable"] == {"Conv": 2}


def test_inspect_for_people(bench):
    model = bench.write_model(models.motivating().model)
    text = harness.run_cli("inspect", model).ok().out
    for part in ("custom_domain::DummyOp", "Conv", "X", "Y", "17", "--custom-op-lib"):
        assert part in text
