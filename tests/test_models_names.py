"""Names: taken, empty, repeated, and the patterns that choose by them.

microsoft/onnxruntime #24705, #8811, #12556 and #19503, huggingface/optimum #1418."""

from collections import Counter

import expect
import harness
import models
import numpy as np
import pytest
import qdq
from models import BOTH, FLOAT, Graph, noise
from onnx import helper, numpy_helper

TAKEN = [
    "b0",
    "b_quantized",
    "b_dequantized",
    "w1_quantized",
    "X_scale",
    "X_zero_point",
    "X_quantized",
    "X_QuantizeLinear_Output",
    "X_DequantizeLinear_Output",
    "X_ReduceMax",
]


def shared_bias(name):
    """Two convolutions with one bias; the tensor between them is called `name`."""
    g = Graph()
    x, b = g.input("X", [1, 4, 6, 6]), g.weight("b", 4)
    t = g.node("Conv", [x, g.weight("w1", 4, 4, 3, 3), b], name, "conv1", pads=[1] * 4)
    g.node("Conv", [t, g.weight("w2", 4, 4, 3, 3), b], "Y", "conv2", pads=[1] * 4)
    g.output("Y", [1, 4, 6, 6])
    edges = {"conv1": BOTH, "conv2": BOTH}
    return models.Case(g.build(), {"X": noise(8, 4, 6, 6)}, edges)


@pytest.mark.parametrize("name", TAKEN)
def test_tensor_names_that_quantizers_like(bench, target, name):
    expect.quantized(bench, shared_bias(name), target)


@pytest.mark.parametrize("name", ["X_QuantizeLinear", "X_DequantizeLinear", "w1_DequantizeLinear"])
def test_node_names_that_quantizers_like(bench, target, name):
    case = shared_bias("t")
    case.model.graph.node[1].name = name
    expect.quantized(bench, case, target, edges={"conv1": BOTH, name: BOTH})


@pytest.mark.parametrize("name", ["a b", "ü/名前", "x" * 3000, "X:0", "-o", '"quoted"', "100%s%n"])
def test_names_are_any_text(bench, target, name):
    case = shared_bias(name)
    case.model.graph.node[0].name = name
    expect.quantized(bench, case, target, edges={name: BOTH, "conv2": BOTH})


def chain(*names):
    """Three MatMul in a row."""
    g = Graph()
    x = g.input("X", [4, 8])
    for k, name in enumerate(names):
        w = g.weight(f"w{k}", 8, 8, std=8**-0.5)
        x = g.node("MatMul", [x, w], "Y" if k == 2 else f"t{k}", "filler")
        g.nodes[-1].name = name
    g.output("Y", [4, 8])
    return models.Case(g.build(), {"X": noise(32, 8)})


def quantized_weights(run):
    """Which of the three weights became int8: it says so whatever the nodes are called."""
    view = qdq.View(run.model)
    return [k for k in range(3) if f"w{k}" not in view.initializers]


@pytest.mark.parametrize("names", [("", "", ""), ("n1", "", "n3")], ids=str)
def test_empty_names(bench, target, names):
    """All three are quantized, and no name of the tool's own repeats or equals one of theirs."""
    case = chain(*names)
    run = bench.quantize(case, target=target).ok()
    assert quantized_weights(run) == [0, 1, 2]
    products = [n for n in run.model.graph.node if n.op_type == "MatMul"]
    assert [n.name for n in products] == list(names)
    added = Counter(n.name for n in run.model.graph.node if qdq.is_pair(n))
    assert set(added.values()) == {1} and not set(added) & set(names)
    harness.assert_quality(case, run.model, 25)


def test_constants_of_one_name(bench, target):
    """Which the runtime takes, unlike other nodes: as an exporter has it that calls every one "anon"."""
    g = Graph()
    x = g.input("X", [4, 8])
    for k in range(2):
        w = numpy_helper.from_array(noise(8, 8, seed=k, scale=0.3))
        g.node("Constant", [], f"w{k}", "anon", value=w)
        x = g.node("MatMul", [x, f"w{k}"], "Y" if k else "t", f"mm{k}")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"mm0": BOTH, "mm1": BOTH})
    run = bench.quantize(case, target=target).ok()
    assert expect.valid(run, case).edges() == case.edges(target)
    assert [n.op_type for n in run.model.graph.node if n.name == "anon"] == []
    harness.assert_quality(case, run.model, 25)


@pytest.mark.parametrize("names", [("same", "same", "same"), ("same", "", "same")], ids=str)
def test_repeated_names_are_refused_as_the_runtime_does(bench, target, names):
    """No version of the runtime loads such a model; the message says which name."""
    with pytest.raises(Exception, match="same"):
        harness.session(chain(*names).model)
    bench.quantize(chain(*names), target=target).failed("cannot", "same")
    assert harness.files_in(bench.out) == []


def test_a_name_repeated_in_a_body(bench, target):
    """That the runtime takes; a pattern means all of them, and generated names repeat none."""
    g = Graph()
    x = g.matmul(g.input("X", [4, 8]), "a", 8, 8, "mm")
    branches = {}
    for key in ("then_branch", "else_branch"):
        node = helper.make_node("MatMul", [x, "mm.weight"], [f"{key}.y"], name="mm")
        out = helper.make_tensor_value_info(f"{key}.y", FLOAT, None)
        branches[key] = helper.make_graph([node], key, [], [out])
    g.node("If", [g.const("yes", np.array(True))], "Y", "if", **branches)
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)})
    run = bench.quantize(case, "--exclude-nodes", "mm", target=target).ok()
    assert "mm.weight" in qdq.View(run.model).initializers
    run = bench.quantize(case, "--force", target=target).ok()
    assert "mm.weight" not in qdq.View(run.model).initializers
    harness.assert_quality(case, run.model, 25)


@pytest.mark.parametrize(
    "names, exclude, left",
    [
        (("n1", "n2", "n3"), ["n2"], [0, 2]),
        (("n1", "n2", "n3"), ["n[23]"], [0]),
        (("n1", "n2", "n3"), ["n1", "n3"], [1]),
        (("n1", "n2", "n3"), ["n.*"], []),
        (("", "", ""), ["@t0"], [1, 2]),
        (("", "", ""), ["@.*"], []),
        (("", "n2", ""), ["@Y"], [0, 1]),
        (("a.b", "axb", "n3"), [r"a\.b"], [1, 2]),
    ],
    ids=str,
)
def test_exclusion(bench, target, names, exclude, left):
    """By whole name or regular expression; an unnamed node is @ and its first output."""
    case = chain(*names)
    args = [word for pattern in exclude for word in ("--exclude-nodes", pattern)]
    run = bench.quantize(case, *args, target=target).ok()
    assert quantized_weights(run) == left
    decisions = [n["decision"] for n in run.json["nodes"] if n["op"] == "MatMul"]
    assert [k for k in range(3) if decisions[k] == "quantized"] == left
    assert [k for k in range(3) if decisions[k] == "excluded"] == sorted({0, 1, 2} - set(left))


@pytest.mark.parametrize(
    "option, pattern, nearest",
    [
        ("--exclude-nodes", "n22", "n2"),
        ("--exclude-nodes", "", "empty"),
        ("--exclude-nodes", "n", "n1"),
        ("--nodes", "m1", "n1"),
        ("--exclude-op-types", "Matmul", "MatMul"),
        ("--op-types", "Conv", ""),
    ],
)
def test_a_pattern_that_matches_nothing_is_an_error(bench, option, pattern, nearest):
    """With the nearest names, since a typo is the likeliest cause."""
    run = bench.quantize(chain("n1", "n2", "n3"), option, pattern)
    run.failed(pattern, nearest, code=2)
    assert harness.files_in(bench.out) == []


def test_gemm_keeps_its_name_and_its_exclusion(bench, target):
    """Some split it into MatMul and Add, and the exclusion is lost on the way."""
    g = Graph()
    x = g.input("X", [4, 8])
    x = g.node("Gemm", [x, g.weight("w1", 8, 8), g.weight("b1", 8)], "h", "gemm1")
    x = g.node("Relu", [x], "r", "relu")
    g.node("Gemm", [x, g.weight("w2", 8, 8), g.weight("b2", 8)], "Y", "gemm2")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {"gemm2": BOTH})
    _, view = expect.quantized(bench, case, target, "--exclude-nodes", "gemm1")
    assert {"w1", "b1"} <= set(view.initializers)
    assert np.array_equal(view.value("w1"), qdq.View(case.model).value("w1"))


def test_an_equal_initializer_listed_twice(bench, target):
    """The runtime takes such a model and warns; one of them is kept."""
    case = models.two_convolutions()
    graph = case.model.graph
    weight = next(i for i in graph.initializer if i.name == "conv1.weight")
    graph.initializer.append(weight)
    run, _ = expect.quantized(bench, case, target)
    assert any("'conv1.weight' is listed more than once" in note for note in run.json["notes"])
    names = [i.name for i in run.model.graph.initializer]
    assert len(names) == len(set(names)) and "conv1.weight" not in names
