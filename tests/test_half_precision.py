"""float16 models: scales in the model's own type, opset 19, values small and large."""

import numpy as np
import onnx
import pytest
from harness import TARGETS, compare, run_model, sqnr_db
from models import Case, Graph, noise
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


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "weights, biases, data", [(0.3, 3, 0.1), (0.1, 5, 0.5), (0.02, 3, 0.5), (0.3, 1e-6, 1)]
)
def test_float16_biases(bench, target, weights, biases, data):
    """The runtime's optimizer divides a float bias by the product of two scales, in half precision: 3 / (0.003 * 0.003)
    is no float16. For `onnxruntime` it finds an int32 bias instead, which is the bias to the bit."""
    g = Graph(opset=19, ir=9)
    x = g.input("X", [1, 8, 8, 8], TensorProto.FLOAT16)
    for name, out in (("conv1", "c1"), ("conv2", "Y")):
        w = g.const(f"{name}.w", noise(8, 8, 1, 1, scale=weights).astype(HALF))
        b = noise(8, scale=biases).astype(HALF)
        b[3] = 0
        x = g.node("Conv", [x, w, g.const(f"{name}.b", b)], out, name)
    g.output("Y", [1, 8, 8, 8], TensorProto.FLOAT16)
    case = Case(g.build(), {"X": noise(16, 8, 8, 8, scale=data).astype(HALF)}, {})
    run = bench.quantize(case, target=target).ok()
    onnx.checker.check_model(run.model, full_check=True)
    view = View(run.model)
    for name in ("conv1", "conv2"):
        tensor = view.nodes[name].input[2]
        if target == "tensorrt":
            assert tensor == f"{name}.b"
            continue
        dequantizer = view.dequantizer(tensor)
        codes, scales = (view.value(t) for t in dequantizer.input)
        assert codes.dtype == np.int32 and scales.dtype == HALF
        exact = codes.astype(np.float64) * scales.astype(np.float64)
        np.testing.assert_array_equal(
            exact, numpy_helper.to_array(initializer(case.model, f"{name}.b"))
        )
    for optimize in (True, False) if target == "onnxruntime" else (False,):
        assert compare(case, run.model, optimize)["Y"] > 28
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 28


def initializer(model, name):
    return next(i for i in model.graph.initializer if i.name == name)
