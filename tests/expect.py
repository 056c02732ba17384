"""What every result of quantizing owes, in one call."""

import harness
import numpy as np
import onnx
import qdq

MIN_SQNR = 30.0  # of small graphs, where nothing special is said
WEIGHTED = {"Conv", "ConvTranspose", "Gemm", "MatMul"}


def quantized(bench, case, target, *args, edges=None, at_least=MIN_SQNR, gone=(), **options):
    """Quantizes a case: exactly the inputs of `edges` (the case's own by default) are quantized, the
    rest is as it was, the result passes ONNX's checker and is close with the runtime's
    optimizations on and off. `gone` names nodes that computed constants. Returns run and view."""
    run = bench.quantize(case, *args, target=target, **options).ok()
    wanted = case.edges(target) if edges is None else edges
    view = valid(run, case)
    assert view.all_edges() == wanted, view.all_edges()
    agrees_with_report(run, view)
    qdq.assert_rest_unchanged(case.model, run.model, gone)
    harness.assert_quality(case, run.model, at_least)
    return run, view


def valid(run, case):
    """The result is a valid model by itself, with the interface of the original."""
    model = run.model
    if not case.libs:
        onnx.checker.check_model(model, full_check=True)
    qdq.assert_well_formed(model)
    replaced = {i.name for i in case.model.graph.initializer}
    if case.model.ir_version >= 4:
        replaced -= {i.name for i in model.graph.initializer}
    assert list(model.graph.input) == [i for i in case.model.graph.input if i.name not in replaced]
    assert list(model.graph.output) == list(case.model.graph.output)
    return qdq.View(model)


def agrees_with_report(run, view):
    """Matrix operators that the report calls quantized are those that read int8."""
    reported = {
        n["name"] for n in run.json["nodes"] if n["decision"] == "quantized" and n["op"] in WEIGHTED
    }
    types = node_types(view)
    found = {n for n, e in view.all_edges().items() if types[n] in WEIGHTED and e == {0, 1}}
    assert reported == found, (sorted(reported), sorted(found))


def node_types(view):
    types = {name: node.op_type for name, node in view.nodes.items()}
    for body in view.bodies():
        types |= node_types(body)
    return types


def left_float(run, *names):
    """These nodes stayed float, and the report says why."""
    nodes = {n["name"]: n for n in run.json["nodes"]}
    for name in names:
        assert nodes[name]["decision"] == "float" and nodes[name]["reason"], nodes[name]


def unchanged(bench, case, target, *args, **options):
    """Nothing is left to quantize: the output is the model, and a note says so."""
    run = bench.quantize(case, *args, target=target, **options).ok()
    assert run.model == case.model
    notes = run.json["notes"]
    assert any("nothing is quantized" in note for note in notes), notes
    assert not any("opset raised" in note or "folded" in note for note in notes), notes
    assert all(o["exact"] for o in run.json["check"]["outputs"])
    return run


def weight_is_int8(view, node, index, value, axis):
    """Input `index` of a node is an int8 initializer of one scale per channel along `axis` (None: one
    in all), within half a step of `value`; nothing lies between the two but DequantizeLinear."""
    params = view.params(node, index)
    assert params.weight is not None and params.weight.dtype == np.int8
    assert params.weight.shape == value.shape and not params.zero_point.any()
    if axis is None:
        assert params.scale.size == 1
    else:
        assert params.scale.shape == (value.shape[axis],)
        assert params.axis % value.ndim == axis % value.ndim
    shape = [-1 if axis is not None and k == axis % value.ndim else 1 for k in range(value.ndim)]
    step = params.scale.reshape(shape) if params.scale.size > 1 else params.scale
    error = np.abs(qdq.dequantized(params) - value.astype(np.float32))
    assert np.all(error <= step * 0.5001), error.max()
    return params
