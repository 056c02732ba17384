"""The rest in half precision: what is converted, what stays float32 and why, where Casts stand, and what it keeps."""

import harness
import models
import numpy as np
import onnx
import pytest
import qdq
import zoo
from models import BOTH, FLOAT, INT64, Graph, noise
from onnx import TensorProto, helper, numpy_helper

HALF, BFLOAT, BOOL = TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.BOOL
LEAST = 50  # dB

CASES = {
    "convolutions": models.two_convolutions,
    "batch norm": models.conv_bn_relu,
    "downsample": models.downsample_block,
    "residual": models.residual_block,
    "perceptron": models.mlp,
    "softmax": models.softmax_then_matmul,
    "layer norm": models.decomposed_layer_norm,
    "encoder": models.encoder_layer,
    "custom": models.motivating,
    "custom first": models.custom_first,
    "custom last": models.custom_last,
    "custom with types": models.mixed_types,
    "custom with a shape": models.data_dependent_shape,
}


def convert(bench, case, *args, precision="fp16", out="half.onnx"):
    model = bench.write_model(case.model)
    data = bench.write_data(case.data)
    libs = [word for name in case.libs for word in ("--custom-op-lib", harness.library(name))]
    path = bench.out / out
    words = ("-o", path, "--data", data, "--high-precision", precision, "--json")
    run = harness.run_cli("convert", model, *words, *libs, *args)
    run.path = path
    return run


def plan_of(run):
    """{node: (precision, rule)} of those that the plan speaks of."""
    nodes = run.json["nodes"]
    return {n["name"]: (n["precision"], n["precision_rule"]) for n in nodes if "precision" in n}


def casts(model, graph=None):
    """All Casts between float types, of all bodies: (node, graph)."""
    graph = graph or model.graph
    for node in graph.node:
        if (
            node.op_type == "Cast"
            and node.domain == ""
            and node.attribute[0].i in (FLOAT, HALF, BFLOAT)
        ):
            yield node, graph
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from casts(model, attribute.g)


def assert_no_idle_casts(model):
    """No Cast behind a Cast, none on a constant, one per tensor and type."""
    seen = set()
    made = {}
    for node, graph in casts(model):
        made[node.output[0]] = node
        constants = {i.name for i in graph.initializer}
        constants |= {o for n in graph.node if n.op_type == "Constant" for o in n.output}
        assert node.input[0] not in constants, f"{node.name} casts a constant"
        key = (node.input[0], node.attribute[0].i)
        assert key not in seen, f"{node.input[0]} is cast twice"
        seen.add(key)
    for node in made.values():
        assert node.input[0] not in made, f"{node.name} follows a Cast"


def types(model):
    """{tensor: element type} as ONNX infers them, of the main graph."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False)
    infos = [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
    found = {i.name: i.type.tensor_type.elem_type for i in infos}
    return found | {i.name: i.data_type for i in model.graph.initializer}


# What it keeps


@pytest.mark.parametrize("name", CASES)
def test_conversion_keeps_50_db(bench, name):
    case = CASES[name]()
    run = convert(bench, case).ok()
    onnx.checker.check_model(run.model)
    assert_no_idle_casts(run.model)
    for part in ("input", "output"):
        assert getattr(run.model.graph, part) == getattr(case.model.graph, part)
    for optimize in (True, False):
        for output, value in harness.compare(case, run.model, optimize).items():
            assert value >= LEAST, f"{output}: {value:.1f} dB"
    plan = plan_of(run)
    assert any(precision == "float16" for precision, _ in plan.values()) or name == "custom last"
    assert all(n["precision_reason"] for n in run.json["nodes"] if "precision" in n)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(m, id=str(m), marks=[pytest.mark.full] if m.file.startswith("common") else [])
        for m in zoo.MODELS
        if not m.quantized
    ],
)
def test_real_model(bench, model):
    path = bench.out / "half.onnx"
    data = bench.write_data(model.arrays(zoo.CALIBRATION))
    words = ("-o", path, "--data", data, "--high-precision", "fp16", "--json")
    run = harness.run_cli("convert", model.path, *words, timeout=240).ok()
    half = onnx.load(path)
    onnx.checker.check_model(half, full_check=True)
    assert_no_idle_casts(half)
    assert run.json["output_bytes"] < run.json["model_bytes"]
    for optimize in (True, False):
        quality = model.quality(harness.run_model(path, model.feeds(zoo.CHECK), optimize=optimize))
        for name, value in quality.items():
            assert value >= LEAST, f"{name}: {value:.1f} dB, optimize={optimize}"
    kept = [n for n in run.json["nodes"] if n.get("precision") == "float"]
    assert all(n["precision_reason"] for n in kept)
    assert any(n.get("precision") == "float16" for n in run.json["nodes"])


# Everything there is to convert


def test_all_of_a_convolutional_model_is_half(bench):
    case = models.two_convolutions()
    run = convert(bench, case).ok()
    assert set(plan_of(run).values()) == {("float16", "half")}
    assert {i.data_type for i in run.model.graph.initializer} == {HALF}
    assert {i.name for i in run.model.graph.initializer} == {
        i.name for i in case.model.graph.initializer
    }
    kinds = [n.op_type for n in run.model.graph.node]
    assert kinds[0] == kinds[-1] == "Cast" and kinds.count("Cast") == 2


def test_native_inputs_and_outputs(bench):
    case = models.two_convolutions()
    run = convert(bench, case, "--io-types", "native").ok()
    onnx.checker.check_model(run.model, full_check=True)
    assert not list(casts(run.model))
    for info in (*run.model.graph.input, *run.model.graph.output):
        assert info.type.tensor_type.elem_type == HALF
    feeds = [
        {name: value.astype(np.float16) for name, value in feed.items()} for feed in case.feeds()
    ]
    want = harness.run_model(case.model, case.feeds())
    have = harness.run_model(run.model, feeds)
    for name in want[0]:
        assert harness.sqnr_db([w[name] for w in want], [h[name] for h in have]) > LEAST
    assert run.json["check"]["outputs"][0]["sqnr_db"] > LEAST


@pytest.mark.parametrize("build", [models.two_convolutions, models.encoder_layer])
def test_bfloat16(bench, build):
    """A CPU has few kernels: nothing can be measured, and the report says so. In float32 the same model keeps what eight
    bits of mantissa do."""
    case = build()
    run = convert(bench, case, precision="bf16").ok()
    onnx.checker.check_model(run.model, full_check=True)
    assert_no_idle_casts(run.model)
    assert next(o.version for o in run.model.opset_import if o.domain == "") == 22
    weights = [i for i in run.model.graph.initializer if len(i.dims) > 1]
    assert weights and {i.data_type for i in weights} == {BFLOAT}
    assert any("not measured" in note for note in run.json["notes"])
    widened = onnx.ModelProto()
    widened.CopyFrom(run.model)
    for i in widened.graph.initializer:
        if i.data_type == BFLOAT:
            values = numpy_helper.to_array(i).astype(np.float32)
            i.CopyFrom(numpy_helper.from_array(values, i.name))
    for node, _ in casts(widened):
        node.attribute[0].i = FLOAT
    assert min(harness.compare(case, widened).values()) > 35


def test_integers_are_untouched(bench):
    """Shape arithmetic, indices, and floats that integers are made of."""
    g = Graph()
    x = g.input("X", [2, 3, 8])
    m = g.matmul(x, "m", 8, 8, "mm")
    sizes = g.node("Shape", [m], "sizes", "shape")
    floats = g.node("Cast", [sizes], "floats", "to_float", to=FLOAT)
    halved = g.node("Mul", [floats, g.const("by", np.float32([1, 1, 0.5]))], "halved", "halve")
    back = g.node("Cast", [halved], "back", "to_int", to=INT64)
    pad = g.const("pads", np.array([0, 0, 0], np.int64))
    s = g.node("Slice", [m, pad, back], "s", "slice")
    g.node("Relu", [s], "Y", "relu")
    g.output("Y", ["a", "b", "c"])
    case = models.Case(g.build(), {"X": noise(16, 3, 8)}, {})
    run = convert(bench, case, "--batch", 2).ok()
    plan = plan_of(run)
    assert plan["to_float"] == plan["halve"] == ("float", "exact")
    assert plan["mm"] == plan["slice"] == plan["relu"] == ("float16", "half")
    found = types(run.model)
    assert found["floats"] == found["halved"] == FLOAT and found["back"] == INT64
    assert harness.compare(case, run.model)["Y"] > LEAST


# What stays float32, and why


def large(factor):
    """A value that is scaled up and down again."""
    g = Graph()
    m = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    up = g.node("Mul", [m, g.const("up", np.float32(factor))], "up_m", "up")
    e = g.node("Abs", [up], "a", "abs")
    down = g.node("Mul", [e, g.const("down", np.float32(1 / factor))], "d", "down")
    g.matmul(down, "Y", 8, 8, "mm2")
    g.output("Y", [4, 8])
    return models.Case(g.build(), {"X": noise(32, 8)}, {})


@pytest.mark.parametrize("factor", [1e5, 1e7])
def test_values_beyond_float16(bench, factor):
    case = large(factor)
    run = convert(bench, case).ok()
    plan = plan_of(run)
    assert plan["up"] == plan["abs"] == plan["down"] == ("float", "range")
    assert plan["mm"] == plan["mm2"] == ("float16", "half")
    assert harness.compare(case, run.model)["Y"] > LEAST
    assert_no_idle_casts(run.model)


def test_values_within_float16_are_not_kept(bench):
    assert set(plan_of(convert(bench, large(64)).ok()).values()) == {("float16", "half")}


def test_layer_norm_of_single_operators(bench):
    case = models.decomposed_layer_norm()
    run = convert(bench, case).ok()
    quality = harness.compare(case, run.model, optimize=False)
    assert all(np.isfinite(value) and value > LEAST for value in quality.values())


def test_an_epsilon_below_float16(bench):
    g = Graph()
    m = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    square = g.node("Mul", [m, m], "sq", "square")
    zero = g.node("Mul", [square, g.const("zero", np.float32(0))], "z", "nothing")
    e = g.node("Add", [zero, g.const("eps", np.float32(1e-12))], "e", "epsilon")
    root = g.node("Sqrt", [e], "r", "root")
    g.node("Div", [root, g.const("same", np.float32(1e-6))], "Y", "quotient")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {})
    run = convert(bench, case).ok()
    plan = plan_of(run)
    assert plan["epsilon"] == ("float", "range") and plan["quotient"] == ("float", "range")
    assert plan["mm"] == ("float16", "half")
    assert harness.compare(case, run.model, optimize=False)["Y"] > LEAST


def test_weights_that_underflow_are_counted(bench):
    case = models.mlp()
    weight = case.model.graph.initializer[0]
    values = numpy_helper.to_array(weight).copy()
    values[0, :5] = 1e-9
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    run = convert(bench, case).ok()
    assert any("5 elements of weights are too small" in note for note in run.json["notes"])


def test_masks_become_the_lowest_float16(bench):
    """The lowest float32, added where attention must not look."""
    g = Graph()
    x = g.input("X", [1, 8, 16])
    q, k = g.matmul(x, "q", 16, 16, "mm_q"), g.matmul(x, "k", 16, 16, "mm_k")
    scores = g.node("MatMul", [q, g.node("Transpose", [k], "kt", "t", perm=[0, 2, 1])], "s", "qk")
    mask = np.where(np.tril(np.ones((8, 8))) > 0, 0, np.finfo(np.float32).min).astype(np.float32)
    masked = g.node("Add", [scores, g.const("mask", mask)], "masked", "mask_add")
    p = g.node("Softmax", [masked], "p", "softmax", axis=-1)
    g.node("MatMul", [p, q], "Y", "pv")
    g.output("Y", [1, 8, 16])
    case = models.Case(g.build(), {"X": noise(16, 8, 16)}, {})
    run = convert(bench, case).ok()
    assert set(plan_of(run).values()) == {("float16", "half")}
    converted = numpy_helper.to_array(
        next(i for i in run.model.graph.initializer if i.name == "mask")
    )
    assert converted.dtype == np.float16 and converted.min() == -65504
    assert any("28 elements of constants beyond float16" in note for note in run.json["notes"])
    for optimize in (True, False):
        assert harness.compare(case, run.model, optimize)["Y"] > LEAST


def test_scales_of_resize_stay_float(bench):
    g = Graph()
    c = g.conv(g.input("X", [1, 4, 4, 4]), "c", 4, 8, name="conv")
    scales = g.const("scales", np.float32([1, 1, 2, 2]))
    g.node("Resize", [c, "", scales], "Y", "resize", mode="nearest")
    g.output("Y", [1, 8, 8, 8])
    case = models.Case(g.build(), {"X": noise(8, 4, 4, 4)}, {})
    run = convert(bench, case).ok()
    assert plan_of(run)["resize"] == ("float16", "half")
    assert types(run.model)["scales"] == FLOAT
    assert harness.compare(case, run.model)["Y"] > LEAST


def test_operators_that_have_no_half(bench):
    boxes = Graph()
    b = boxes.matmul(boxes.input("X", [1, 6, 4]), "b", 4, 4, "mm")
    s = boxes.node("Transpose", [boxes.matmul(b, "s", 4, 1, "score")], "st", "t", perm=[0, 2, 1])
    n = boxes.const("n", np.array([3], np.int64))
    boxes.node("NonMaxSuppression", [b, s, n], "Y", "nms")
    boxes.output("Y", [None, 3], INT64)
    case = models.Case(boxes.build(), {"X": noise(8, 6, 4)}, {})
    run = convert(bench, case).ok()
    plan = plan_of(run)
    assert plan["nms"][0] == "float" and plan["mm"][0] == "float"  # boxes are compared exactly
    have, want = (harness.run_model(m, case.feeds()) for m in (run.model, case.model))
    assert all(np.array_equal(h["Y"], w["Y"]) for h, w in zip(have, want))


def test_what_the_user_keeps(bench):
    case = models.encoder_layer()
    words = ("--keep-float-op-types", "Softmax,Erf", "--keep-float-nodes", ".*norm1.*")
    run = convert(bench, case, *words)
    if run.code == 2:  # the pattern names nothing in this model
        names = [n.name for n in case.model.graph.node]
        words = ("--keep-float-op-types", "Softmax,Erf", "--keep-float-nodes", names[3])
        run = convert(bench, case, *words)
    run.ok()
    by_op = {n["name"]: n["op"] for n in run.json["nodes"]}
    kept = {name for name, (_, rule) in plan_of(run).items() if rule == "user"}
    assert {"Softmax", "Erf"} <= {by_op[name] for name in kept} and len(kept) > 2
    assert all(plan_of(run)[name][0] == "float" for name in kept)
    assert min(harness.compare(case, run.model).values()) > LEAST


def test_a_pattern_without_match_is_an_error(bench):
    run = convert(bench, models.mlp(), "--keep-float-nodes", "nowhere")
    run.failed("cannot", "nowhere", code=2)
    assert harness.files_in(bench.out) == []


def test_options_that_need_a_type(bench):
    case = models.mlp()
    for words in (["--io-types", "native"], ["--keep-float-op-types", "Relu"]):
        bench.quantize(case, *words).failed("cannot", "--high-precision", code=2)
    path, data = bench.write_model(case.model), bench.write_data(case.data)
    run = harness.run_cli("convert", path, "-o", bench.out / "a.onnx", "--data", data)
    run.failed("cannot convert", "--high-precision", code=2)
    assert harness.files_in(bench.out) == []


# Custom operators


def twice(domain="half.ops"):
    g = Graph(**{domain: 1})
    c = g.conv(g.input("X", [1, 4, 8, 8]), "c", 4, 8, name="conv1")
    t = g.node("Twice", [c], "t", "twice", domain)
    g.conv(t, "Y", 8, 4, name="conv2")
    g.output("Y", [1, 4, 8, 8])
    return models.Case(g.build(), {"X": noise(8, 4, 8, 8)}, {}, libs=["halves"])


def test_custom_operators_keep_their_types(bench):
    case = models.motivating()
    run = convert(bench, case).ok()
    custom = next(n for n in run.model.graph.node if n.domain == "custom_domain")
    made = {n.output[0]: n for n, _ in casts(run.model)}
    assert made[custom.input[0]].attribute[0].i == FLOAT
    readers = [n for n, _ in casts(run.model) if n.input[0] == custom.output[0]]
    assert [n.attribute[0].i for n in readers] == [HALF]
    before = next(n for n in case.model.graph.node if n.domain == "custom_domain")
    assert custom.attribute == before.attribute and custom.name == before.name
    assert plan_of(run)[custom.name] == ("float", "foreign")


def test_a_custom_operator_that_takes_half(bench):
    case = twice()
    run = convert(bench, case, "--half-op-types", "half.ops::Twice").ok()
    assert plan_of(run)["twice"] == ("float16", "half")
    assert [n.op_type for n in run.model.graph.node] == ["Cast", "Conv", "Twice", "Conv", "Cast"]
    for optimize in (True, False):
        assert harness.compare(case, run.model, optimize)["Y"] > LEAST
    assert len(list(casts(convert(bench, case, out="b.onnx").ok().model))) == 4


def test_a_custom_operator_that_does_not_take_half(bench):
    """Its library is asked before anything is written."""
    run = convert(bench, models.motivating(), "--half-op-types", "custom_domain::DummyOp")
    run.failed("cannot", "custom_domain::DummyOp", "--half-op-types", "/block/custom", code=2)
    assert harness.files_in(bench.out) == []


# Structure


def test_bodies_of_control_flow(bench):
    """Inside they compute in half; what goes in and comes out stays float32."""
    g = Graph()
    c = g.conv(g.input("X", [1, 3, 6, 6]), "c", 3, 4, kernel=1, name="conv")
    inner = numpy_helper.from_array(noise(4, 4, 1, 1, seed=5), "inner_w")

    def branch(name, op):
        weight = "inner_w" if name == "then" else "w"
        first = helper.make_node("Conv", [c, weight], [f"{name}_c"], name=f"{name}_conv")
        last = helper.make_node(op, [f"{name}_c"], [f"{name}_y"], name=f"{name}_act")
        info = helper.make_tensor_value_info(f"{name}_y", FLOAT, [1, 4, 6, 6])
        return helper.make_graph([first, last], name, [], [info], [inner] if name == "then" else [])

    g.initializers.append(numpy_helper.from_array(noise(4, 4, 1, 1, seed=6), "w"))
    cond = g.input("cond", [1], BOOL)
    branches = {"then_branch": branch("then", "Relu"), "else_branch": branch("other", "Tanh")}
    y = g.node("If", [cond], "y", "if", **branches)
    g.node("Neg", [y], "Y", "neg")
    g.output("Y", [1, 4, 6, 6])
    data = {"X": noise(16, 3, 6, 6), "cond": np.arange(16) % 2 == 0}
    case = models.Case(g.build(), data, {})
    run = convert(bench, case).ok()
    onnx.checker.check_model(run.model)
    assert_no_idle_casts(run.model)
    plan = plan_of(run)
    assert plan["if"] == ("float", "boundary")
    for name in ("conv", "then_conv", "then_act", "other_conv", "other_act", "neg"):
        assert plan[name] == ("float16", "half"), name
    for optimize in (True, False):
        assert harness.compare(case, run.model, optimize)["Y"] > LEAST


def test_a_model_that_is_mixed_already(bench):
    """Casts that lead from half to half are gone; there is one Cast per tensor and direction."""
    g = Graph(opset=19, ir=9)
    m = g.matmul(g.input("X", [4, 8]), "m", 8, 8, "mm")
    h = g.node("Cast", [m], "h", "down", to=HALF)
    r = g.node("Relu", [h], "r", "relu")
    f = g.node("Cast", [r], "f", "up", to=FLOAT)
    g.matmul(f, "Y", 8, 8, "mm2")
    g.output("Y", [4, 8])
    case = models.Case(g.build(), {"X": noise(32, 8)}, {})
    run = convert(bench, case).ok()
    assert_no_idle_casts(run.model)
    assert harness.compare(case, run.model)["Y"] > LEAST
    assert "down" not in {n.name for n in run.model.graph.node}


def test_a_constant_read_in_both_types(bench):
    """Converted once for all readers in half precision, and kept for the others."""
    g = Graph(custom_domain=1)
    w = g.weight("w", 8, 8)
    x = g.input("X", [8, 8])
    a = g.node("MatMul", [x, w], "a", "mm1")
    b = g.node("MatMul", [a, w], "b", "mm2")
    d = g.node("DummyOp", [w], "d", "/block/custom", "custom_domain", alpha=0.5)
    g.node("Add", [b, d], "Y", "add")
    g.output("Y", [8, 8])
    case = models.Case(g.build(), {"X": noise(64, 8)}, {}, libs=["dummy"])
    run = convert(bench, case).ok()
    assert sorted(i.data_type for i in run.model.graph.initializer) == [FLOAT, HALF]
    assert_no_idle_casts(run.model)
    assert harness.compare(case, run.model)["Y"] > LEAST


# With quantization


@pytest.mark.parametrize(
    "build", [models.two_convolutions, models.residual_block, models.encoder_layer]
)
def test_quantized_with_the_rest_in_half(bench, target, build):
    case = build()
    usual = bench.quantize(case, target=target).ok()
    run = bench.quantize(case, "--high-precision", "fp16", target=target, out="half.onnx").ok()
    onnx.checker.check_model(run.model, full_check=True)
    assert_no_idle_casts(run.model)
    view, before = qdq.View(run.model), qdq.View(usual.model)
    assert view.edges() == before.edges()
    assert next(o.version for o in run.model.opset_import if o.domain == "") >= 19
    found = types(run.model)
    for node in run.model.graph.node:
        if node.op_type == "DequantizeLinear" and not view.is_bias(node.output[0]):
            is_output = node.output[0] in {o.name for o in run.model.graph.output}
            assert found[node.input[1]] == (FLOAT if is_output else HALF), node.name
        if node.op_type == "QuantizeLinear":
            assert found[node.input[1]] == found[node.input[0]], node.name
    loss = min(harness.compare(case, usual.model, optimize=False).values())
    half = min(harness.compare(case, run.model, optimize=False).values())
    assert half > loss - 1, f"{half:.1f} dB of {loss:.1f}"


@pytest.mark.parametrize("io", ["keep", "native"])
def test_quantized_custom_operator_with_the_rest_in_half(bench, target, io):
    case = models.motivating()
    words = ("--high-precision", "fp16", "--io-types", io)
    run = bench.quantize(case, *words, target=target).ok()
    onnx.checker.check_model(run.model)
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 25
    assert qdq.View(run.model).edges()["conv1"] == BOTH
