"""Broken and hostile input, and output that cannot be written: exit 1 and one line that names
the part; never a crash, a hang, a partial file or anything left over in the output's folder."""

import io
import os
import resource
import struct
import zipfile

import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from onnx import TensorProto, helper, numpy_helper


def refuse(bench, *words, model=None, data=None, args=(), limit=None):
    """Quantizes the given bytes or path, which must fail with `words` in its one line and leave
    nothing behind."""
    path = (
        model
        if isinstance(model, os.PathLike)
        else bench.write_model(models.two_convolutions().model if model is None else model)
    )
    source = ["--random-data", "2"] if data is None else ["--data", data]
    run = harness.run_cli(
        "quantize",
        path,
        "-o",
        bench.out / "q.onnx",
        *source,
        "--size-rules",
        "off",
        *args,
        timeout=30,
        preexec_fn=limit,
    )
    run.failed(*words)
    assert harness.files_in(bench.out) == []
    return run


# Model files


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def length_delimited(field, payload, length=None):
    return varint(field << 3 | 2) + varint(len(payload) if length is None else length) + payload


def test_a_model_that_does_not_exist(bench):
    refuse(bench, "missing.onnx", "no such file", model=bench.inside / "missing.onnx")


def test_a_folder_as_model(bench):
    refuse(bench, bench.inside, "director", model=bench.inside)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\xff" * 64,
        b"PK\x03\x04" + bytes(60),
        b"this is a text file, not a model\n" * 4,
        bytes(4096),
        np.random.default_rng(0).bytes(5000),
        np.random.default_rng(1).bytes(5000),
    ],
    ids=["empty", "zero", "ones", "zip", "text", "zeros", "random", "random2"],
)
def test_bytes_that_are_no_model(bench, content):
    refuse(bench, "model.onnx", model=content)


def test_truncated_models(bench):
    """Cut anywhere, also inside a weight. What is left may parse, but then lacks its outputs or
    its opset."""
    whole = models.two_convolutions().model.SerializeToString()
    for cut in sorted(
        {1, 2, 7, len(whole) - 1, len(whole) - 20, *range(50, len(whole), len(whole) // 10)}
    ):
        refuse(bench, "model.onnx", model=whole[:cut])


def test_flipped_bytes_never_crash(bench):
    """Any outcome but death by a signal, a hang, or a file from a failed run."""
    whole = bytearray(models.two_convolutions().model.SerializeToString())
    random = np.random.default_rng(3)
    for _ in range(20):
        broken = bytearray(whole)
        for place in random.integers(0, len(broken), 3):
            broken[place] = random.integers(0, 256)
        path = bench.write_model(bytes(broken))
        run = harness.run_cli(
            "quantize",
            path,
            "-o",
            bench.out / "q.onnx",
            "--random-data",
            "1",
            "--force",
            timeout=30,
        )
        assert run.code in (0, 1, 3), str(run)
        assert run.code == 0 or harness.files_in(bench.out) == [], str(run)
        (bench.out / "q.onnx").unlink(missing_ok=True)


def test_deep_nesting(bench):
    """A graph in an attribute of a node in a graph, ten thousand times: refused by its depth,
    not by the stack's end."""
    nested = b""
    for _ in range(10000):
        attribute = length_delimited(6, nested)  # AttributeProto.g
        node = length_delimited(5, attribute)  # NodeProto.attribute
        nested = length_delimited(1, node)  # GraphProto.node
    model = b"\x08\x08" + length_delimited(7, nested) + length_delimited(8, b"\x10\x11")
    refuse(bench, "nest", model=model)


def test_deep_type_nesting(bench):
    """sequence(sequence(sequence(...)))"""
    nested = length_delimited(1, b"\x08\x01")
    for _ in range(10000):
        nested = length_delimited(
            4, length_delimited(1, nested)
        )  # TypeProto.sequence_type.elem_type
    value = length_delimited(1, b"X") + length_delimited(2, nested)
    refuse(bench, "nest", model=b"\x08\x08" + length_delimited(7, length_delimited(11, value)))


@pytest.mark.parametrize("length", [1 << 31, 1 << 62, (1 << 64) - 1])
def test_a_length_beyond_the_end(bench, length):
    refuse(bench, "model.onnx", model=b"\x08\x08" + length_delimited(7, b"short", length))


def edited(change):
    """The plain model after `change(graph)`."""
    model = models.two_convolutions().model
    change(model.graph)
    return model


def weight_of(graph):
    return next(i for i in graph.initializer if i.name == "conv1.weight")


@pytest.mark.parametrize(
    "dims",
    [[1 << 62, 4, 3, 3], [1 << 32, 1 << 32], [-8, 4, 3, 3], [8, 4, 3, -3], [8, 4, 3, 4], [8, 4, 3]],
    ids=["huge", "overflow", "negative", "negative_last", "too_many", "too_few"],
)
def test_a_weight_whose_dims_do_not_fit_its_data(bench, dims):
    def change(graph):
        del weight_of(graph).dims[:]
        weight_of(graph).dims.extend(dims)

    refuse(bench, "conv1.weight", model=edited(change))


def test_a_weight_without_data(bench):
    refuse(
        bench, "conv1.weight", model=edited(lambda graph: weight_of(graph).ClearField("raw_data"))
    )


def test_a_weight_of_unknown_type(bench):
    def change(graph):
        weight_of(graph).data_type = 999

    refuse(bench, "conv1.weight", model=edited(change))


def test_an_initializer_twice_with_other_values(bench):
    """The runtime itself takes the first or the last, by size."""

    def change(graph):
        weight = weight_of(graph)
        graph.initializer.append(
            numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name)
        )

    refuse(bench, "conv1.weight", "twice", model=edited(change))


def test_a_dangling_input(bench):
    def change(graph):
        graph.node[1].input[0] = "nowhere"

    refuse(bench, "nowhere", "relu1", model=edited(change))


def test_a_dangling_output(bench):
    def change(graph):
        graph.output[0].name = "nowhere"

    refuse(bench, "nowhere", model=edited(change))


def test_a_cycle(bench):
    def change(graph):
        graph.node[0].input[0] = "r1"

    run = refuse(bench, model=edited(change))
    assert any(name in run.err for name in ("r1", "c1", "conv1", "relu1")), str(run)


def test_a_tensor_made_twice(bench):
    def change(graph):
        graph.node[1].output[0] = "c1"
        graph.node[2].input[0] = "c1"

    refuse(bench, "c1", model=edited(change))


def test_a_model_without_graph(bench):
    model = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    refuse(bench, "graph", model=model)


def test_a_model_without_opset(bench):
    model = models.two_convolutions().model
    del model.opset_import[:]
    refuse(bench, "opset", model=model)


def test_an_unknown_standard_operator(bench):
    def change(graph):
        graph.node[1].op_type = "Relux"

    run = refuse(bench, "Relux", model=edited(change))
    assert "relu1" in run.err


@pytest.mark.parametrize("dims", [[1 << 40, 4, 8, 8], [1 << 62, 4, 1 << 62, 8]])
def test_a_huge_input_shape(bench, dims):
    def change(graph):
        for k, size in enumerate(dims):
            graph.input[0].type.tensor_type.shape.dim[k].dim_value = size

    refuse(bench, "X", model=edited(change))


def external(graph, location, **more):
    weight = weight_of(graph)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=str(value))


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "folder/../../secret.bin", "{absolute}", "link.bin", "linked/secret.bin"],
)
def test_external_data_outside_the_models_folder(bench, location):
    """Also by an absolute path or a symbolic link."""
    secret = bench.folder / "secret.bin"
    secret.write_bytes(bytes(8 * 4 * 9 * 4))
    (bench.inside / "folder").mkdir()
    (bench.inside / "link.bin").symlink_to(secret)
    (bench.inside / "linked").symlink_to(bench.folder)
    location = location.format(absolute=secret)
    refuse(bench, "conv1.weight", location, model=edited(lambda graph: external(graph, location)))


@pytest.mark.parametrize(
    "more",
    [{}, {"offset": 1 << 40}, {"offset": -8}, {"length": 1 << 40}, {"length": 4}, {"offset": "x"}],
    ids=["missing", "offset", "negative", "length", "short", "text"],
)
def test_external_data_that_is_not_there(bench, more):
    if more:
        (bench.inside / "w.bin").write_bytes(bytes(8 * 4 * 9 * 4))
    refuse(bench, "conv1.weight", model=edited(lambda graph: external(graph, "w.bin", **more)))


# Calibration data


def x(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def npz_bytes(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def npy_bytes(header, payload=b"", magic=b"\x93NUMPY\x01\x00"):
    header = header.encode()
    return magic + struct.pack("<H", len(header)) + header + payload


def refuse_data(bench, name, content, *words, model=None):
    path = bench.inside / name
    path.write_bytes(content)
    refuse(bench, name, *words, data=path, model=model)


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"Z": x(2, 4, 8, 8)}, ["X"]),
        ({"X": x(2, 4, 8, 8), "extra": x(2, 1)}, ["extra"]),
        ({"X": x(2, 4, 8, 8, dtype=np.int64)}, ["X", "int64"]),
        ({"X": x(2, 4, 8, 8, dtype=np.complex64)}, ["X"]),
        ({"X": np.array(["a", "b"])}, ["X"]),
        ({"X": x(2, 3, 8, 8)}, ["X", "3", "4"]),
        ({"X": x(2, 4, 8)}, ["X"]),
        ({"X": x(2, 2, 2, 4, 8, 8)}, ["X"]),
        ({"X": x(0, 4, 8, 8)}, ["X"]),
        ({"X": np.float32(1)}, ["X"]),
    ],
    ids=[
        "wrong_name",
        "unknown_name",
        "int64",
        "complex",
        "strings",
        "wrong_shape",
        "rank_below",
        "rank_above",
        "no_rows",
        "scalar",
    ],
)
def test_an_npz_that_does_not_fit(bench, arrays, words):
    refuse_data(bench, "calib.npz", npz_bytes(**arrays), *words)


def test_an_npz_that_lacks_one_of_two_inputs(bench):
    case = models.mixed_types()
    model = bench.write_model(case.model)
    data = bench.write_data({"X": case.data["X"]})
    run = harness.run_cli(
        "quantize",
        model,
        "-o",
        bench.out / "q.onnx",
        "--data",
        data,
        "--custom-op-lib",
        harness.library("mixed"),
    )
    run.failed("ids", "calib.npz")


def test_a_pickled_array(bench):
    """Objects are never unpickled."""
    refuse_data(bench, "calib.npz", npz_bytes(X=np.array([{}, []], dtype=object)), "X")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        b"not a zip file at all",
        npz_bytes(X=x(8, 4, 8, 8))[:500],
        npz_bytes(X=x(8, 4, 8, 8))[:-30],
        npz_bytes(),
    ],
    ids=["empty", "magic", "text", "cut", "cut_end", "no_array"],
)
def test_a_broken_npz(bench, content):
    refuse_data(bench, "calib.npz", content)


def test_an_npz_with_a_wrong_checksum(bench):
    content = bytearray(npz_bytes(X=x(8, 4, 8, 8)))
    content[len(content) // 2] ^= 0xFF
    refuse_data(bench, "calib.npz", bytes(content), "X")


def test_a_zip_bomb(bench):
    """A header that promises 16 TiB, in a member that compresses well."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        header = "{'descr': '<f4', 'fortran_order': False, 'shape': (17179869184, 4, 8, 8), }\n"
        archive.writestr("X.npy", npy_bytes(header, bytes(1 << 20)))
    refuse_data(bench, "calib.npz", buffer.getvalue(), "X")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"NUMPY\x01\x00aaaa",
        npy_bytes(""),
        npy_bytes("{}"),
        npy_bytes("{'descr': '<f4'"),
        npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 4, 8, 8), }\n", bytes(16)),
        npy_bytes(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4, 8, 8), }\n", bytes(1024)
        ),
        npy_bytes(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4, 8, 8), }\n",
            bytes(1024),
        ),
        npy_bytes(
            "{'descr': '|O', 'fortran_order': False, 'shape': (1, 4, 8, 8), }\n", bytes(2048)
        ),
        npy_bytes(
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 4, 8, 8), }\n",
            bytes(1024),
        ),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        b"\x93NUMPY\x09\x00\x10\x00" + b" " * 16,
    ],
    ids=[
        "empty",
        "magic",
        "wrong_magic",
        "no_header",
        "empty_header",
        "open_header",
        "short",
        "negative",
        "overflow",
        "object",
        "record",
        "long_header",
        "huge_header",
        "version",
    ],
)
def test_a_broken_npy(bench, content):
    refuse_data(bench, "calib.npy", content)


def test_an_npy_for_a_model_with_two_inputs(bench):
    case = models.mixed_types()
    np.save(bench.inside / "calib.npy", case.data["X"])
    run = harness.run_cli(
        "quantize",
        bench.write_model(case.model),
        "-o",
        bench.out / "q.onnx",
        "--data",
        bench.inside / "calib.npy",
        "--custom-op-lib",
        harness.library("mixed"),
    )
    run.failed("calib.npy", "input")


def test_data_that_does_not_exist(bench):
    refuse(bench, "missing.npz", "no such file", data=bench.inside / "missing.npz")


def test_data_of_another_kind(bench):
    refuse_data(bench, "calib.csv", b"1,2,3\n", ".npz")


def test_an_empty_folder_of_data(bench):
    (bench.inside / "calib").mkdir()
    refuse(bench, "calib", ".npz", data=bench.inside / "calib")


def test_a_broken_file_in_a_folder_of_data(bench):
    folder = bench.inside / "calib"
    folder.mkdir()
    (folder / "a.npz").write_bytes(npz_bytes(X=x(1, 4, 8, 8)))
    (folder / "b.npz").write_bytes(npz_bytes(X=x(1, 5, 8, 8)))
    refuse(bench, "b.npz", "X", data=folder)


def test_nan_in_the_data(bench):
    """Non-finite values never reach a scale: the tensor's finite values decide, or the run fails
    and says so."""
    case = models.two_convolutions()
    case.data["X"][0, 0, 0, 0] = np.nan
    case.data["X"][1, 0, 0, 0] = np.inf
    run = bench.quantize(case)
    if run.code == 0:
        scale = next(t["scale"] for t in run.json["tensors"] if t["name"] == "X")
        assert scale == pytest.approx(
            np.abs(case.data["X"][np.isfinite(case.data["X"])]).max() / 127, rel=1e-5
        )
    else:
        run.failed("X")


def test_nothing_but_nan_in_the_data(bench):
    """What would read it stays float, and the report does not claim otherwise."""
    case = models.two_convolutions()
    case.data["X"][:] = np.nan
    run = bench.quantize(case).ok()
    assert qdq.View(run.model).quantized() == set()
    report = run.json
    assert report["tensors"] == report["weights"] == [] and not report["summary"]["quantized"]
    for node in report["nodes"]:
        assert node["decision"] == "float"
        assert (node["rule"] == "numbers") == (node["op"] == "Conv"), node
    notes = " ".join(report["notes"])
    assert "'X'" in notes and "no finite number" in notes and "nothing is quantized" in notes


# Output


def test_an_output_folder_that_does_not_exist(bench):
    run = harness.run_cli(
        "quantize",
        bench.write_model(models.two_convolutions().model),
        "-o",
        bench.out / "no" / "q.onnx",
        "--random-data",
        "2",
    )
    run.failed(bench.out / "no")
    assert harness.files_in(bench.out) == []


def test_a_folder_as_output(bench):
    (bench.out / "q.onnx").mkdir()
    run = harness.run_cli(
        "quantize",
        bench.write_model(models.two_convolutions().model),
        "-o",
        bench.out / "q.onnx",
        "--random-data",
        "2",
        "--force",
    )
    run.failed("q.onnx", "director")
    assert (
        harness.files_in(bench.out) == ["q.onnx"] and harness.files_in(bench.out / "q.onnx") == []
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(bench):
    bench.out.chmod(0o555)
    refuse(bench, "permission denied", "q.onnx")


def test_an_output_that_nobody_may_write(bench):
    """For root as well: the kernel makes no files there."""
    run = harness.run_cli(
        "quantize",
        bench.write_model(models.two_convolutions().model),
        "-o",
        "/proc/q.onnx",
        "--random-data",
        "2",
    )
    run.failed("/proc/q.onnx")


@pytest.mark.parametrize("limit", [0, 4096, 100_000, 265_000])
def test_a_full_disk(bench, limit):
    """A file size limit stands in for it, the signal that comes with the limit included,
    wherever the writing stops."""
    g = models.Graph()
    x = g.matmul(g.input("X", [4, 256]), "m", 256, 512, "mm1")
    g.matmul(g.node("Relu", [x], "r"), "Y", 512, 256, "mm2")
    g.output("Y", [4, 256])
    refuse(
        bench,
        "too large",
        model=g.build(),
        limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


def test_an_existing_output_survives_a_failed_run(bench):
    out = bench.out / "q.onnx"
    out.write_bytes(b"precious")
    (bench.inside / "calib.npz").write_bytes(b"broken")
    harness.run_cli(
        "quantize",
        bench.write_model(models.two_convolutions().model),
        "-o",
        out,
        "--data",
        bench.inside / "calib.npz",
        "--force",
    ).failed("calib.npz")
    assert out.read_bytes() == b"precious" and harness.files_in(bench.out) == ["q.onnx"]


def test_inspect_of_broken_models(bench):
    whole = models.two_convolutions().model.SerializeToString()
    for content in (b"", whole[: len(whole) // 2], np.random.default_rng(0).bytes(500)):
        harness.run_cli("inspect", bench.write_model(content)).failed("model.onnx")
