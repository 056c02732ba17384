"""If, Loop and Scan: captured tensors keep their names, the order stays valid, and matrix operators with
constant weights are quantized inside, with ranges over all executions.

microsoft/onnxruntime pull request #19421, #18748, #7300 and #18681, huggingface/optimum #1687."""

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, FLOAT, INT64, Graph, noise
from onnx import TensorProto, helper, numpy_helper

BOOL = TensorProto.BOOL

pytestmark = pytest.mark.runtime  # what bodies may hold changed from version to version


def info(name, shape=None, type=FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def node(op, inputs, output, name, **attributes):
    outputs = [output] if isinstance(output, str) else output
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def branches(then, otherwise, output="y"):
    """Bodies of an If; each of `then` and `otherwise` lists nodes, the last of which makes the
    result."""
    return {
        f"{key}_branch": helper.make_graph(nodes, key, [], [info(nodes[-1].output[0])])
        for key, nodes in (("then", then), ("else", otherwise))
    }


def both_ways(count):
    return np.arange(count) % 2 == 0


def body_of(view, name):
    """The body that holds the node `name`."""
    return next(body for body in view.bodies() if name in body.nodes)


def test_captured_result_of_a_convolution(bench, target):
    """The If comes after what it captures, which keeps its name and stays float."""
    g = Graph()
    c = g.conv(g.input("X", [1, 3, 6, 6]), "c", 3, 4, kernel=1, name="conv")
    then, otherwise = [node("Identity", [c], "a", "same")], [node("Neg", [c], "b", "neg")]
    g.node("If", [g.input("cond", [1], BOOL)], "Y", "if", **branches(then, otherwise))
    g.output("Y", [1, 4, 6, 6])
    data = {"X": noise(8, 3, 6, 6), "cond": both_ways(8)}
    case = models.Case(g.build(), data, {"conv": BOTH})
    run, view = expect.quantized(bench, case, target)
    assert view.nodes["conv"].output[0] == "c"
    assert [b.graph.node[0].input[0] for b in view.bodies()] == ["c", "c"]


def matmul_in_branches():
    """One weight for a product outside and one in each branch."""
    g = Graph()
    a = g.matmul(g.input("X", [1, 4, 8]), "a", 8, 8, "mm")
    w = "mm.weight"
    then = [node("MatMul", [a, w], "t", "mm_then")]
    otherwise = [node("MatMul", [a, w], "e", "mm_else"), node("Neg", ["e"], "n", "neg")]
    g.node("If", [g.input("cond", [1], BOOL)], "Y", "if", **branches(then, otherwise))
    g.output("Y", [1, 4, 8])
    edges = {"mm": BOTH, "mm_then": BOTH, "mm_else": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 8), "cond": both_ways(8)}, edges)


def test_weight_that_branches_capture(bench, target):
    case = matmul_in_branches()
    _, view = expect.quantized(bench, case, target)
    w = qdq.View(case.model).value("mm.weight")
    expect.weight_is_int8(view, "mm", 1, w, 1)
    for name in ("mm_then", "mm_else"):
        expect.weight_is_int8(body_of(view, name), name, 1, w, 1)


def test_excluded_in_a_body(bench, target):
    """Inner nodes are named like outer ones; the float weight stays for the one that reads it."""
    case = matmul_in_branches()
    edges = {"mm": BOTH, "mm_else": BOTH}
    _, view = expect.quantized(bench, case, target, "--exclude-nodes", "mm_then", edges=edges)
    assert list(body_of(view, "mm_then").nodes["mm_then"].input) == ["a", "mm.weight"]


@pytest.mark.parametrize("taken", ["both", "then", "else"])
def test_the_branch_that_calibration_never_took(bench, target, taken):
    """What it computes has no range, so its product stays float, and a note says so."""
    g = Graph()
    a = g.matmul(g.input("X", [1, 4, 8]), "a", 8, 8, "mm")
    w = "mm.weight"
    then = [node("Neg", [a], "p", "neg"), node("MatMul", ["p", w], "t", "mm_then")]
    otherwise = [node("Abs", [a], "q", "abs"), node("MatMul", ["q", w], "e", "mm_else")]
    g.node("If", [g.input("cond", [1], BOOL)], "Y", "if", **branches(then, otherwise))
    g.output("Y", [1, 4, 8])
    cond = both_ways(8) if taken == "both" else np.full(8, taken == "then")
    case = models.Case(g.build(), {"X": noise(8, 4, 8), "cond": cond})
    edges = {"mm": BOTH, "mm_then": BOTH, "mm_else": BOTH}
    never = {"then": "mm_else", "else": "mm_then"}.get(taken)
    edges.pop(never, None)
    run, view = expect.quantized(bench, case, target, edges=edges)
    if never:
        missing = {"mm_then": "'p'", "mm_else": "'q'"}[never]
        assert any(missing in note for note in run.json["notes"]), run.json["notes"]
        assert body_of(view, never).nodes[never].input[1] == w


def loop(weight_inside):
    """Three steps of s = 1.5 s W."""
    g = Graph()
    w = np.linalg.qr(noise(8, 8, seed=5))[0]
    inside = [numpy_helper.from_array(w, "W")] if weight_inside else []
    if not weight_inside:
        g.const("W", w)
    body = helper.make_graph(
        [
            node("MatMul", ["s", "W"], "m", "mm"),
            node("Mul", ["m", "gain"], "s_out", "grow"),
            node("Identity", ["going"], "go_on", "same"),
        ],
        "body",
        [info("i", [], INT64), info("going", [], BOOL), info("s", [4, 8])],
        [info("go_on", [], BOOL), info("s_out", [4, 8]), info("m", [4, 8])],
        inside + [numpy_helper.from_array(np.float32(1.5), "gain")],
    )
    steps = g.const("steps", np.array(3))
    g.node("Loop", [steps, "", g.input("X", [4, 8])], ["last", "all"], "loop", body=body)
    g.node("Relu", ["last"], "Y", "relu")
    g.output("Y", [4, 8])
    g.output("all", [3, 4, 8])
    return models.Case(g.build(), {"X": noise(12, 8)}, {"mm": BOTH}), w


@pytest.mark.parametrize("weight_inside", [True, False])
def test_loop(bench, target, weight_inside):
    """The range of what the body reads is that of all its executions."""
    case, w = loop(weight_inside)
    _, view = expect.quantized(
        bench, case, target, "--method", "max", at_least=20
    )  # three roundings, one range
    expect.weight_is_int8(body_of(view, "mm"), "mm", 1, w, 1)
    state, low, high = case.data["X"], 0.0, 0.0
    for _ in range(3):
        low, high = min(low, float(state.min())), max(high, float(state.max()))
        state = state @ w * 1.5
    params = body_of(view, "mm").params("mm", 0)
    if target == "tensorrt":
        assert params.scale == pytest.approx(max(-low, high) / 127, rel=1e-4)
    else:
        assert params.scale == pytest.approx((high - low) / 255, rel=1e-4)


def test_scan(bench, target):
    """A recurrent network as a Scan: Gemm and MatMul in the body."""
    g = Graph()
    body = helper.make_graph(
        [
            node("Gemm", ["x", "Wx", "b"], "g", "gemm", transB=1),
            node("MatMul", ["h", "Wh"], "m", "mm"),
            node("Add", ["g", "m"], "a", "add"),
            node("Tanh", ["a"], "h_out", "tanh"),
            node("Identity", ["h_out"], "y", "same"),
        ],
        "body",
        [info("h", [4, 16]), info("x", [4, 8])],
        [info("h_out", [4, 16]), info("y", [4, 16])],
    )
    g.weight("Wx", 16, 8)
    g.weight("Wh", 16, 16, std=0.2)
    g.weight("b", 16)
    x = g.node("Transpose", [g.input("X", [4, 5, 8])], "steps", "transpose", perm=[1, 0, 2])
    start = g.const("start", np.zeros((4, 16), np.float32))
    g.node("Scan", [start, x], ["h_last", "Y"], "scan", body=body, num_scan_inputs=1)
    g.output("h_last", [4, 16])
    g.output("Y", [5, 4, 16])
    case = models.Case(g.build(), {"X": noise(32, 5, 8)}, {"gemm": BOTH, "mm": BOTH})
    expect.quantized(bench, case, target)


def test_convolution_in_a_body_in_a_body(bench, target):
    """A Loop in a branch of an If; the weight is captured through both."""
    g = Graph()
    x = g.conv(g.input("X", [1, 4, 6, 6]), "c", 4, 4, name="outer")
    g.weight("w", 4, 4, 3, 3, std=0.15)
    body = helper.make_graph(
        [
            node("Conv", ["s", "w"], "d", "inner", pads=[1] * 4),
            node("Add", ["d", x], "s_out", "add"),
            node("Identity", ["going"], "go_on", "same"),
        ],
        "body",
        [info("i", [], INT64), info("going", [], BOOL), info("s")],
        [info("go_on", [], BOOL), info("s_out")],
    )
    g.const("steps", np.array(2))
    then = [node("Loop", ["steps", "", x], "l", "loop", body=body)]
    otherwise = [node("Neg", [x], "n", "neg")]
    g.node("If", [g.input("cond", [1], BOOL)], "Y", "if", **branches(then, otherwise))
    g.output("Y", [1, 4, 6, 6])
    data = {"X": noise(8, 4, 6, 6), "cond": both_ways(8)}
    tensorrt = {"outer": BOTH, "inner": BOTH}
    case = models.Case(g.build(), data, tensorrt, {**tensorrt, "add": {0}})
    expect.quantized(bench, case, target, at_least=25)


@pytest.mark.parametrize("captured", [True, False])
def test_hidden_weight_in_a_body(bench, target, captured):
    """Behind nodes of the body, which read a constant of their own or one from outside."""
    g = Graph()
    w = noise(8, 16, seed=5, scale=0.3)
    transposed = numpy_helper.from_array(w.T.copy(), "init")
    then = [node("Constant", [], "init", "make", value=transposed)]
    if captured:
        g.const("init", w.T.copy())
        then = []
    then += [
        node("Transpose", ["init"], "w", "transpose", perm=[1, 0]),
        node("MatMul", [g.input("X", [4, 8]), "w"], "t", "mm"),
    ]
    g.const("half", np.float32(0.5))
    otherwise = [
        node("Concat", ["X", "X"], "c", "concat", axis=1),
        node("Mul", ["c", "half"], "n", "mul"),
    ]
    g.node("If", [g.const("yes", np.array(True))], "Y", "if", **branches(then, otherwise))
    g.output("Y", [4, 16])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm": BOTH})
    run = bench.quantize(case, target=target).ok()
    view = expect.valid(run, case)
    assert view.all_edges() == case.edges(target)
    expect.weight_is_int8(body_of(view, "mm"), "mm", 1, w, 1)
    inside = {n.op_type for n in body_of(view, "mm").graph.node}
    assert not {"Transpose", "Constant"} & inside
    harness.assert_quality(case, run.model)


def test_a_body_that_is_quantized_in_part(bench, target):
    """A pair of the user's own around one product, nothing around the other."""
    g = Graph()
    g.const("s", np.float32(0.05))
    g.const("z", np.int8(0))
    g.weight("w1", 8, 8)
    g.weight("w2", 8, 8)
    then = [
        node("QuantizeLinear", [g.input("X", [4, 8]), "s", "z"], "q", "quantize"),
        node("DequantizeLinear", ["q", "s", "z"], "d", "dequantize"),
        node("MatMul", ["d", "w1"], "a", "mm1"),
        node("Relu", ["a"], "r", "relu"),
        node("MatMul", ["r", "w2"], "t", "mm2"),
    ]
    otherwise = [node("Neg", ["X"], "n", "neg")]
    g.node("If", [g.const("yes", np.array(True))], "Y", "if", **branches(then, otherwise))
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm1": BOTH, "mm2": BOTH})
    _, view = expect.quantized(bench, case, target, at_least=25)
    assert body_of(view, "mm1").params("mm1", 0).scale == np.float32(0.05)


def test_sequences_and_optionals(bench, target):
    """They are not tensors; what is taken out of them is one again."""
    g = Graph()
    x = g.input("X", [4, 8])
    m = g.matmul(x, "m", 8, 8, "mm1")
    s = g.node("SequenceConstruct", [x, m], "s", "construct")
    t = g.node("SequenceAt", [s, g.const("one", np.array(1))], "t", "at")
    o = g.node("Optional", [t], "o", "optional")
    e = g.node("OptionalGetElement", [o], "e", "get")
    g.matmul(e, "Y", 8, 8, "mm2")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm1": BOTH, "mm2": BOTH})
    expect.quantized(bench, case, target, at_least=25)


def test_strings(bench, target):
    """A string tensor beside the network, as tokenizers and label maps have."""
    g = Graph()
    m = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    g.node("ArgMax", [m], "best", "argmax", axis=1, keepdims=0)
    labels = helper.make_tensor("labels", TensorProto.STRING, [8], [b"l%d" % k for k in range(8)])
    g.initializers.append(labels)
    g.node("Gather", ["labels", "best"], "label", "gather")
    g.node("Identity", ["m"], "Y", "same")
    g.output("Y", [4, 8])
    g.output("label", [4], TensorProto.STRING)
    data = {"X": np.tile(np.eye(8, dtype=np.float32) * 4, (4, 1))}
    case = models.Case(g.build(), data, {"mm": BOTH})
    run = bench.quantize(case, target=target).ok()
    assert expect.valid(run, case).edges() == {"mm": BOTH}
    qdq.assert_rest_unchanged(case.model, run.model)
    assert harness.run_model(run.model, case.feeds())[0]["label"].dtype == object
