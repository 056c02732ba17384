"""Preparing a model: constants behind weights are evaluated, others stay."""

import numpy as np
import onnx
import pytest
from models import FLOAT, Graph, noise
from onnx import TensorProto, helper, numpy_helper
from preparation import (
    all_nodes,
    assert_same,
    assert_unchanged,
    bodies,
    call,
    constant,
    function,
    prepare,
    run_tool,
    with_functions,
)

WEIGHT = noise(8, 16, seed=3)


def sparse(array):
    flat = array.reshape(-1)
    at = np.flatnonzero(flat)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(flat[at]),
        numpy_helper.from_array(at.astype(np.int64)),
        array.shape,
    )


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def f32(name, array):
    return numpy_helper.from_array(array, name)


SPARSE = np.where(np.abs(WEIGHT) > 0.7, WEIGHT, 0).astype(np.float32)
# {name: (nodes, initializers, the weight)}
BEHIND = {
    "constant_floats_reshaped": (
        [
            constant("flat", value_floats=WEIGHT.reshape(-1).tolist()),
            constant("shape", value_ints=[8, 16]),
            helper.make_node("Reshape", ["flat", "shape"], ["w"], "reshape"),
        ],
        [],
        WEIGHT,
    ),
    "constant_sparse": (
        [helper.make_node("Constant", [], ["w"], "sparse", sparse_value=sparse(SPARSE))],
        [],
        SPARSE,
    ),
    "transpose": (
        [helper.make_node("Transpose", ["wt"], ["w"], "transpose", perm=[1, 0])],
        [f32("wt", np.ascontiguousarray(WEIGHT.T))],
        WEIGHT,
    ),
    "reshape": (
        [helper.make_node("Reshape", ["flat", "shape"], ["w"], "reshape")],
        [f32("flat", WEIGHT.reshape(-1)), ints("shape", 8, 16)],
        WEIGHT,
    ),
    "squeeze_of_unsqueeze": (
        [
            helper.make_node("Unsqueeze", ["w0", "axes"], ["w1"], "unsqueeze"),
            helper.make_node("Squeeze", ["w1", "axes"], ["w"], "squeeze"),
        ],
        [f32("w0", WEIGHT), ints("axes", 0)],
        WEIGHT,
    ),
    "cast_of_half": (
        [helper.make_node("Cast", ["w16"], ["w"], "cast", to=FLOAT)],
        [f32("w16", WEIGHT.astype(np.float16))],
        WEIGHT.astype(np.float16).astype(np.float32),
    ),
    "cast_of_bfloat16": (
        [helper.make_node("Cast", ["wb"], ["w"], "cast", to=FLOAT)],
        [helper.make_tensor("wb", TensorProto.BFLOAT16, [8, 16], WEIGHT.reshape(-1).tolist())],
        None,
    ),
    "concat_of_identity": (
        [
            helper.make_node("Identity", ["top"], ["t"], "identity"),
            helper.make_node("Concat", ["t", "bottom"], ["w"], "concat", axis=0),
        ],
        [f32("top", WEIGHT[:3]), f32("bottom", WEIGHT[3:])],
        WEIGHT,
    ),
    "constant_of_shape": (
        [
            helper.make_node(
                "ConstantOfShape",
                ["shape"],
                ["w"],
                "fill",
                value=numpy_helper.from_array(np.array([0.25], np.float32)),
            )
        ],
        [ints("shape", 8, 16)],
        np.full((8, 16), 0.25, np.float32),
    ),
    "arithmetic": (
        [
            helper.make_node("Mul", ["w0", "half"], ["w1"], "mul"),
            helper.make_node("Dropout", ["w1"], ["w"], "dropout"),
        ],
        [f32("w0", WEIGHT), f32("half", np.array(0.5, np.float32))],
        WEIGHT * np.float32(0.5),
    ),
}


def behind(name):
    nodes, initializers, _ = BEHIND[name]
    g = Graph()
    g.nodes.extend(nodes)
    g.initializers.extend(initializers)
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "m", "mm")
    g.node("Relu", ["m"], "Y", "relu")
    g.output("Y", [4, 16])
    return g


@pytest.mark.parametrize("name", BEHIND)
def test_constants_behind_a_weight_are_evaluated(tmp_path, name):
    """openvinotoolkit/nncf PR #1917, microsoft/onnxruntime #13358."""
    model = behind(name).build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul", "Relu"]
    assert list(prepared.initializers()) == ["w"]
    weight = BEHIND[name][2]
    if weight is not None:
        assert np.array_equal(prepared.initializers()["w"], weight)
    assert prepared.noted("1 constant")
    assert_same(model, prepared.model)


@pytest.mark.parametrize("value", [{"value": numpy_helper.from_array(WEIGHT)}, None])
def test_what_later_stages_see_through_is_left_alone(tmp_path, value):
    """A Constant node, an Identity of an initializer: the edit would buy nothing."""
    g = Graph()
    if value:
        g.nodes.append(constant("w", **value))
    else:
        g.node("Identity", [g.const("w0", WEIGHT)], "w", "identity")
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_a_sparse_initializer_becomes_a_weight(tmp_path):
    g = Graph()
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    tensor = sparse(SPARSE)
    tensor.values.name = "w"
    model.graph.sparse_initializer.append(tensor)
    prepared = prepare(model, tmp_path)
    assert not prepared.model.graph.sparse_initializer
    assert np.array_equal(prepared.initializers()["w"], SPARSE)
    assert_same(model, prepared.model)


def test_nodes_that_others_read_stay(tmp_path):
    """Only the edge of the MatMul changes."""
    g = behind("transpose")
    g.node("Add", ["w", "wt2"], "Z", "add")
    g.initializers.append(f32("wt2", WEIGHT))
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    (weight,) = set(prepared.initializers()) - {"wt", "wt2"}
    assert list(prepared.node("mm").input) == ["X", weight]
    assert np.array_equal(prepared.initializers()[weight], WEIGHT)
    assert_same(model, prepared.model)


def test_a_constant_that_is_an_output_stays(tmp_path):
    g = behind("transpose")
    g.output("w", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model)


def test_pieces_of_one_tensor(tmp_path):
    """One result of a Split is a weight, the other is read by something else."""
    g = Graph()
    pieces = g.node(
        "Split", [g.const("both", np.vstack([WEIGHT, WEIGHT * 2]))], ["w", "v"], "split"
    )
    assert pieces == "w"
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.node("Neg", ["v"], "Z", "neg")
    g.output("Y", [4, 16])
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model)


def test_every_parameter_of_weighted_operators(tmp_path):
    """Bias and weight of Conv, C of Gemm, bias of a MatMul, bounds of a Clip."""
    g = Graph()
    x = g.input("X", [1, 3, 4, 4])

    def twice(name, array):
        g.const(f"{name}.half", array)
        return g.node("Add", [f"{name}.half", f"{name}.half"], name, f"add.{name}")

    weight = twice("w1", noise(4, 3, 1, 1))
    c = g.node("Conv", [x, weight, twice("b1", noise(4))], "c", "conv")
    low = twice("low", np.array(-0.5, np.float32))
    c = g.node("Clip", [c, low, twice("high", np.array(0.5, np.float32))], "clipped", "clip")
    shape = g.const("shape", np.array([4, 16], np.int64))
    r = g.node("Reshape", [c, shape], "r", "reshape")
    r = g.node("Gemm", [r, twice("w2", noise(16, 8)), twice("c2", noise(1, 8))], "g", "gemm")
    r = g.node("MatMul", [r, twice("w3", noise(8, 8))], "m", "mm")
    g.node("Add", [twice("b3", noise(8)), r], "Y", "bias")
    g.output("Y", [4, 8])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["Conv", "Clip", "Reshape", "Gemm", "MatMul", "Add"]
    assert set(prepared.initializers()) == {
        "w1", "b1", "low", "high", "shape", "w2", "c2", "w3", "b3",
    }  # fmt: skip
    assert_same(model, prepared.model)


def test_constants_of_other_nodes_stay(tmp_path):
    g = Graph()
    x = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    k = g.node("Neg", [g.weight("k", 8)], "nk", "neg")
    g.node("Mul", [x, k], "Y", "mul")
    g.output("Y", [4, 8])
    model = g.build()
    assert prepare(model, tmp_path).model == model


@pytest.mark.parametrize("excluded", ["mm", "transpose"])
def test_an_excluded_node_keeps_its_constants(tmp_path, excluded):
    """Nor is a node evaluated away that the user names."""
    model = behind("transpose").build()
    assert prepare(model, tmp_path, "--exclude", excluded).model == model


def test_foreign_operators_are_never_evaluated(tmp_path):
    """Not even on constants alone, and nothing behind them either."""
    g = Graph(my_dot_ops=1)
    w = g.node("ScaleBy2", [g.const("w0", WEIGHT)], "w1", "scale", "my.ops")
    w = g.node("Identity", [w], "w", "identity")
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    prepared = prepare(model, tmp_path, libs=["scaleby2"])
    assert prepared.model == model


def test_a_constant_that_a_foreign_operator_reads_too_stays_for_it(tmp_path):
    g = behind("transpose")
    g.domains["my.ops"] = 1
    g.node("ScaleBy2", ["w"], "Z", "scale", "my.ops")
    g.output("Z", [8, 16])
    model = g.build()
    prepared = prepare(model, tmp_path, libs=["scaleby2"])
    assert_unchanged(model, prepared, "mm")
    assert_same(model, prepared.model, ["scaleby2"])


def test_a_quantized_weight_is_left_alone(tmp_path):
    g = Graph()
    g.const("q", np.arange(-64, 64, dtype=np.int8).reshape(16, 8))
    g.const("s", np.array(0.02, np.float32))
    g.node("DequantizeLinear", ["q", "s"], "d", "dq")
    g.node("Transpose", ["d"], "w", "transpose", perm=[1, 0])
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_random_numbers_are_no_constants(tmp_path):
    g = Graph()
    g.node("RandomNormal", [], "r", "random", shape=[8, 16], seed=1.0)
    g.node("Neg", ["r"], "w", "neg")
    g.node("MatMul", [g.input("X", [4, 8]), "w"], "Y", "mm")
    g.output("Y", [4, 16])
    model = g.build()
    assert prepare(model, tmp_path).model == model


def test_constants_inside_bodies(tmp_path):
    """The weight's source lies outside, the Transpose inside, in one branch it has a name of its own."""
    g = Graph()
    x, c = g.input("X", [4, 8]), g.input("c", [], TensorProto.BOOL)
    g.const("wt", np.ascontiguousarray(WEIGHT.T))

    def branch(label, scale):
        nodes = [
            helper.make_node("Transpose", ["wt"], [f"w{label}"], f"t{label}", perm=[1, 0]),
            helper.make_node("MatMul", [x, f"w{label}"], [f"m{label}"], f"mm{label}"),
        ]
        value = helper.make_tensor_value_info(f"m{label}", FLOAT, [4, 16])
        return helper.make_graph(nodes, label, [], [value])

    g.node("If", [c], "Y", "if", then_branch=branch("a", 1), else_branch=branch("b", 2))
    g.output("Y", [4, 16])
    model = g.build()
    prepared = prepare(model, tmp_path)
    for body, label in zip(bodies(prepared.node("if")), "ba"):  # attributes are sorted by name
        assert [n.op_type for n in body.node] == ["MatMul"]
        assert [i.name for i in body.initializer] == [f"w{label}"]
    assert not prepared.model.graph.initializer
    for flag in (False, True):
        assert_same(model, prepared.model, feeds={"X": noise(4, 8), "c": np.array(flag)})


def test_a_pure_function_behind_a_weight_is_run(tmp_path):
    """As exporters write it: the transposition of a weight is a function of one node."""
    t = function("T", ["x"], ["y"], [helper.make_node("Transpose", ["x"], ["y"], "t", perm=[1, 0])])
    g = Graph(my_dot_fn=1)
    w = call(g, "T", [g.const("wt", np.ascontiguousarray(WEIGHT.T))], "w", "t")
    g.node("MatMul", [g.input("X", [4, 8]), w], "Y", "mm")
    g.output("Y", [4, 16])
    model = with_functions(g, t)
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul"]
    assert np.array_equal(prepared.initializers()["w"], WEIGHT)
    assert_same(model, prepared.model)


@pytest.mark.parametrize("ir", [3, 8])
def test_initializers_that_are_inputs_too(tmp_path, ir):
    """microsoft/onnxruntime-inference-examples #297. Up to IR 3 all are."""
    g = behind("transpose")
    g.ir = ir
    g.opset = 8 if ir == 3 else 17
    model = g.build()
    model.graph.input.append(helper.make_tensor_value_info("wt", FLOAT, [16, 8]))
    prepared = prepare(model, tmp_path)
    assert [i.name for i in prepared.model.graph.input] == ["X"]
    assert list(prepared.initializers()) == ["w"]
    assert prepared.model.ir_version == max(ir, 4)
    assert prepared.noted("IR version") == (ir == 3)
    assert_same(model, prepared.model)


def test_large_constants_do_not_pass_through_the_heap_at_once(tmp_path):
    """Eight weights of 8 MiB each, transposed: groups of a few."""
    g = Graph()
    x = g.input("X", [1, 1448])
    for k in range(8):
        g.const(f"t{k}", noise(1448, 1448, seed=k, scale=1448**-0.5))
        g.node("Transpose", [f"t{k}"], f"w{k}", f"transpose{k}", perm=[1, 0])
        x = g.node("MatMul", [x, f"w{k}"], f"m{k}", f"mm{k}")
    g.output(x, [1, 1448])
    model = g.build()
    prepared = prepare(model, tmp_path)
    assert prepared.types() == ["MatMul"] * 8
    for k in range(8):
        before = numpy_helper.to_array(model.graph.initializer[k])
        assert np.array_equal(prepared.initializers()[f"w{k}"], before.T)
    assert_same(model, prepared.model, rtol=1e-5)  # the runtime packs constant weights


def test_what_the_runtime_cannot_evaluate_stays(tmp_path):
    """An index out of range fails when it is run; the branch with it never is."""
    g = Graph()
    x, c = g.input("X", [4, 8]), g.input("c", [], TensorProto.BOOL)
    nodes = [
        helper.make_node("Gather", ["wt", "bad"], ["wg"], "gather"),
        helper.make_node("Transpose", ["wg"], ["wb"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", [x, "wb"], ["mb"], "mmb"),
    ]
    g.const("bad", np.full(16, 99, np.int64))
    g.const("wt", np.ascontiguousarray(WEIGHT.T))
    value = helper.make_tensor_value_info("mb", FLOAT, [4, 16])
    then = helper.make_graph(nodes, "then", [], [value])
    other = helper.make_graph(
        [
            helper.make_node("Transpose", ["wt"], ["w"], "t", perm=[1, 0]),
            helper.make_node("MatMul", [x, "w"], ["m"], "mm"),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("m", FLOAT, [4, 16])],
    )
    g.node("If", [c], "Y", "if", then_branch=then, else_branch=other)
    g.output("Y", [4, 16])
    model = g.build()
    done, after = run_tool(model, tmp_path)
    assert done.returncode == 0, done.stderr
    result = onnx.load(after)
    names = {n.name for n in all_nodes(result.graph)}
    assert names == {"if", "gather", "turn", "mmb", "mm"}
    assert "'wb' was not evaluated" in done.stdout
    assert_same(model, result, feeds={"X": noise(4, 8), "c": np.array(False)})
