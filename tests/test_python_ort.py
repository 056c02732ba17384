"""onnxptq.ort.quantize_static(): ONNX Runtime's call, with its names."""

import inspect
import warnings

import harness
import models
import numpy as np
import onnx
import onnxptq
import onnxptq.ort
import onnxruntime.quantization as original
import pytest
import qdq
from onnxptq.ort import CalibrationMethod, QuantFormat, QuantType, Unsupported, quantize_static


class Reader(original.CalibrationDataReader):
    def __init__(self, data):
        (self.name, array), *_ = data.items()
        self.rows = iter(np.split(array, len(array)))

    def get_next(self):
        row = next(self.rows, None)
        return None if row is None else {self.name: row}


@pytest.fixture(autouse=True)
def no_other_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def case():
    return models.motivating()


@pytest.fixture
def call(bench, case):
    def quantize(**options):
        given = {
            "model_input": bench.write_model(case.model),
            "model_output": bench.out / "q.onnx",
            "calibration_data_reader": Reader(case.data),
            "custom_op_libs": [harness.library("dummy")],
            **options,
        }
        return quantize_static(**given)

    return quantize


def test_names_and_defaults():
    """Those of the installed version, in its order."""
    own = inspect.signature(quantize_static).parameters
    theirs = inspect.signature(original.quantize_static).parameters
    assert [n for n, p in own.items() if p.kind is not p.KEYWORD_ONLY] == list(theirs)
    for name, parameter in theirs.items():
        default = own[name].default
        assert str(getattr(default, "name", default)) == str(
            getattr(parameter.default, "name", parameter.default)
        ), name


def test_every_extra_option_is_known_or_refused(call):
    with pytest.raises(Unsupported, match=r"extra_options\['Nothing'\]"):
        call(extra_options={"Nothing": 1})
    with pytest.raises(Unsupported, match="SmoothQuant"):
        call(extra_options={"SmoothQuant": True})
    harmless = {"WeightSymmetric": True, "SmoothQuant": False, "TensorQuantOverrides": {}}
    assert call(extra_options=harmless).summary["quantized"]["Conv"] == 2


@pytest.mark.parametrize("enums", [original, onnxptq.ort])
def test_a_call(call, case, enums):
    result = call(
        activation_type=enums.QuantType.QUInt8,
        weight_type=enums.QuantType.QInt8,
        quant_format=enums.QuantFormat.QDQ,
        calibrate_method=enums.CalibrationMethod.Entropy,
        per_channel=True,
        nodes_to_exclude=["conv2"],
    )
    assert result.report["target"] == "onnxruntime" and result.method == "entropy"
    assert {row.type for row in result.ranges.values()} == {"uint8"}
    found = {d.name: d.decision for d in result.plan}
    assert (found["conv1"], found["conv2"]) == ("quantized", "excluded")
    harness.session(onnx.load(result.path), case.run_libs)


def test_defaults(call):
    result = call()
    assert result.method == "max" and {r.type for r in result.ranges.values()} == {"int8"}


def test_a_proto_and_percentiles(call, case):
    result = call(
        model_input=case.model,
        calibrate_method=CalibrationMethod.Percentile,
        extra_options={"CalibPercentile": 99.5},
    )
    assert result.report["percentile"] == 99.5
    assert case.edges("onnxruntime").keys() == qdq.View(result.model).edges().keys()


def test_names_are_exact(call):
    with pytest.warns(UserWarning, match="nodes_to_exclude.*'conv'"):
        result = call(nodes_to_exclude=["conv", "conv1"])
    found = {d.name: d.decision for d in result.plan}
    assert (found["conv1"], found["conv2"]) == ("excluded", "quantized")
    with pytest.warns(UserWarning):
        assert call(nodes_to_exclude=["conv."]).summary["quantized"]["Conv"] == 2


def test_types(call):
    assert call(op_types_to_quantize=["Conv"]).summary["quantized"]["Conv"] == 2
    with pytest.warns(UserWarning), pytest.raises(onnxptq.Error, match="op_types_to_quantize"):
        call(op_types_to_quantize=["LSTM"])


def test_a_cache_is_made_and_used(call, bench):
    cache = bench.folder / "ranges.json"
    first = call(calibration_cache_path=cache)
    assert cache.exists()
    again = call(calibration_cache_path=cache, calibration_data_reader=None)
    assert again.ranges == first.ranges


def test_external_data(call, bench):
    call(use_external_data_format=True)
    assert harness.files_in(bench.out) == ["q.onnx", "q.onnx.data"]


@pytest.mark.parametrize(
    "name, value",
    [
        ("quant_format", QuantFormat.QOperator),
        ("reduce_range", True),
        ("weight_type", QuantType.QUInt8),
        ("activation_type", original.QuantType.QInt4),
        ("calibrate_method", CalibrationMethod.Distribution),
    ],
)
def test_what_is_not_done_raises_with_its_name(call, bench, name, value):
    with pytest.raises(Unsupported) as caught:
        call(**{name: value})
    assert caught.value.parameter == name and harness.files_in(bench.out) == []
