"""The tests' own models: each runs in ONNX Runtime with its libraries before anything is
quantized."""

import numpy as np
import onnx
import pytest

import harness
import models


@pytest.mark.parametrize("name", models.ALL)
def test_float_model_runs(name):
    case = models.ALL[name]()
    declared = {
        o.name: [d.dim_value for d in o.type.tensor_type.shape.dim] for o in case.model.graph.output
    }
    for outputs in harness.run_model(case.model, case.feeds(), case.run_libs):
        for output, value in outputs.items():
            assert value.size and np.all(np.isfinite(value))
            assert all(
                want in (0, got) for want, got in zip(declared[output], value.shape, strict=True)
            )


@pytest.mark.parametrize("name", models.STANDARD)
def test_standard_model_passes_the_checker(name):
    onnx.checker.check_model(models.STANDARD[name]().model, full_check=True)


def test_shape_inference_stops_at_the_foreign_operator():
    """What the tool must get by without."""
    inferred = onnx.shape_inference.infer_shapes(models.motivating().model)
    assert {v.name for v in inferred.graph.value_info} == {"c1", "r1"}
