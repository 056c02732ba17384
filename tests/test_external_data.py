"""Results whose weights lie in a file beside them, and what temporary files leave behind."""

import fcntl
import os
import shutil
import subprocess

import harness
import models
import numpy as np
import onnx
import pytest
from models import Graph, noise
from onnx import TensorProto, external_data_helper, helper, numpy_helper

WIDTH = 256


def two_products(seed=0):
    g = Graph(seed)
    x = g.matmul(g.input("X", [2, WIDTH]), "m", WIDTH, WIDTH, "mm1")
    g.matmul(x, "Y", WIDTH, WIDTH, "mm2")
    g.output("Y", [2, WIDTH])
    return models.Case(g.build(), {"X": noise(16, WIDTH)})


def save_beside(case, folder, location="m.bin", name="m.onnx", first=0):
    """The case's model in `folder`, all its weights in `location` from byte `first` on."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    with open(folder / location, "wb") as file:
        file.write(b"\xff" * first)
        for tensor in model.graph.initializer:
            external_data_helper.set_external_data(
                tensor, location, file.tell(), len(tensor.raw_data)
            )
            file.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def quantize(bench, path, case, *args, out="q.onnx", **options):
    """Quantizes a file where it lies; `out` is a name in the folder of results or a path."""
    data = bench.write_data(case.data)
    run = harness.run_cli(
        "quantize",
        path,
        "-o",
        bench.out / out,
        *("--data", data, "--size-rules", "off", "--json"),
        *args,
        **options,
    )
    run.path = bench.out / out
    return run


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def outside(path):
    """{initializer: (location, offset, length)} of the tensors that lie beside a model."""
    result = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            entry = {e.key: e.value for e in tensor.external_data}
            assert not tensor.raw_data
            result[tensor.name] = (entry["location"], int(entry["offset"]), int(entry["length"]))
    return result


def assert_close(case, path, at_least=30):
    """The checker takes the file, and the runtime runs it from any folder."""
    onnx.checker.check_model(str(path), full_check=True)
    here = os.getcwd()
    try:
        os.chdir("/")
        for optimize in (True, False):
            want = harness.run_model(case.model, case.feeds())
            got = harness.run_model(path, case.feeds(), optimize=optimize)
            for name in want[0]:
                pairs = [w[name] for w in want], [r[name] for r in got]
                assert harness.sqnr_db(*pairs) > at_least
    finally:
        os.chdir(here)


# Which form


@pytest.mark.runtime
def test_on_demand(bench, target):
    """Both files are reported and counted; large tensors begin at a page."""
    case = two_products()
    path = bench.write_model(case.model)
    run = quantize(bench, path, case, "--external-data", "--target", target).ok()
    assert harness.files_in(bench.out) == ["q.onnx", "q.onnx.data"]
    side = bench.out / "q.onnx.data"
    assert run.json["output_data"] == str(side)
    assert run.json["output_bytes"] == run.path.stat().st_size + side.stat().st_size
    assert run.path.stat().st_size < 4096 < WIDTH * WIDTH < side.stat().st_size
    found = outside(run.path)
    assert {name: length for name, (_, _, length) in found.items() if length >= 65536} == {
        "mm1.weight_quantized": WIDTH * WIDTH,
        "mm2.weight_quantized": WIDTH * WIDTH,
    }
    for location, offset, length in found.values():
        assert location == "q.onnx.data" and offset % (4096 if length >= 65536 else 64) == 0
    assert_close(case, run.path)


def test_summary_names_both_files(bench):
    case = two_products()
    data = bench.write_data(case.data)
    run = harness.run_cli(
        "quantize",
        bench.write_model(case.model),
        "-o",
        bench.out / "q.onnx",
        "--data",
        data,
        "--external-data",
    ).ok()
    assert f"{bench.out / 'q.onnx'} and {bench.out / 'q.onnx.data'}" in run.out


def test_the_default_is_the_inputs_form(bench):
    case = two_products()
    run = quantize(bench, bench.write_model(case.model), case).ok()
    assert harness.files_in(bench.out) == ["q.onnx"] and run.json["output_data"] is None
    run = quantize(bench, save_beside(case, bench.inside), case, out="r.onnx").ok()
    assert harness.files_in(bench.out) == ["q.onnx", "r.onnx", "r.onnx.data"]
    inside = quantize(bench, bench.inside / "m.onnx", case, "--no-external-data", out="s.onnx").ok()
    assert "s.onnx.data" not in harness.files_in(bench.out)
    assert onnx.load(inside.path) == onnx.load(bench.out / "q.onnx")
    assert_close(case, run.path)
    assert_close(case, inside.path)


def test_too_large_for_one_file(bench):
    """The limit is protobuf's; a lower one shows what happens there."""
    case = two_products()
    path = bench.write_model(case.model)
    whole = quantize(bench, path, case).ok().json["output_bytes"]
    quantize(bench, path, case, "--external-data-above", whole, out="r.onnx").ok()
    run = quantize(bench, path, case, "--external-data-above", whole - 1, out="s.onnx").ok()
    quantize(bench, path, case, "--external-data-above", 1, "--no-external-data", out="t.onnx").ok()
    assert [p for p in harness.files_in(bench.out) if p.endswith(".data")] == ["s.onnx.data"]
    assert_close(case, run.path)


@pytest.mark.parametrize("threshold, expected", [(0, {256, 1024, 65536}), (1024, {1024, 65536})])
def test_threshold(bench, threshold, expected):
    case = two_products()
    path = bench.write_model(case.model)
    args = ("--external-data", "--external-data-threshold", threshold)
    run = quantize(bench, path, case, *args).ok()
    assert {length for _, _, length in outside(run.path).values()} == expected
    assert_close(case, run.path)


def test_nothing_reaches_the_threshold(bench):
    case = two_products()
    args = ("--external-data", "--external-data-threshold", 10**9)
    run = quantize(bench, bench.write_model(case.model), case, *args).ok()
    assert harness.files_in(bench.out) == ["q.onnx"] and run.json["output_data"] is None
    assert any("threshold" in note for note in run.json["notes"])
    assert_close(case, run.path)


@pytest.mark.runtime
def test_constants_everywhere(bench, target):
    """In Constant nodes, in bodies of control flow and in local functions, with shapes that the
    runtime reads while it loads the model."""
    weights = [noise(64, 64, seed=k, scale=0.1) for k in range(3)]
    branches = {}
    for name, node in (("then_branch", weights[0]), ("else_branch", weights[1])):
        nodes = [
            helper.make_node(
                "Constant", [], [f"{name}.w"], f"{name}.c", value=numpy_helper.from_array(node)
            ),
            helper.make_node("MatMul", ["r", f"{name}.w"], [f"{name}.y"], f"{name}.mm"),
        ]
        output = helper.make_tensor_value_info(f"{name}.y", 1, [2, 64])
        branches[name] = helper.make_graph(nodes, name, [], [output])
    g = Graph(ir=9, local=1)
    shape = g.const("shape", np.array([2, 64]))
    splits = g.const("splits", np.ones(64, np.int64))
    g.node("Reshape", [g.input("X", [4, 32]), shape], "r", "reshape")
    g.node("If", [g.input("C", [], TensorProto.BOOL)], "i", "if", **branches)
    g.node("Scale", ["i"], "f", "scale", domain="local")
    g.node("Split", ["f", splits], [f"s{k}" for k in range(64)], "split", axis=1)
    g.node("Concat", [f"s{k}" for k in range(64)], "Y", "concat", axis=1)
    g.output("Y", [2, 64])
    body = [
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights[2])),
        helper.make_node("Sub", ["x", "w0"], ["y"]),
        helper.make_node("ReduceMean", ["w"], ["w0"], keepdims=0, axes=[0]),
    ]
    body = [body[0], body[2], body[1]]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Scale", ["x"], ["y"], body, opsets)
    model = g.build()
    model.functions.append(function)
    data = {"X": noise(16, 32), "C": np.array(True)}
    case = models.Case(model, data)
    case.feeds = lambda: [{"X": data["X"][k : k + 4], "C": data["C"]} for k in range(0, 16, 4)]
    args = ("--external-data", "--external-data-threshold", 0, "--target", target)
    run = quantize(bench, bench.write_model(model), case, *args).ok()
    assert (bench.out / "q.onnx.data").stat().st_size > 3 * 64 * 64
    want = harness.run_model(model, case.feeds())
    for optimize in (True, False):
        got = harness.run_model(run.path, case.feeds(), optimize=optimize)
        assert harness.sqnr_db([w["Y"] for w in want], [r["Y"] for r in got]) > 30


# What is there already


def test_a_file_of_that_name_is_not_replaced_unasked(bench):
    case = two_products()
    path = bench.write_model(case.model)
    (bench.out / "q.onnx.data").write_bytes(b"precious")
    for args in (["--external-data"], ["--external-data-above", 1]):
        run = quantize(bench, path, case, *args)
        run.failed("q.onnx.data", "exists", "--force", code=2)
        assert contents(bench.out) == {"q.onnx.data": b"precious"}
    quantize(bench, path, case, "--external-data", "--force").ok()
    assert_close(case, bench.out / "q.onnx")


def test_both_files_are_replaced(bench):
    one, two = two_products(), two_products(seed=5)
    quantize(bench, bench.write_model(one.model), one, "--external-data").ok()
    run = quantize(bench, bench.write_model(two.model), two, "--external-data", "--force").ok()
    assert harness.files_in(bench.out) == ["q.onnx", "q.onnx.data"]
    assert {location for location, _, _ in outside(run.path).values()} == {"q.onnx.data"}
    assert (bench.out / "q.onnx.data").stat().st_nlink == 1  # the checker refuses more
    assert_close(two, run.path)


def test_a_file_that_is_no_longer_used_is_told_of(bench):
    case = two_products()
    path = bench.write_model(case.model)
    quantize(bench, path, case, "--external-data").ok()
    before = (bench.out / "q.onnx.data").read_bytes()
    run = quantize(bench, path, case, "--force").ok()
    assert (bench.out / "q.onnx.data").read_bytes() == before
    assert any("stay" in note and "q.onnx" in note for note in run.json["notes"])


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_what_cannot_be_replaced(bench, kind):
    case = two_products()
    side = bench.out / "q.onnx.data"
    side.mkdir() if kind == "directory" else side.symlink_to(bench.inside / "elsewhere")
    run = quantize(bench, bench.write_model(case.model), case, "--external-data", "--force")
    run.failed("q.onnx.data", kind)
    assert harness.files_in(bench.out) == ["q.onnx.data"]


def test_the_inputs_own_files(bench):
    """Its data are never replaced without it: not by an output of their name, not by an output's
    data; together with it they are."""
    case = two_products()
    path = save_beside(case, bench.inside, "q.onnx.data")
    before = contents(bench.inside)
    run = quantize(bench, path, case, "--force", out=bench.inside / "q.onnx.data")
    run.failed("q.onnx.data", "weights", "another name", code=2)
    run = quantize(bench, path, case, "--force", out=bench.inside / "q.onnx").ok()
    assert run.json["output_data"] == str(bench.inside / "q.onnx.1.data")
    assert before.items() <= contents(bench.inside).items()
    assert_close(case, run.path)
    assert_close(case, path)


def test_in_the_place_of_the_input(bench):
    case = two_products()
    path = save_beside(case, bench.inside, "m.onnx.data")
    quantize(bench, path, case, "--force", out=path).ok()
    assert harness.files_in(bench.inside) == ["calib.npz", "m.onnx", "m.onnx.data"]
    assert (bench.inside / "m.onnx.data").stat().st_size < 4 * WIDTH * WIDTH
    assert_close(case, path)


def test_a_download_cache(bench):
    """Links to model and data in one folder, the files under other names in another."""
    case = two_products()
    blobs, snapshot = bench.folder / "blobs", bench.folder / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    save_beside(case, blobs, "model.onnx_data")
    (blobs / "m.onnx").rename(blobs / "0a1b")
    (blobs / "model.onnx_data").rename(blobs / "2c3d")
    (snapshot / "model.onnx").symlink_to("../../blobs/0a1b")
    (snapshot / "model.onnx_data").symlink_to("../../blobs/2c3d")
    run = quantize(bench, snapshot / "model.onnx", case).ok()
    assert_close(case, run.path)
    (snapshot / "model.onnx_data").unlink()
    (snapshot / "model.onnx_data").symlink_to(bench.write_data(case.data, "elsewhere.npz"))
    run = quantize(bench, snapshot / "model.onnx", case, "--force")
    run.failed("model.onnx_data", "link that leads out")


# Disk


@pytest.mark.parametrize("first, copied", [(0, False), (1, True)])
def test_weights_are_used_where_they_lie(bench, first, copied):
    """Those of the input are copied for the runtime when it cannot map them only."""
    case = two_products()
    path = save_beside(case, bench.inside, first=first)
    run = quantize(bench, path, case).ok()
    codes, floats = 2 * WIDTH * WIDTH, 8 * WIDTH * WIDTH
    assert codes <= run.json["temporary_bytes"] - floats * copied < codes + 8192


@pytest.mark.parametrize("limit", [100_000, 131_200])
def test_a_full_disk(bench, limit):
    """In the codes' temporary file, and in the data file."""
    resource = pytest.importorskip("resource")
    case = two_products()
    path = save_beside(case, bench.inside)
    quantize(
        bench,
        path,
        case,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    ).failed("too large")
    assert harness.files_in(bench.out) == []


def test_temporary_files_of_killed_runs(bench):
    """The next run for the same output removes those that nobody holds."""
    case = two_products()
    path = save_beside(case, bench.inside)
    stale = ["q.onnx.17.0123abcd.tmp", "q.onnx.data.99999.deadbeef.tmp"]
    others = ["q.onnx.tmp", "r.onnx.17.0123abcd.tmp", "q.onnx.17.0123abcd.tmp.tmp"]
    held = "q.onnx.18.0123abcd.tmp"
    for name in [*stale, *others, held]:
        (bench.out / name).write_bytes(b"rest")
    with open(bench.out / held, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        quantize(bench, path, case).ok()
    assert harness.files_in(bench.out) == sorted([held, *others, "q.onnx", "q.onnx.data"])
    quantize(bench, path, case, "--force").ok()
    assert harness.files_in(bench.out) == sorted([*others, "q.onnx", "q.onnx.data"])


def kill_at(call, count, args):
    """Runs the tool and kills the process that writes before its `count`-th such system call."""
    trace = ["strace", "-f", "-qq", "-e", "signal=none", "-o", "/dev/null"]
    trace += ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={count}"]
    done = subprocess.run([*trace, *args], capture_output=True, text=True, timeout=100)
    return done.returncode == 0


STEPS = ("rename", "link", "unlink")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.skipif(
    "asan" in str(harness.CLI), reason="a leak check cannot run in a traced process"
)
@pytest.mark.parametrize("replaced", [False, True])
def test_killed_while_files_are_put_in_place(bench, replaced):
    """Whatever is there under the output's name is whole, old or new: never a model without its
    data, or with those of another."""
    old, new = two_products(), two_products(seed=7)
    if replaced:
        quantize(bench, bench.write_model(old.model), old, "--external-data").ok()
    before = contents(bench.out)
    path, data = bench.write_model(new.model), bench.write_data(new.data)
    args = [str(harness.CLI), "quantize", str(path), "-o", str(bench.out / "q.onnx")]
    args += ["--data", str(data), "--size-rules", "off", "--external-data", "--force", "--quiet"]
    n_killed = 0
    for call in STEPS:
        for count in range(1, 20):
            shutil.rmtree(bench.out)
            bench.out.mkdir()
            for name, content in before.items():
                (bench.out / name).write_bytes(content)
            if kill_at(call, count, args):
                break
            n_killed += 1
            assert replaced <= (bench.out / "q.onnx").exists()
            if (bench.out / "q.onnx").exists():
                assert_one_of(bench.out / "q.onnx", old, new)
        assert_one_of(bench.out / "q.onnx", new)
    assert n_killed >= (8 if replaced else 4)


def assert_one_of(path, *cases):
    for case in cases:
        feeds = case.feeds()[:2]
        want = harness.run_model(case.model, feeds)
        got = harness.run_model(path, feeds)
        if harness.sqnr_db([w["Y"] for w in want], [g["Y"] for g in got]) > 30:
            return
    raise AssertionError("the output is neither of them")


# Elements in fields of their type


def test_typed_data(bench, target):
    """Large elements in float_data: the weight that is quantized goes, the one that is not comes out
    as it came."""
    case = two_products()
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.float_data.extend(values.ravel())
    path = bench.write_model(model)
    args = ("--exclude-nodes", "mm2", "--target", target)
    run = quantize(bench, path, case, *args).ok()
    result = {t.name: t for t in run.model.graph.initializer}
    assert result["mm2.weight"] == model.graph.initializer[1]
    assert "mm1.weight" not in result and len(result["mm1.weight_quantized"].raw_data) == WIDTH**2
    assert_close(case, run.path)
    beside = quantize(bench, path, case, *args, "--external-data", out="r.onnx").ok()
    assert outside(beside.path)["mm2.weight"][2] == 4 * WIDTH * WIDTH
    assert_close(case, beside.path)


def test_half_precision_in_integers(bench):
    """float16 in int32_data takes three bytes an element and a conversion."""
    table = noise(800, 64, scale=0.5).astype(np.float16)
    g = Graph()
    g.input("I", [4], TensorProto.INT64)
    halves = helper.make_tensor("table", TensorProto.FLOAT16, table.shape, table.ravel(), raw=False)
    assert len(halves.SerializeToString()) > 65536
    g.initializers.append(halves)
    g.node("Gather", ["table", "I"], "h", "gather")
    g.node("Cast", ["h"], "x", "cast", to=TensorProto.FLOAT)
    g.matmul("x", "Y", 64, 16, "mm")
    g.output("Y", [4, 16])
    indices = np.random.default_rng(3).integers(0, 800, 64)
    case = models.Case(g.build(), {"I": indices})
    run = quantize(bench, bench.write_model(case.model), case).ok()
    assert next(t for t in run.model.graph.initializer if t.name == "table") == halves
    assert_close(case, run.path)
    run = quantize(bench, bench.write_model(case.model), case, "--external-data", out="r.onnx").ok()
    assert outside(run.path)["table"][2] == table.nbytes
    assert_close(case, run.path)
