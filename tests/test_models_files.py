"""Models whose weights lie in files beside them, and models of more than two gigabytes.

microsoft/onnxruntime #11072, #12576 and #23268, microsoft/Olive #2223, NVIDIA/Model-Optimizer #458."""

import hashlib
import os

import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from models import BOTH, Graph, noise
from onnx import external_data_helper, helper

MEBIBYTE, GIBIBYTE = 1 << 20, 1 << 30


def two_products(width=256):
    g = Graph()
    x = g.matmul(g.input("X", [2, width]), "m", width, width, "mm1")
    g.matmul(x, "Y", width, width, "mm2")
    g.output("Y", [2, width])
    return models.Case(g.build(), {"X": noise(16, width)}, {"mm1": BOTH, "mm2": BOTH})


def save_beside(case, folder, location="m.bin", padding=0):
    """The case's model with all weights in `location`, from which `padding` bytes before and behind
    are not referenced."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    path = folder / "m.onnx"
    side = folder / location
    side.parent.mkdir(parents=True, exist_ok=True)
    with open(side, "wb") as file:
        file.write(b"\xff" * padding)
        for tensor in model.graph.initializer:
            file.write(b"\0" * (-file.tell() % 64))
            data = tensor.raw_data
            external_data_helper.set_external_data(tensor, location, file.tell(), len(data))
            tensor.ClearField("raw_data")
            file.write(data)
        file.write(b"\xff" * padding)
    path.write_bytes(model.SerializeToString())
    return path


def digest(folder):
    """Of every file below a folder."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink()
    }


def quantize(bench, path, data, target, *args, out=None, **options):
    """Quantizes a file where it lies."""
    out = out or bench.out / "q.onnx"
    words = ("--data", data, "--target", target, "--size-rules", "off", "--json")
    run = harness.run_cli("quantize", path, "-o", out, *words, *args, **options)
    run.path = out
    return run


def assert_result(case, path, target):
    """The result loads from any folder, is complete, and close."""
    model = onnx.load(path)
    onnx.checker.check_model(str(path), full_check=True)
    assert qdq.View(model).edges() == case.edges(target)
    here = os.getcwd()
    try:
        os.chdir("/")
        for optimize in (True, False):
            want, got = (
                harness.run_model(m, case.feeds(), optimize=o)
                for m, o in ((case.model, True), (path, optimize))
            )
            assert harness.sqnr_db([w["Y"] for w in want], [g["Y"] for g in got]) > 30
    finally:
        os.chdir(here)


@pytest.mark.parametrize("location", ["m.bin", "weights/m.bin", "a b/ü.bin", "./m.bin"])
def test_weights_beside_the_model(bench, target, location):
    case = two_products()
    path, data = save_beside(case, bench.inside, location), bench.write_data(case.data)
    before = digest(bench.inside)
    quantize(bench, path, data, target, cwd="/").ok()
    assert_result(case, bench.out / "q.onnx", target)
    assert digest(bench.inside) == before


def test_output_in_the_folder_of_the_input(bench, target):
    """The input's side file is not replaced, though it has the name that many would choose."""
    case = two_products()
    path, data = save_beside(case, bench.inside, "q.onnx.data"), bench.write_data(case.data)
    before = digest(bench.inside)
    quantize(bench, path, data, target, out=bench.inside / "q.onnx").ok()
    assert_result(case, bench.inside / "q.onnx", target)
    assert before.items() <= digest(bench.inside).items()


def test_output_in_the_place_of_the_input(bench, target):
    """The one file that may change is the model itself, and only with --force."""
    case = two_products()
    path, data = save_beside(case, bench.inside), bench.write_data(case.data)
    before = digest(bench.inside)
    quantize(bench, path, data, target, out=path).failed("exists", "--force", code=2)
    assert digest(bench.inside) == before
    quantize(bench, path, data, target, "--force", out=path).ok()
    assert digest(bench.inside)["m.bin"] == before["m.bin"]
    assert_result(case, path, target)


def test_a_side_file_larger_than_what_is_used(bench, target):
    case = two_products()
    path = save_beside(case, bench.inside, padding=4 * MEBIBYTE)
    quantize(bench, path, bench.write_data(case.data), target).ok()
    assert_result(case, bench.out / "q.onnx", target)
    assert sum(p.stat().st_size for p in bench.out.iterdir()) < MEBIBYTE


def test_a_symbolic_link_to_the_model(bench, target):
    """The weights lie beside what it points to."""
    case = two_products()
    store = bench.folder / "store"
    store.mkdir()
    link = bench.inside / "link.onnx"
    link.symlink_to(save_beside(case, store))
    run = quantize(bench, link, bench.write_data(case.data), target)
    if run.code != 0:  # or beside the link, as the runtime has it: then the message names the file
        run.failed("m.bin")
        return
    assert_result(case, bench.out / "q.onnx", target)


@pytest.mark.parametrize("change", ["gone", "short", "above", "absolute"])
def test_a_side_file_that_cannot_be_used(bench, target, change):
    """An error that names tensor and file, and no output."""
    case = two_products()
    path, data = save_beside(case, bench.inside), bench.write_data(case.data)
    side = bench.inside / "m.bin"
    if change == "gone":
        side.unlink()
    elif change == "short":
        side.write_bytes(side.read_bytes()[:1000])
    else:
        location = "../m.bin" if change == "above" else "/tmp/m.bin"
        model = onnx.load(path, load_external_data=False)
        for tensor in model.graph.initializer:
            tensor.external_data[0].value = location
        path.write_bytes(model.SerializeToString())
    quantize(bench, path, data, target).failed("cannot", "mm1.weight", "m.bin")
    assert harness.files_in(bench.out) == []


def test_some_weights_inside_and_some_beside(bench, target):
    """And small ones, shapes for one, that must be inside for the runtime to use them."""
    g = Graph()
    x = g.matmul(g.input("X", [2, 64]), "m", 64, 64, "mm1")
    x = g.node("Reshape", [x, g.const("to", np.array([4, 32]))], "r", "reshape")
    g.matmul(x, "Y", 32, 64, "mm2")
    g.output("Y", [4, 64])
    case = models.Case(g.build(), {"X": noise(16, 64)}, {"mm1": BOTH, "mm2": BOTH})
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    tensor = model.graph.initializer[0]
    (bench.inside / "one.bin").write_bytes(tensor.raw_data)
    external_data_helper.set_external_data(tensor, "one.bin", 0, len(tensor.raw_data))
    tensor.ClearField("raw_data")
    path = bench.inside / "m.onnx"
    path.write_bytes(model.SerializeToString())
    quantize(bench, path, bench.write_data(case.data), target).ok()
    assert_result(case, bench.out / "q.onnx", target)


# Weights of the result beside it


def sizes(folder):
    return {p.name: p.stat().st_size for p in folder.iterdir()}


def test_output_with_external_data(bench, target):
    """One file beside the model, with whatever is large; scales stay inside. Both can be moved together."""
    case = two_products()
    data, path = bench.write_data(case.data), bench.write_model(case.model)
    quantize(bench, path, data, target, "--external-data").ok()
    found = sizes(bench.out)
    assert set(found) == {"q.onnx", "q.onnx.data"}
    assert found["q.onnx.data"] >= 2 * 256 * 256 and found["q.onnx"] < 16 * 1024
    moved = bench.folder / "moved"
    bench.out.rename(moved)
    assert_result(case, moved / "q.onnx", target)


@pytest.mark.parametrize("limit, beside", [(10_000, True), (10_000_000, False)])
def test_external_data_by_itself(bench, target, limit, beside):
    """When the file would be too large with them: nobody has to ask."""
    case = two_products()
    data, path = bench.write_data(case.data), bench.write_model(case.model)
    quantize(bench, path, data, target, "--external-data-above", limit).ok()
    assert ("q.onnx.data" in sizes(bench.out)) == beside
    assert_result(case, bench.out / "q.onnx", target)


def test_as_the_input_has_it(bench, target):
    """External in, external out, unless told otherwise."""
    case = two_products()
    path, data = save_beside(case, bench.inside), bench.write_data(case.data)
    quantize(bench, path, data, target).ok()
    assert set(sizes(bench.out)) == {"q.onnx", "q.onnx.data"}
    quantize(bench, path, data, target, "--no-external-data", out=bench.folder / "one.onnx").ok()
    assert not (bench.folder / "one.onnx.data").exists()
    assert_result(case, bench.folder / "one.onnx", target)


@pytest.mark.parametrize("threshold, inside", [(1, False), (70_000, True)])
def test_threshold(bench, target, threshold, inside):
    case = two_products()
    data, path = bench.write_data(case.data), bench.write_model(case.model)
    words = ("--external-data", "--external-data-threshold", threshold)
    quantize(bench, path, data, target, *words).ok()
    model = onnx.load(bench.out / "q.onnx", load_external_data=False)
    outside = {t.name for t in model.graph.initializer if t.HasField("data_location")}
    weights = {t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT8}
    assert (not weights & outside) == inside
    assert_result(case, bench.out / "q.onnx", target)


def test_a_side_file_of_an_earlier_run(bench, target):
    """Replaced with the model, and never without being told to."""
    case = two_products()
    data, path = bench.write_data(case.data), bench.write_model(case.model)
    quantize(bench, path, data, target, "--external-data").ok()
    before = digest(bench.out)
    quantize(bench, path, data, target, "--external-data").failed("exists", code=2)
    assert digest(bench.out) == before
    quantize(bench, path, data, target, "--external-data", "--force").ok()
    assert digest(bench.out) == before
    assert_result(case, bench.out / "q.onnx", target)


def test_the_side_file_is_that_of_the_input(bench, target):
    """Output in the place of the input, whose weights lie where the output's would: no reader ever sees
    one half of each."""
    case = two_products()
    path, data = save_beside(case, bench.inside, "m.onnx.data"), bench.write_data(case.data)
    run = quantize(bench, path, data, target, "--force", out=path)
    if run.code == 0:
        assert_result(case, path, target)
    else:
        run.failed("m.onnx.data", code=2)
        assert onnx.load(path).graph.initializer == case.model.graph.initializer


# More than protobuf's two gigabytes


def save_chain(folder, width, count=5, rows=2):
    """`count` products of [width, width] in a row, all weights in big.bin, written piece by piece."""
    rng = np.random.default_rng(0)
    band = (rng.standard_normal((100, width)) * width**-0.5).astype(np.float32)
    initializers, nodes, x = [], [], "X"
    with open(folder / "big.bin", "wb") as file:
        for k in range(count):
            start = file.tell()
            for first in range(0, width, 100):
                piece = np.roll(band, 7 * (first // 100) + k, axis=1)[: width - first]
                file.write(piece.tobytes())
            tensor = onnx.TensorProto(name=f"w{k}", data_type=1, dims=[width, width])
            point_at(tensor, start, file.tell() - start)
            initializers.append(tensor)
            y = "Y" if k == count - 1 else f"t{k}"
            nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [y], name=f"mm{k}"))
            x = y
    shape = [rows, width]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("X", 1, shape)],
        [helper.make_tensor_value_info("Y", 1, shape)],
        initializers,
    )
    opset = [helper.make_opsetid("", 17)]
    path = folder / "big.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    )
    return path


def point_at(tensor, offset, length):
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "big.bin"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def quantize_chain(bench, width, target, *args, **options):
    path = save_chain(bench.inside, width)
    data = bench.write_data({"X": noise(4, width)})
    before = (bench.inside / "big.bin").stat()
    run = quantize(bench, path, data, target, *args, **options).ok()
    after = (bench.inside / "big.bin").stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    model = onnx.load(bench.out / "q.onnx", load_external_data=False)
    assert qdq.View(model).edges() == {f"mm{k}": BOTH for k in range(5)}
    feeds = [{"X": noise(2, width)}]
    want, got = (harness.run_model(m, feeds) for m in (path, bench.out / "q.onnx"))
    assert harness.sqnr_db([want[0]["Y"]], [got[0]["Y"]]) > 25
    return run


def test_a_chain_of_large_products_in_small(bench, target):
    run = quantize_chain(bench, 300, target)
    assert harness.files_in(bench.out)[0] == "q.onnx"
    assert run.json["model_bytes"] > 5 * 300 * 300 * 4


@pytest.mark.full
@pytest.mark.serial
@pytest.mark.timeout(900)
def test_a_chain_of_more_than_two_gigabytes(bench, target):
    """2.25 GiB: the memory that it takes stays near that of one weight, whatever the model's size, and
    nobody has to ask for external data."""
    run = quantize_chain(bench, 11000, target, timeout=800)
    assert run.json["model_bytes"] > 2.2 * GIBIBYTE
    assert run.json["peak_memory"]["anonymous_bytes"] < GIBIBYTE
