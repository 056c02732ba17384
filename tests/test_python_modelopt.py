"""onnxptq.modelopt.quantize(): ModelOpt's call, with its names, defaults and rules."""

import inspect
import logging
import os
import warnings

import harness
import models
import numpy as np
import onnx
import onnxptq
import onnxptq.modelopt
import pytest
import qdq
from onnxptq.modelopt import Unsupported, quantize

# Parameters of modelopt.onnx.quantization.quantize 0.47 that users pass by position or name.
PARAMETERS = """onnx_path quantize_mode calibration_data calibration_method calibration_cache_path
calibration_data_reader calibration_shapes calibration_eps override_shapes op_types_to_quantize
op_types_to_exclude op_types_to_exclude_fp16 nodes_to_quantize nodes_to_exclude
use_external_data_format keep_intermediate_files output_path log_level log_file trt_plugins
trt_plugins_precision high_precision_dtype mha_accumulation_dtype disable_mha_qdq dq_only block_size
use_zero_point passes simplify calibrate_per_node input_shapes_profile model_id trust_remote_code
direct_io_types opset target_dla autotune autotune_output_dir autotune_num_schemes_per_region
autotune_pattern_cache_file autotune_state_file autotune_qdq_baseline autotune_node_filter_list
autotune_verbose autotune_use_trtexec autotune_timing_cache autotune_warmup_runs
autotune_timing_runs autotune_trtexec_args trt_rtx_backend""".split()
DEFAULTS = {
    "quantize_mode": "int8",
    "calibration_method": None,
    "calibration_eps": ["cpu", "cuda:0", "trt"],
    "high_precision_dtype": "fp16",
    "mha_accumulation_dtype": "fp16",
    "passes": ["concat_elimination"],
    "log_level": "INFO",
    "autotune_num_schemes_per_region": 50,
    "autotune_warmup_runs": 50,
    "autotune_timing_runs": 100,
    "trt_rtx_backend": "legacy",
}
DEVICES = harness.library("devices")


@pytest.fixture(autouse=True)
def no_other_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


class Reader:
    def __init__(self, data):
        (self.name, array), *_ = data.items()
        self.rows = iter(np.split(array, len(array)))

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {self.name: row}


class Work:
    """A model in a folder, and the call with it."""

    def __init__(self, bench):
        self.case = models.motivating()
        self.path = bench.write_model(self.case.model)
        self.output = bench.out / "q.onnx"
        self.libs = [str(harness.library("dummy"))]

    def __call__(self, **options):
        given = {
            "onnx_path": str(self.path),
            "output_path": str(self.output),
            "calibration_data": self.case.data,
            "calibration_eps": ["cpu"],
            "ort_custom_plugins": self.libs,
            "log_level": "WARNING",
            **options,
        }
        return quantize(**{name: value for name, value in given.items() if value is not ...})

    def decisions(self, **options):
        return {node.name: node.decision for node in self(**options).plan}


@pytest.fixture
def work(bench):
    return Work(bench)


def test_names_and_defaults():
    parameters = inspect.signature(quantize).parameters
    own = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    assert [name for name in parameters if name not in own] == PARAMETERS
    assert own == ["engine_settings", "ort_custom_plugins"]
    found = {name: parameters[name].default for name in DEFAULTS}
    assert {n: list(v) if isinstance(v, tuple) else v for n, v in found.items()} == DEFAULTS
    others = set(PARAMETERS) - set(DEFAULTS) - {"onnx_path"}
    assert {parameters[name].default for name in others} == {None, False}


def test_the_call_of_the_report(bench):
    """With one import changed and the library named; this machine has no GPU, and says so."""
    case = models.motivating()
    for node in case.model.graph.node:
        if node.op_type == "DummyOp":
            node.name = "/path/to/custom_node"
    path = bench.write_model(case.model)
    with pytest.warns(UserWarning) as seen:
        result = quantize(
            onnx_path=str(path),
            quantize_mode="int8",
            calibration_data_reader=Reader(case.data),
            engine_settings={
                "quantize_mode": "int8",
                "calibration_method": "max",
                "calibration_eps": ["cuda:0", "cpu"],
                "op_types_to_exclude": ["DummyOp"],
                "nodes_to_exclude": ["/path/to/custom_node"],
            },
            ort_custom_plugins=[str(harness.library("dummy"))],
        )
    if not os.environ.get("CUDA_VISIBLE_DEVICES"):
        assert any("cuda:0" in str(warning.message) for warning in seen)
    assert result.path == bench.inside / "model.quant.onnx" and result.method == "max"
    assert [d.decision for d in result.plan if d.op == "custom_domain::DummyOp"] == ["foreign"]
    quantized = onnx.load(result.path)
    custom = [node for node in quantized.graph.node if node.domain == "custom_domain"]
    assert [node.name for node in custom] == ["/path/to/custom_node"]
    assert onnx.TensorProto.FLOAT16 in {t.data_type for t in quantized.graph.initializer}
    assert {o.domain: o.version for o in quantized.opset_import}[""] >= 19
    assert harness.files_in(bench.inside) == ["model.onnx", "model.quant.onnx"]


def test_defaults_are_those_of_modelopt(work):
    result = work(calibration_eps=["cpu"])
    assert result.method == "entropy" and result.report["target"] == "tensorrt"
    half = [row["precision"] for row in result.report["nodes"] if row["op"] == "Conv"]
    assert set(half) == {"float16"}
    assert result.model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


def test_high_precision(work):
    result = work(high_precision_dtype="fp32")
    types = {t.data_type for t in result.model.graph.initializer}
    assert onnx.TensorProto.FLOAT16 not in types
    result = work(direct_io_types=True)
    out = result.model.graph.output[0].type.tensor_type.elem_type
    assert out == onnx.TensorProto.FLOAT16
    result = work(op_types_to_exclude_fp16=["Relu"])
    kinds = {row["op"]: row["precision"] for row in result.report["nodes"]}
    assert kinds["Relu"] == "float"


# Selection


def test_node_patterns_match_as_prefixes(work):
    assert work.decisions(nodes_to_exclude=["conv"])["conv1"] == "excluded"
    assert work.decisions(nodes_to_exclude=["onv", "conv2"], **quiet())["conv2"] == "excluded"
    found = work.decisions(nodes_to_quantize=["conv1"])
    assert (found["conv1"], found["conv2"] == "quantized") == ("quantized", False)


def quiet():
    """Options of a call that warns."""
    warnings.simplefilter("ignore")
    return {}


def test_a_pattern_without_a_match_warns(work):
    with pytest.warns(UserWarning, match="nodes_to_exclude.*'nothing'"):
        found = work.decisions(nodes_to_exclude=["nothing", "conv2$"])
    assert (found["conv1"], found["conv2"]) == ("quantized", "excluded")
    with pytest.warns(UserWarning, match="op_types_to_exclude.*'Nothing'"):
        work(op_types_to_exclude=["Nothing"])


def test_nothing_left_to_quantize_raises(work):
    warnings.simplefilter("ignore")
    for name in ("nodes_to_quantize", "op_types_to_quantize"):
        with pytest.raises(onnxptq.Error, match=name):
            work(**{name: ["nothing"]})


def test_types_without_a_domain_are_of_any(work):
    """Those of ONNX too."""
    found = work.decisions(op_types_to_exclude=["DummyOp", "Conv"])
    assert {found["conv1"], found["conv2"]} == {"excluded"}
    graph = onnxptq._compat.Graph(str(work.path), {"custom_op_libs": work.libs})
    graph.ops = ["Conv", "my::Conv", "my::Convolution"]
    assert graph.expand_types(["Conv", "my::Conv"], "x") == ["Conv", "my::Conv"]


# engine_settings


def test_settings_act_as_arguments(work):
    result = work(engine_settings={"calibration_method": "max", "nodes_to_exclude": ["conv1"]})
    assert result.method == "max"
    assert {d.name: d.decision for d in result.plan}["conv1"] == "excluded"
    assert work(calibration_method="max", engine_settings={"calibration_method": "max"})


def test_two_values_for_one_name(work):
    with pytest.raises(ValueError, match="calibration_method"):
        work(calibration_method="entropy", engine_settings={"calibration_method": "max"})
    with pytest.raises(ValueError, match="high_precision_dtype"):  # the default, but said
        work(high_precision_dtype="fp16", engine_settings={"high_precision_dtype": "fp32"})


def test_unknown_names(work):
    with pytest.raises(TypeError, match="calibration_methods"):
        work(engine_settings={"calibration_methods": "max"})
    with pytest.raises(TypeError, match="awqlite_alpha_step"):
        work(awqlite_alpha_step=0.1)


# Providers


def test_missing_providers_warn_while_one_remains(work):
    with pytest.warns(UserWarning) as seen:
        work(calibration_eps=["cuda:0", "dml:1", "NvTensorRtRtx", "cpu"])
    assert len([w for w in seen if "is left out" in str(w.message)]) == 3
    with pytest.raises(onnxptq.Error, match="calibration_eps"):
        warnings.simplefilter("ignore")
        work(calibration_eps=["trt"])


@pytest.mark.skipif(not DEVICES.exists(), reason="no such library")
@pytest.mark.parametrize("broken", ["", "CUDA"])
def test_a_gpu_that_is_there_is_used(work, tmp_path, monkeypatch, broken):
    """By a runtime that claims to have one, and one whose driver is missing."""
    monkeypatch.setenv(
        "REAL_RUNTIME", onnxptq._library.runtime_path() or os.environ["ONNXPTQ_ORT_LIB"]
    )
    monkeypatch.setenv("ONNXPTQ_ORT_LIB", str(DEVICES))
    monkeypatch.setenv("DEVICES_LOG", str(tmp_path))
    if broken:
        monkeypatch.setenv("DEVICES_BROKEN", broken)
        with pytest.warns(UserWarning, match="cuda:0.*left out"):
            result = work(calibration_eps=["cuda:0", "cpu"])
    else:
        result = work(calibration_eps=["cuda:0", "cpu"])
    names = [row["name"] for row in result.report["providers"]]
    assert ("CUDAExecutionProvider" in names) is not bool(broken)


# Data


def test_data(work):
    expected = work().path.read_bytes()
    assert work(calibration_data=work.case.data["X"]).path.read_bytes() == expected
    reader = Reader(work.case.data)
    result = work(calibration_data=None, calibration_data_reader=reader)
    assert result.path.read_bytes() == expected
    with pytest.raises(ValueError, match="both"):
        work(calibration_data_reader=Reader(work.case.data))


def test_without_data_one_random_sample(work):
    work.case.model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    work.path.write_bytes(work.case.model.SerializeToString())
    assert work(calibration_data=None).report["calibration_samples"] == 1
    result = work(calibration_data=None, calibration_shapes="X:4x3x8x8")
    assert result.report["calibration_samples"] == 1
    batched = work(calibration_shapes="X:4x3x8x8")
    assert batched.report["calibration_samples"] == 8
    for shapes, error in (("X:4x", ValueError), ("Z:1x3x8x8", onnxptq.Error)):
        with pytest.raises(error, match="calibration_shapes"):
            work(calibration_data=None, calibration_shapes=shapes)


def test_calibration_cache(work, bench):
    cache = bench.out / "model.cache"
    onnxptq.calibrate(
        work.path, cache, work.case.data, custom_op_libs=work.libs, method="max", size_rules=False
    )
    result = work(calibration_data=None, calibration_cache_path=str(cache))
    assert qdq.View(result.model).edges() == work.case.edges("tensorrt")


# What is not done


@pytest.mark.parametrize(
    "name, value",
    [
        ("quantize_mode", "fp8"),
        ("quantize_mode", "int4"),
        ("calibration_method", "awq_clip"),
        ("override_shapes", "X:1x3x8x8"),
        ("disable_mha_qdq", True),
        ("dq_only", True),
        ("block_size", 32),
        ("use_zero_point", True),
        ("passes", []),
        ("simplify", True),
        ("model_id", "x"),
        ("trust_remote_code", True),
        ("target_dla", True),
        ("autotune", True),
        ("autotune_timing_runs", 3),
        ("trt_rtx_backend", "abi"),
        ("trt_plugins_precision", ["DummyOp:int8"]),
        ("high_precision_dtype", "fp8"),
        ("mha_accumulation_dtype", "bf16"),
    ],
)
def test_what_is_not_done_raises_with_its_name(work, name, value):
    with pytest.raises(Unsupported) as caught:
        work(**{name: value})
    assert caught.value.parameter == name and name in str(caught.value)
    assert not work.output.exists()


def test_every_parameter_has_an_effect(work):
    """Or a reason why it has none: none is read and dropped."""
    source = inspect.getsource(onnxptq.modelopt)
    body = source[source.index("def _choose_providers") : source.index("@_compat.with_settings")]
    select = inspect.getsource(onnxptq._compat.select)
    for name in PARAMETERS:
        if name in ("log_level", "log_file"):
            continue
        assert f'"{name}"' in body + select or name in onnxptq.modelopt.FIXED, name


@pytest.mark.parametrize("name", ["keep_intermediate_files", "calibrate_per_node"])
def test_what_is_not_needed_warns(work, name):
    with pytest.warns(UserWarning, match=name):
        work(**{name: True})


def test_low_opsets_warn(work):
    with pytest.warns(UserWarning, match="opset"):
        result = work(opset=13)
    assert {o.domain: o.version for o in result.model.opset_import}[""] == 19


def test_logs(work, tmp_path, capfd):
    file = tmp_path / "log.txt"
    work(log_level="INFO", log_file=str(file))
    assert "Quantized onnx model is saved as" in file.read_text()
    with pytest.raises(ValueError, match="log_level"):
        work(log_level="LOUD")
    assert logging.getLogger("onnxptq.modelopt").handlers == []


def test_external_data(work):
    work(use_external_data_format=True)
    assert work.output.with_name("q.onnx.data").exists()
