"""Calibration data in every form: the same samples give the same ranges, and what does not fit is an error that names the
file, the input, what was expected and what was found."""

import harness
import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

N = 9


def two_inputs():
    """X of one row a sample, ids of another type; both batch dimensions free."""
    g = models.Graph()
    x = g.input("X", ["B", 4, 6])
    ids = g.node("Cast", [g.input("ids", ["B", 4, 1], models.INT64)], "c", to=models.FLOAT)
    g.matmul(g.node("Add", [x, ids], "a"), "Y", 6, 8, "mm")
    g.output("Y", ["B", 4, 8])
    r = np.random.default_rng(3)
    return models.Case(
        g.build(), {"X": models.noise(N, 4, 6), "ids": r.integers(-3, 4, (N, 4, 1), np.int64)}
    )


def one_input(shape=("B", 4, 6)):
    g = models.Graph()
    g.matmul(g.input("X", list(shape)), "Y", 6, 8, "mm")
    g.output("Y", [*shape[:-1], 8])
    return models.Case(g.build(), {"X": models.noise(N, 4, 6)})


def folder(bench, name="data"):
    path = bench.inside / name
    path.mkdir(parents=True)
    return path


def message(array, name="", typed=False):
    """A TensorProto, its elements in raw_data or one by one in the field of their type."""
    tensor = numpy_helper.from_array(array, name)
    if typed:
        flat = array.astype(np.int32) if array.dtype == bool else array
        tensor = onnx.helper.make_tensor(name, tensor.data_type, array.shape, flat.flatten())
    return tensor.SerializeToString()


def as_npy_per_run(bench, data):
    path = folder(bench)
    for i, x in enumerate(data["X"]):
        np.save(path / f"{i:03}.npy", x[None])
    return path


def as_npy_per_input(bench, data):
    path = folder(bench)
    for name, array in data.items():
        np.save(path / f"{name}.npy", array)
    return path


def as_raw_per_run(bench, data):
    path = folder(bench)
    for i, x in enumerate(data["X"]):
        x.tofile(path / f"{i:03}.bin")
    return path


def as_raw_per_input(bench, data):
    path = folder(bench)
    for name, array in data.items():
        array.tofile(path / f"{name}.raw")
    return path


def as_raw_file(bench, data):
    data["X"].tofile(bench.inside / "x.dat")
    return bench.inside / "x.dat"


def as_test_data(bench, data, typed=False, names=True):
    for i in range(N):
        path = folder(bench, f"data/test_data_set_{i}")
        for k, (name, array) in enumerate(data.items()):
            content = message(array[i : i + 1], name if names else "", typed)
            (path / f"input_{k}.pb").write_bytes(content)
        (path / "output_0.pb").write_bytes(b"not read")
    return bench.inside / "data"


def as_typed_test_data(bench, data):
    return as_test_data(bench, data, typed=True)


def as_numbered_test_data(bench, data):
    return as_test_data(bench, data, names=False)


def as_pb_file(bench, data):
    (bench.inside / "x.pb").write_bytes(message(data["X"]))
    return bench.inside / "x.pb"


FORMS = [
    (one_input, as_npy_per_run),
    (one_input, as_npy_per_input),
    (one_input, as_raw_per_run),
    (one_input, as_raw_per_input),
    (one_input, as_raw_file),
    (one_input, as_pb_file),
    (one_input, as_test_data),
    (two_inputs, as_npy_per_input),
    (two_inputs, as_raw_per_input),
    (two_inputs, as_test_data),
    (two_inputs, as_typed_test_data),
    (two_inputs, as_numbered_test_data),
]


@pytest.mark.parametrize(
    "model, write", FORMS, ids=[f"{m.__name__}-{w.__name__.removeprefix('as_')}" for m, w in FORMS]
)
def test_every_form_gives_the_same_ranges(bench, model, write):
    case = model()
    want = bench.quantize(case, out="npz.onnx").ok()
    got = bench.quantize(case, data=write(bench, case.data)).ok()
    assert got.json["tensors"] == want.json["tensors"] and len(got.json["tensors"]) == 1
    assert got.json["calibration_samples"] == want.json["calibration_samples"] == N
    assert got.path.read_bytes() == want.path.read_bytes()


@pytest.mark.parametrize(
    "dtype",
    "bool int8 uint8 int16 uint16 int32 int64 uint32 uint64 float16 float32 float64".split(),
)
@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_element_types_of_onnx_tensors(bench, dtype, typed):
    dtype = np.dtype(dtype)
    g = models.Graph()
    x = g.input("X", ["B", 6], onnx.helper.np_dtype_to_tensor_dtype(dtype))
    g.matmul(g.node("Cast", [x], "c", to=models.FLOAT), "Y", 6, 8, "mm")
    g.output("Y", ["B", 8])
    r = np.random.default_rng(0)
    x = r.standard_normal((3, 6)) if dtype.kind == "f" else r.integers(0, 2, (3, 6))
    if dtype.kind == "i":
        x = x * np.iinfo(dtype).min // 3
    x = x.astype(dtype)
    case = models.Case(g.build(), {"X": x})
    (bench.inside / "x.pb").write_bytes(message(x, typed=typed))
    want = bench.quantize(case, out="npz.onnx").ok()
    got = bench.quantize(case, data=bench.inside / "x.pb").ok()
    assert got.json["tensors"] == want.json["tensors"]


def test_sets_are_taken_in_the_order_of_their_numbers(bench):
    """Sample 10 is the one after sample 9: the first 10 do not hold it."""
    case = one_input()
    for i in range(11):
        path = folder(bench, f"data/test_data_set_{i}")
        (path / "input_0.pb").write_bytes(message(np.full((1, 4, 6), i, np.float32)))
    run = bench.quantize(case, "--samples", "10", data=bench.inside / "data").ok()
    assert run.json["tensors"][0]["max"] == 9


def test_a_set_by_itself(bench):
    path = folder(bench)
    (path / "input_0.pb").write_bytes(message(models.noise(1, 4, 6)))
    assert bench.quantize(one_input(), data=path).ok().json["calibration_samples"] == 1


@pytest.mark.parametrize("method", ["max", "percentile", "entropy", "mse", "auto"])
@pytest.mark.parametrize("form", ["npy", "raw", "pb"])
def test_shapes_that_vary(bench, target, method, form):
    """From one file to the next; the same values in one .npz give the same range."""
    case = one_input(("B", "S", 6))
    samples = [models.noise(1, s, 6, seed=s) for s in (3, 7, 16)]
    path = folder(bench)
    for i, x in enumerate(samples):
        if form == "npy":
            np.save(path / f"{i}.npy", x)
        elif form == "raw":
            x.tofile(path / f"{i}.bin")
        else:
            (path / f"test_data_set_{i}").mkdir()
            (path / f"test_data_set_{i}" / "input_0.pb").write_bytes(message(x))
    if form == "raw":  # the size of a file tells one dimension
        g = models.Graph()
        g.matmul(g.input("X", [1, "S", 6]), "Y", 6, 8, "mm")
        g.output("Y", [1, "S", 8])
        case = models.Case(g.build(), {})
    got = bench.quantize(case, "--method", method, data=path, target=target).ok()
    joined = bench.write_data({"X": np.concatenate(samples, axis=1)})
    want = bench.quantize(case, "--method", method, data=joined, target=target, out="w.onnx").ok()
    assert got.json["tensors"] == want.json["tensors"]


def test_raw_files_take_the_shape_that_is_given(bench):
    case = one_input(("B", "S", 6))
    case.data["X"].tofile(bench.inside / "x.bin")
    data = bench.inside / "x.bin"
    want = bench.quantize(case, out="npz.onnx").ok()
    got = bench.quantize(case, "--input-shape", "X:1x4x6", data=data).ok()
    assert got.json["tensors"] == want.json["tensors"]
    assert got.json["calibration_samples"] == N
    bench.quantize(case, data=data, out="q.onnx").failed(
        "x.bin", "X", "--input-shape X:1x8x6", code=2
    )


def test_rows_of_raw_files_are_joined(bench):
    case = one_input()
    case.data["X"].tofile(bench.inside / "x.bin")
    run = bench.quantize(case, "--batch", "4", data=bench.inside / "x.bin").ok()
    assert run.json["calibration_samples"] == N


def test_shapes_are_for_raw_files_alone(bench):
    bench.quantize(one_input(), "--input-shape", "X:1x4x6").failed("--input-shape", code=2)


# What does not fit


def refuse(bench, case, data, *words, code=1):
    run = bench.quantize(case, data=data, timeout=30)
    run.failed(*words, code=code)
    assert harness.files_in(bench.out) == []


def wrong(bench, name, array):
    path = folder(bench)
    np.save(path / "0.npy", models.noise(1, 4, 6))
    np.save(path / name, array)
    return path


@pytest.mark.parametrize(
    "array, found",
    [
        (np.zeros((1, 4, 6), np.int32), "int32 (1, 4, 6)"),
        (np.zeros((1, 4, 7), np.float32), "float (1, 4, 7)"),
        (np.zeros((4, 6), np.float32), "float (4, 6)"),
        (np.zeros((1, 1, 4, 6), np.float32), "float (1, 1, 4, 6)"),
    ],
    ids=["type", "dimension", "rank below", "rank above"],
)
def test_an_npy_of_a_folder_that_does_not_fit(bench, array, found):
    data = wrong(bench, "1.npy", array)
    refuse(bench, one_input(), data, "1.npy", "X", "expected float (?, 4, 6)", f"found {found}")


def test_an_npy_of_a_folder_that_was_cut_short(bench):
    data = wrong(bench, "1.npy", models.noise(1, 4, 6))
    content = (data / "1.npy").read_bytes()
    (data / "1.npy").write_bytes(content[:-5])
    refuse(bench, one_input(), data, "1.npy", "cut short")


def test_files_by_input_that_do_not_fit(bench):
    case = two_inputs()
    data = as_npy_per_input(bench, case.data)
    (data / "ids.npy").rename(data / "idx.npy")
    refuse(bench, case, data, "idx.npy", "'X', 'ids'")
    (data / "idx.npy").unlink()
    refuse(bench, case, data, "data", "no array for input 'ids'", "int64 (?, 4, 1)")
    np.save(data / "ids.npy", case.data["ids"].astype(np.float32))
    refuse(bench, case, data, "ids.npy", "ids", "expected int64", "found float")


def test_raw_files_that_do_not_fit(bench):
    case = one_input()
    path = folder(bench)
    (path / "0.bin").write_bytes(bytes(4 * 24))
    (path / "1.bin").write_bytes(bytes(4 * 24 + 2))
    refuse(bench, case, path, "1.bin", "X", "96 bytes of float (?, 4, 6)", "found 98 bytes")
    (path / "1.bin").unlink()
    (path / "0.bin").write_bytes(b"")
    refuse(bench, one_input((1, 4, 6)), path, "0.bin", "96 bytes", "found 0 bytes")
    (bench.inside / "x.bin").write_bytes(b"")
    refuse(bench, case, bench.inside / "x.bin", "x.bin", "X", "at least one sample")
    refuse(bench, two_inputs(), bench.inside / "x.bin", "x.bin", "'X', 'ids'")


def test_two_kinds_in_a_folder(bench):
    path = folder(bench)
    np.save(path / "a.npy", models.noise(1, 4, 6))
    np.savez(path / "b.npz", X=models.noise(1, 4, 6))
    refuse(bench, one_input(), path, "data", ".npz and .npy")


def external():
    tensor = numpy_helper.from_array(models.noise(1, 4, 6), "X")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor.SerializeToString()


GOOD = message(models.noise(1, 4, 6), "X")
HUGE = TensorProto(dims=[1 << 62, 8], data_type=TensorProto.FLOAT).SerializeToString()


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", ["empty"]),
        (b"\xff" * 40, ["no readable ONNX tensor"]),
        (GOOD[:-7], ["no readable ONNX tensor"]),
        (GOOD[:8], ["asks for"]),
        (message(np.zeros((1, 4, 7), np.float32), "X"), ["X", "float (?, 4, 6)", "float (1, 4, 7)"]),
        (message(np.zeros((1, 4, 6), np.int64), "X"), ["X", "expected float", "found int64"]),
        (onnx.helper.make_tensor("X", TensorProto.STRING, [1], [b"a"]).SerializeToString(), ["string"]),
        (HUGE, ["machine"]),
        (external(), ["another file"]),
    ],
    ids="empty noise cut no_elements shape type strings huge external".split(),
)  # fmt: skip
def test_an_onnx_tensor_that_is_broken_or_does_not_fit(bench, content, words):
    path = folder(bench, "data/test_data_set_0")
    (path / "input_0.pb").write_bytes(content)
    refuse(bench, one_input(), bench.inside / "data", "input_0.pb", *words)


def test_onnx_test_data_that_lacks_an_input_or_has_one_twice(bench):
    case = two_inputs()
    path = folder(bench, "data/test_data_set_0")
    (path / "input_0.pb").write_bytes(message(case.data["X"][:1], "X"))
    refuse(bench, case, bench.inside / "data", "test_data_set_0", "no array for input 'ids'")
    (path / "input_1.pb").write_bytes(message(case.data["X"][:1], "X"))
    refuse(bench, case, bench.inside / "data", "input_1.pb", "X", "input_0.pb")
    (path / "input_1.pb").write_bytes(message(case.data["ids"][:1], "ids"))
    (path / "input_2.pb").write_bytes(message(case.data["ids"][:1], ""))
    refuse(bench, case, bench.inside / "data", "input_2.pb", "no input of the model")


def test_flipped_bytes_of_an_onnx_tensor_never_crash(bench):
    path = folder(bench, "data/test_data_set_0")
    r = np.random.default_rng(5)
    for _ in range(25):
        content = bytearray(GOOD)
        content[r.integers(0, 14)] = r.integers(0, 256)
        (path / "input_0.pb").write_bytes(content)
        run = bench.quantize(one_input(), "--force", data=bench.inside / "data", timeout=30)
        assert run.code in (0, 1), str(run)


# Memory


@pytest.mark.serial
@pytest.mark.parametrize("form", ["npy", "npy per run", "raw", "raw per run", "test data"])
def test_memory_does_not_grow_with_the_samples(bench, form):
    """A mebibyte a sample, and 10 or 100 of them."""
    g = models.Graph()
    g.matmul(g.input("X", [1, 1024, 256]), "Y", 256, 8, "mm")
    g.output("Y", [1, 1024, 8])
    case = models.Case(g.build(), {})
    peak = {}
    for n in (10, 100):
        path = folder(bench, f"data{n}")
        x = np.random.default_rng(0).random((n, 1, 1024, 256), np.float32)
        for i in range(n):
            if form == "npy per run":
                np.save(path / f"{i:03}.npy", x[i])
            elif form == "raw per run":
                x[i].tofile(path / f"{i:03}.bin")
            elif form == "test data":
                (path / f"test_data_set_{i}").mkdir()
                (path / f"test_data_set_{i}" / "input_0.pb").write_bytes(message(x[i]))
        if form == "npy":
            np.save(path / "X.npy", x)
        elif form == "raw":
            x.tofile(path / "X.bin")
        run = bench.quantize(case, data=path, out=f"{n}.onnx").ok()
        assert run.json["calibration_samples"] == n - n // 8 * (n >= 16)
        peak[n] = run.json["peak_memory"]["anonymous_bytes"]
    assert peak[100] < peak[10] + (4 << 20), peak
