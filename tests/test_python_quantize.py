"""onnxptq.quantize() and its kin, in this process."""

import os
import pickle
import signal
import threading
import time

import harness
import models
import numpy as np
import onnx
import onnxptq
import pytest
import qdq

LIBS = [harness.library("dummy")]
pytestmark = pytest.mark.runtime


@pytest.fixture
def case():
    return models.motivating()


def quantize(model, output=None, data=None, **options):
    options = {"custom_op_libs": LIBS, "size_rules": False, "method": "max", **options}
    return onnxptq.quantize(model, output, data, **options)


class Reader:
    def __init__(self, samples):
        self.samples = iter(samples)

    def get_next(self):
        return next(self.samples, None)


class Dataset:
    """Random access by index and nothing else, as torch's datasets have it."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class Tensor:
    """What counts of a torch tensor that wants a gradient, on another device."""

    def __init__(self, array, place="device"):
        self.array, self.place, self.dtype, self.shape = array, place, array.dtype, array.shape

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self.array, "host")

    def numpy(self):
        assert self.place == "host"
        return self.array


def test_from_path_to_path(bench, case):
    path, out = bench.write_model(case.model), bench.out / "q.onnx"
    result = quantize(path, out, case.data)
    assert result.path == out and harness.files_in(bench.out) == ["q.onnx"]
    assert qdq.View(onnx.load(out)).edges() == case.edges("tensorrt")
    assert result.summary["quantized"] == {"Conv": 2}
    assert [d.decision for d in result.plan if d.op == "custom_domain::DummyOp"] == ["foreign"]
    assert set(result.ranges) == {"X", "d"}
    assert result.ranges["X"].max == pytest.approx(float(case.data["X"].max()))
    assert result.sqnr["Y"] > 30 and result.method == "max"
    assert "2 of 5 nodes" in repr(result) and "Y: " in str(result)
    assert result.report["output"] == str(out)
    assert result.model.SerializeToString() == onnx.load(out).SerializeToString()


def test_same_result_as_the_command(bench, case):
    run = bench.quantize(case, "--method", "max").ok()
    assert quantize(case.model, None, case.data).to_bytes() == run.path.read_bytes()


def samples_of(case):
    (name, array), *_ = case.data.items()
    return [{name: array[i : i + 1]} for i in range(len(array))]


@pytest.mark.parametrize(
    "make",
    [
        lambda s, a: {"X": a},
        lambda s, a: a,
        lambda s, a: s,
        lambda s, a: (sample for sample in s),
        lambda s, a: Reader(s),
        lambda s, a: Dataset(s),
        lambda s, a: [sample["X"] for sample in s],
        lambda s, a: [{"X": Tensor(sample["X"])} for sample in s],
        lambda s, a: {"X": a.astype(np.float64)},
        lambda s, a: {"X": np.asfortranarray(a)},
    ],
    ids="dict array list generator reader dataset arrays tensors doubles fortran".split(),
)
def test_every_form_of_data_gives_the_same(case, make):
    expected = quantize(case.model, None, case.data).to_bytes()
    data = make(samples_of(case), case.data["X"])
    assert quantize(case.model, None, data).to_bytes() == expected


def test_data_from_files(bench, case):
    expected = quantize(case.model, None, case.data).to_bytes()
    path = bench.write_data(case.data)
    assert quantize(case.model, None, path).to_bytes() == expected
    assert quantize(case.model, None, str(path)).to_bytes() == expected


def test_no_more_of_a_generator_is_used_than_asked_for(case):
    def endless():
        while True:
            yield {"X": case.data["X"][:1]}

    assert quantize(case.model, None, endless(), samples=3).report["calibration_samples"] == 3


def test_names_that_functions_of_numpy_use_themselves():
    g = models.Graph()
    g.conv(g.input("file", [1, 3, 8, 8]), "Y", 3, 32, name="conv")
    g.output("Y", [1, 32, 8, 8])
    data = {"file": models.noise(4, 3, 8, 8)}
    assert quantize(g.build(), None, data).summary["quantized"] == {"Conv": 1}


@pytest.mark.parametrize("form", ["bytes", "bytearray", "proto", "path"])
def test_every_form_of_a_model(bench, case, form):
    before = case.model.SerializeToString()
    path = bench.write_model(case.model)
    forms = {"bytes": before, "bytearray": bytearray(before), "proto": case.model, "path": path}
    result = quantize(forms[form], None, case.data)
    assert case.model.SerializeToString() == before == path.read_bytes()
    assert result.path is None
    assert qdq.View(result.model).edges() == case.edges("tensorrt")


def test_options_reach_the_engine(case):
    result = quantize(
        case.model,
        None,
        None,
        random_data=20,
        seed=3,
        input_ranges={"X": (0, 2)},
        input_shapes={"X": [1, 3, 8, 8]},
        target="onnxruntime",
        percentile=99.0,
        method=None,
        exclude_nodes="conv2",
        activation_type="int8",
        opset=17,
        providers=["CPUExecutionProvider"],
        threads=1,
    )
    report = result.report
    assert report["target"] == "onnxruntime" and report["percentile"] == 99.0
    assert report["method"] == "percentile" and len(report["tensors"]) >= 1
    assert {t["type"] for t in report["tensors"]} == {"int8"}
    assert {d.name: d.decision for d in result.plan}["conv2"] == "excluded"
    assert result.ranges["X"].min >= 0 and result.ranges["X"].max < 2
    assert {o.domain: o.version for o in result.model.opset_import}[""] == 17


def test_overwrite_and_external_data(bench, case):
    path = bench.out / "q.onnx"
    path.write_text("mine")
    with pytest.raises(onnxptq.Error) as caught:
        quantize(case.model, path, case.data)
    assert path.read_text() == "mine" and "overwrite" in caught.value.message
    quantize(case.model, path, case.data, overwrite=True, external_data=True)
    assert harness.files_in(bench.out) == ["q.onnx", "q.onnx.data"]


def test_calibrate_merge_and_ranges(bench, case):
    rows = case.data["X"]
    parts = [bench.out / "a.json", bench.out / "b.json"]
    options = {"custom_op_libs": LIBS, "size_rules": False, "method": "max"}
    for path, part in zip(parts, (rows[:4], rows[4:])):
        onnxptq.calibrate(case.model, path, {"X": part}, **options)
    onnxptq.merge(parts, bench.out / "all.json")
    result = quantize(case.model, None, None, ranges=bench.out / "all.json")
    whole = quantize(case.model, None, case.data)
    assert result.ranges == whole.ranges
    with pytest.raises(TypeError, match="ranges"):
        onnxptq.calibrate(case.model, bench.out / "c.json", {"X": rows}, ranges="x", **options)


def test_shards(bench, case):
    paths = [bench.out / f"{i}.json" for i in (1, 2)]
    options = {"custom_op_libs": LIBS, "size_rules": False, "method": "max"}
    for i, path in enumerate(paths, 1):
        onnxptq.calibrate(case.model, path, case.data, shard=(i, 2), **options)
    onnxptq.merge(paths, bench.out / "all.json")
    result = quantize(case.model, None, None, ranges=bench.out / "all.json")
    assert result.ranges == quantize(case.model, None, case.data).ranges
    with pytest.raises(onnxptq.Error, match="no shard 3"):
        quantize(case.model, None, case.data, shard=(3, 2))


def test_resume(bench, case):
    """An interrupted calibration goes on where it was."""
    out, state = bench.out / "q.onnx", bench.out / "state"

    def stop(stage, done, total):
        return not (stage == "calibrate" and done == 5)

    with pytest.raises(onnxptq.Error):
        quantize(case.model, out, case.data, state=state, resume=True, progress=stop)
    assert harness.files_in(bench.out) == ["state"]
    seen = []
    quantize(
        case.model,
        out,
        case.data,
        state=state,
        resume=True,
        progress=lambda *step: seen.append(step),
    )
    assert {total for stage, _, total in seen if stage == "calibrate"} == {3}
    assert harness.files_in(bench.out) == ["q.onnx"]
    assert out.read_bytes() == quantize(case.model, None, case.data).to_bytes()


@pytest.mark.parametrize("resume", [False, True])
def test_jobs(bench, case, resume):
    """The samples shared among processes give the same to the bit."""
    result = quantize(case.model, bench.out / "q.onnx", case.data, jobs=2, resume=resume)
    assert result.path.read_bytes() == quantize(case.model, None, case.data).to_bytes()
    assert harness.files_in(bench.out) == ["q.onnx"]


def test_jobs_that_fail(bench, case):
    data = {"X": np.where(np.arange(8).reshape(8, 1, 1, 1) == 5, np.nan, case.data["X"])}
    with pytest.raises(onnxptq.Error) as caught:
        quantize(case.model, bench.out / "q.onnx", data, jobs=2, exclude_nodes="nothing")
    assert caught.value.code == "usage" and "nothing" in caught.value.message
    assert harness.files_in(bench.out) == []


def test_half_precision(case):
    result = quantize(case.model, None, case.data, high_precision="fp16", io_types="native")
    assert result.model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    kept = quantize(case.model, None, case.data, high_precision="fp16", keep_float_nodes=".*")
    assert {row["precision"] for row in kept.report["nodes"]} <= {"float", None}


def test_convert(case):
    result = onnxptq.convert(
        case.model, None, case.data, high_precision="fp16", custom_op_libs=LIBS
    )
    assert result.summary["quantized"] == {} and result.sqnr["Y"] > 50
    assert any(t.data_type == onnx.TensorProto.FLOAT16 for t in result.model.graph.initializer)
    with pytest.raises(TypeError, match="method"):
        onnxptq.convert(case.model, None, case.data, high_precision="fp16", method="max")


def test_inspect(case):
    found = onnxptq.inspect(case.model)
    assert found.missing == ["custom_domain::DummyOp"]
    assert found.inputs["X"]["shape"] == [1, 3, 8, 8]
    assert onnxptq.inspect(case.model, custom_op_libs=LIBS).missing == []


# Failures


def test_a_missing_operator(case):
    with pytest.raises(onnxptq.Error) as caught:
        quantize(case.model, None, case.data, custom_op_libs=[])
    error = caught.value
    assert error.code == "missing operator" and "custom_domain::DummyOp" in error.message
    assert "custom_op_libs" in error.message and "--" not in error.message
    assert error.node in {node.name for node in case.model.graph.node}
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message) == (error.code, error.message)


@pytest.mark.parametrize(
    "options, code, words",
    [
        ({"exclude_nodes": ["nothing"]}, "usage", "nothing"),
        ({"method": "best"}, "usage", "auto"),
        ({"percentile": "99"}, "usage", "percentile"),
        ({"input_shapes": {"X": [1] * 17}}, "usage", "dimensions"),
        ({"external_data": True}, "usage", "external_data"),
        ({"data": []}, "data", "no sample"),
        ({"data": ["x"]}, "data", "sample 0"),
        ({"data": [{"X": np.array(["a"])}]}, "data", "'X'"),
        ({"data": 3}, "usage", "int"),
        ({"data": [{"Z": np.zeros((1, 3, 8, 8), "f4")}]}, "data", "Z"),
        ({"model": 3}, "usage", "int"),
        ({"model": b"no model"}, "model", "model"),
        ({"model": "/none.onnx"}, "io", "none.onnx"),
    ],
)
def test_what_is_wrong_is_said(case, options, code, words):
    options = {"model": case.model, "data": case.data, **options}
    model, data = options.pop("model"), options.pop("data")
    with pytest.raises(onnxptq.Error) as caught:
        quantize(model, None, data, **options)
    assert caught.value.code == code and words in caught.value.message


def test_an_unknown_keyword(case):
    with pytest.raises(TypeError):
        quantize(case.model, None, case.data, sample=3)


def test_what_the_data_raise_comes_out(case):
    def broken():
        yield {"X": case.data["X"][:1]}
        raise LookupError("no such image")

    with pytest.raises(LookupError, match="no such image"):
        quantize(case.model, None, broken())


# Callbacks


def test_progress(case):
    seen = []
    quantize(case.model, None, case.data, progress=lambda *step: seen.append(step))
    assert ("calibrate", 8, 8) in seen and {stage for stage, *_ in seen} >= {"trace", "check"}


def test_a_bar(case, capfd):
    quantize(case.model, None, case.data, progress=True)
    assert "calibrate" in capfd.readouterr().err


def test_progress_may_stop(bench, case):
    with pytest.raises(onnxptq.Error) as caught:
        quantize(case.model, bench.out / "q.onnx", case.data, progress=lambda *step: False)
    assert caught.value.code == "cancelled" and harness.files_in(bench.out) == []


@pytest.mark.parametrize("hook", ["progress", "activity"])
def test_what_a_callback_raises_comes_out(bench, case, hook):
    def fail(*arguments):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        quantize(case.model, bench.out / "q.onnx", case.data, **{hook: fail})
    assert harness.files_in(bench.out) == []


def test_activity_names_the_custom_operator(case):
    seen = []
    quantize(case.model, None, case.data, activity=seen.append)
    assert any(step.op == "custom_domain::DummyOp" and step.node for step in seen)
    assert {step.stage for step in seen} >= {"trace", "calibrate", "check"}


def test_log_goes_to_logging_or_a_callback(case, caplog):
    with caplog.at_level("DEBUG", logger="onnxptq"):
        quantize(case.model, None, case.data)
    seen = []
    quantize(case.model, None, case.data, log=lambda level, text: seen.append((level, text)))
    logged = [(record.levelno, record.getMessage().split(":")[0]) for record in caplog.records]
    assert logged and logged == [(level, text.split(":")[0]) for level, text in seen]


def slow_case():
    """A model whose calibration takes long enough to be interrupted."""
    g = models.Graph()
    x = g.input("X", [1, 32, 64, 64])
    for i in range(6):
        x = g.conv(x, f"c{i}", 32, 32, name=f"conv{i}")
    g.output(x, [1, 32, 64, 64])
    return g.build()


def test_other_threads_run_meanwhile():
    ticks, done = [], threading.Event()

    def tick():
        while not done.wait(0.005):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    onnxptq.quantize(slow_case(), random_data=60, method="max")
    end = time.monotonic()
    done.set()
    thread.join()
    gaps = np.diff([start, *(t for t in ticks if start < t < end), end])
    assert gaps.max() < 0.5 * (end - start)


@pytest.fixture
def interruptible():
    """A parent in the background hands down that Ctrl-C is ignored."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c(bench):
    def interrupt(stage, done, total):
        if stage == "calibrate" and done == 2:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        onnxptq.quantize(
            slow_case(), bench.out / "q.onnx", random_data=1000, progress=interrupt, method="max"
        )
    assert signal.getsignal(signal.SIGINT) is before and harness.files_in(bench.out) == []


def test_from_another_thread(case):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(quantize(case.model, None, case.data).to_bytes())
    )
    thread.start()
    thread.join()
    assert results == [quantize(case.model, None, case.data).to_bytes()]


def test_nothing_is_left_in_the_temporary_folder(case, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    quantize(case.model, None, samples_of(case))
    with pytest.raises(onnxptq.Error):
        quantize(case.model, None, samples_of(case), exclude_nodes="nothing")
    assert list(tmp_path.iterdir()) == []
