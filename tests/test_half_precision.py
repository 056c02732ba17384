"""float16 models: scales in the model's own type, opset 19, values small and large."""

import numpy as np
import onnx
import pytest
from harness import TARGETS, run_model, sqnr_db
from models import Case
from onnx import TensorProto, helper, numpy_helper
from qdq import View

HALF = np.float16


def half_model(opset, factor):
    """Conv, Relu, Mul by `factor`, Transpose, Reshape, MatMul; all float16."""
    rng = np.random.default_rng(4)
    constants = {
        "w1": (rng.standard_normal((32, 4, 3, 3)) * 0.3).astype(HALF),
        "b1": rng.standard_normal(32).astype(HALF),
        "factor": np.array(factor, HALF),
        "rows": np.array([4, -1, 32], np.int64),
        "w2": (rng.standard_normal((32, 16)) * 0.3).astype(HALF),
    }
    nodes = [
        helper.make_node("Conv", ["X", "w1", "b1"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "factor"], ["m"], "mul"),
        helper.make_node("Transpose", ["m"], ["t"], "transpose", perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["t", "rows"], ["q"], "reshape"),
        helper.make_node("MatMul", ["q", "w2"], ["Y"], "matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT16, [4, 4, 8, 8])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT16, [4, 64, 16])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    data = {"X": rng.standard_normal((32, 4, 8, 8)).astype(HALF)}
    return Case(model, data, {"conv": {0, 1}, "matmul": {0, 1}})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "opset, factor, least_db",
    [(13, 1.0, 30), (17, 1.0, 30), (19, 1.0, 30), (17, 1e-6, 20), (17, 4000.0, 30)],
)
def test_float16_model(bench, target, opset, factor, least_db):
    """The scale of values near 1e-6 underflows in float16; it becomes the smallest that there
    is. Values near 55000 are not clipped. microsoft/onnxruntime #15341."""
    case = half_model(opset, factor)
    run = bench.quantize(case, target=target).ok()
    model = run.model
    onnx.checker.check_model(model, full_check=True)
    assert {i.version for i in model.opset_import if i.domain == ""} == {19}
    assert View(model).edges() == case.edges(target)
    for tensor in model.graph.initializer:
        if tensor.name.endswith("_scale"):
            scales = numpy_helper.to_array(tensor)
            assert scales.dtype == HALF and np.all(np.isfinite(scales)) and np.all(scales > 0)
    reference = [out["Y"] for out in run_model(case.model, case.feeds())]
    for optimize in (True, False):
        got = [out["Y"] for out in run_model(model, case.feeds(), optimize=optimize)]
        assert sqnr_db(reference, got) >= least_db
