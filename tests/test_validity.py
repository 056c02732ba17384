"""The result is a valid model, and what quantization does not concern is in it as it was."""

import harness
import models
import numpy as np
import onnx
import pytest
import qdq
from onnx import helper


def declared(values):
    return [v.SerializeToString(deterministic=True) for v in values]


@pytest.mark.parametrize("name", models.STANDARD)
def test_passes_the_full_check_and_loads(bench, target, name):
    """ONNX's own checker with shape inference; the runtime with optimizations on and off; inputs
    and outputs as declared."""
    case = models.STANDARD[name]()
    model = bench.quantize(case, target=target).ok().model
    onnx.checker.check_model(model, full_check=True)
    qdq.assert_well_formed(model)
    for part in ("input", "output"):
        assert declared(getattr(model.graph, part)) == declared(getattr(case.model.graph, part))
    for optimize in (True, False):
        live = harness.session(model, optimize=optimize)
        float_live = harness.session(case.model)
        for ours, theirs in (
            (live.get_inputs(), float_live.get_inputs()),
            (live.get_outputs(), float_live.get_outputs()),
        ):
            assert [(v.name, v.type, v.shape) for v in ours] == [
                (v.name, v.type, v.shape) for v in theirs
            ]


@pytest.mark.parametrize("name", [n for n in models.STANDARD if n != "conv_bn_relu"])
def test_everything_else_is_as_it_was(bench, target, name):
    """Node by node. (conv_bn_relu aside: a batch normalization may be folded into the
    convolution before it.)"""
    case = models.STANDARD[name]()
    qdq.assert_rest_unchanged(case.model, bench.quantize(case, target=target).ok().model)


@pytest.mark.parametrize("name", models.FOREIGN)
def test_inputs_and_outputs_beside_foreign_operators(bench, target, name):
    case = models.FOREIGN[name]()
    libs = [f"{harness.library('entry')}@RegisterMyOps"] if name == "named_entry_point" else None
    model = bench.quantize(case, target=target, libs=libs).ok().model
    for part in ("input", "output"):
        assert declared(getattr(model.graph, part)) == declared(getattr(case.model.graph, part))


def decorated():
    """A model with everything that a rewrite tends to lose: metadata, doc strings, a local
    function, a training-time field, attributes and protobuf fields of a later version of the
    format."""
    case = models.motivating()
    model = case.model
    g = model.graph
    body = [
        helper.make_node("Neg", ["a"], ["t"], name="neg"),
        helper.make_node("Abs", ["t"], ["b"], name="abs"),
    ]
    function = helper.make_function(
        "my.fn", "NegAbs", ["a"], ["b"], body, [helper.make_opsetid("", 17)]
    )
    function.doc_string = "kept as a call"
    unused = helper.make_function(
        "my.fn",
        "Unused",
        ["a"],
        ["b"],
        [helper.make_node("Neg", ["a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    model.functions.extend([function, unused])
    model.opset_import.append(helper.make_opsetid("my.fn", 7))
    g.node[-1].output[0] = "before"
    g.node.append(helper.make_node("NegAbs", ["before"], ["Y"], name="call", domain="my.fn"))

    helper.set_model_props(model, {"author": "someone", "labels": "cat,dog", "empty": ""})
    model.doc_string, g.doc_string = "model\nnotes", "graph notes"
    model.model_version, model.domain = 42, "org.example"
    for node in g.node:
        node.doc_string = f"doc of {node.name}"
    g.input[0].doc_string = "the image"
    g.initializer[0].doc_string = "a weight"
    g.value_info.append(helper.make_tensor_value_info("c1", onnx.TensorProto.FLOAT, [1, 32, 8, 8]))
    g.quantization_annotation.add(tensor_name="c1")
    model.training_info.add()
    # Field 2000, length-delimited: what an older reader must carry along.
    unknown = b"\x82\x7d\x03new"
    for part in (model, g, g.node[0], g.node[2]):
        part.MergeFromString(unknown)
    return case


def test_decoration_survives(bench, target):
    case = decorated()
    before, after = case.model, bench.quantize(case, target=target).ok().model
    assert after.metadata_props == before.metadata_props
    assert after.functions == before.functions
    assert after.training_info == before.training_info
    assert after.graph.quantization_annotation == before.graph.quantization_annotation
    for field in ("doc_string", "model_version", "domain"):
        assert getattr(after, field) == getattr(before, field)
    assert (
        after.graph.doc_string == before.graph.doc_string and after.graph.name == before.graph.name
    )
    assert {o.domain: o.version for o in after.opset_import}["my.fn"] == 7
    assert declared(after.graph.input) == declared(before.graph.input)
    assert declared(before.graph.value_info)[0] in declared(after.graph.value_info)
    qdq.assert_rest_unchanged(before, after)  # doc strings and unknown fields of nodes included
    assert after.SerializeToString().count(b"\x82\x7d\x03new") == 4
    harness.assert_quality(case, after)


def test_names_that_the_tool_would_choose_are_taken(bench, target):
    """Whatever the scheme: the names generated for one model are given to parts of the next,
    which must still come out right."""
    case = models.motivating()
    first = bench.quantize(case, target=target).ok().model
    before = qdq.View(case.model)
    tensors = sorted(
        (
            {o for n in first.graph.node for o in n.output}
            | {i.name for i in first.graph.initializer}
        )
        - set(before.producer)
        - set(before.initializers)
        - {"X"}
    )
    nodes = sorted({n.name for n in first.graph.node} - set(before.nodes))
    assert tensors and nodes

    g = models.Graph(custom_domain=1)
    x = g.input("X", [1, 3, 8, 8])
    for k, name in enumerate(
        tensors
    ):  # a chain of Abs nodes under those names, in front of the model
        x = g.node("Abs" if k else "Neg", [x], name, nodes[k] if k < len(nodes) else f"abs{k}")
    x = g.node("Relu", [g.conv(x, "c1", 3, 32, name="conv1")], "r1", "relu1")
    x = g.conv(models.dummy_op(g, x, "d"), "c2", 32, 32, name="conv2")
    g.node("Relu", [x], "Y", "relu2")
    g.output("Y", [1, 32, 8, 8])
    second = models.Case(g.build(), case.data, case.tensorrt, libs=case.libs)
    model = bench.quantize(second, "--force", target=target).ok().model
    assert qdq.View(model).edges() == case.edges(target)
    qdq.assert_well_formed(model)
    qdq.assert_rest_unchanged(second.model, model)
    harness.assert_quality(second, model)


def test_generated_names_do_not_collide_inside_subgraphs(bench, target):
    """A body's names live in the same space: shadowing an outer name is illegal."""
    first = bench.quantize(models.two_convolutions(), target=target).ok().model
    taken = sorted({o for n in first.graph.node if qdq.is_pair(n) for o in n.output})
    case = models.two_convolutions()
    g = case.model.graph
    branch = [helper.make_node("Identity", ["c1"], [taken[0]], name="inner")]
    graphs = [
        helper.make_graph(branch, name, [], [helper.make_tensor_value_info(taken[0], 1, None)])
        for name in ("then", "else")
    ]
    graphs[1].node[0].output[0] = graphs[1].output[0].name = taken[1]
    g.initializer.append(onnx.numpy_helper.from_array(np.array(True), "yes"))
    g.node.insert(
        1,
        helper.make_node(
            "If", ["yes"], ["c1b"], name="if", then_branch=graphs[0], else_branch=graphs[1]
        ),
    )
    g.node[2].input[0] = "c1b"
    harness.run_model(case.model, case.feeds())
    model = bench.quantize(case, "--force", target=target).ok().model
    outer = {o for n in model.graph.node for o in n.output}
    assert not outer & set(taken[:2])
    onnx.checker.check_model(model, full_check=True)
    harness.assert_quality(case, model)


def test_node_names_are_optional(bench, target):
    """The report calls an unnamed node by its first output."""
    case = models.two_convolutions()
    for node in case.model.graph.node:
        node.name = ""
    run = bench.quantize(case, target=target).ok()
    harness.assert_quality(case, run.model)
    quantized = [
        n["name"] for n in run.json["nodes"] if n["decision"] == "quantized" and n["op"] == "Conv"
    ]
    assert quantized == ["@c1", "@Y"]
    pairs = [n.name for n in run.model.graph.node if qdq.is_pair(n)]
    assert len(set(pairs)) == len(pairs)


def test_the_input_files_are_not_touched(bench, target):
    case = models.motivating()
    bench.quantize(case, target=target).ok()
    model, data = bench.inside / "model.onnx", bench.inside / "calib.npz"
    before = (model.read_bytes(), data.read_bytes())
    bench.quantize(case, "--force", target=target, data=data).ok()
    assert (model.read_bytes(), data.read_bytes()) == before
    assert harness.files_in(bench.inside) == ["calib.npz", "model.onnx"]
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


@pytest.mark.parametrize("optimize", [True, False])
def test_the_reported_sqnr_is_the_measured_one(bench, target, optimize):
    """10 log10(sum ref^2 / sum (ref-got)^2) over all samples, computed here by numpy from runs
    of Python's runtime."""
    case = models.motivating()
    run = bench.quantize(case, target=target).ok()
    (reported,) = run.json["check"]["outputs"]
    assert reported["name"] == "Y" and reported["exact"] is False
    assert run.json["check"]["samples"] == 8 and run.json["check"]["held_back"] is False
    measured = harness.compare(case, run.model, optimize)["Y"]
    assert reported["sqnr_db"] == pytest.approx(measured, abs=0.5)
    reference, got = (
        harness.run_model(m, case.feeds(), case.libs) for m in (case.model, run.model)
    )
    error = max(np.abs(r["Y"] - q["Y"]).max() for r, q in zip(reference, got))
    assert reported["max_abs_error"] == pytest.approx(error, rel=0.2)


def test_the_eighth_sample_is_held_back(bench):
    """From 16 samples on, sample i with i mod 8 = 7 is measured on and not calibrated with."""
    case = models.two_convolutions()
    data = np.clip(models.noise(17, 4, 8, 8), -2, 2)
    data[3].flat[0] = 3.0
    data[15].flat[0] = 50.0
    run = bench.quantize(models.Case(case.model, {"X": data})).ok()
    scale = qdq.View(run.model).params("conv1", 0).scale
    assert scale == pytest.approx(3.0 / 127, rel=1e-6)
    assert run.json["check"]["samples"] == 2 and run.json["check"]["held_back"] is True


def test_what_the_runtimes_optimizer_refuses_is_measured_without_it(bench):
    """Some runtimes move int8 Q/DQ around a Reshape of their own, and then refuse it: here that of
    a MatMul that they turn into a Gemm, from opset 21 on. TensorRT does neither."""
    g = models.Graph(opset=21, ir=10)
    x = g.matmul(g.input("X", [1, 6, 16]), "m", 16, 8, "mm")
    g.node("Add", [x, g.weight("bias", 8)], "Y", "add")
    g.output("Y", [1, 6, 8])
    case = models.Case(g.build(), {"X": models.noise(8, 6, 16)})
    run = bench.quantize(case, target="tensorrt").ok()
    try:
        harness.session(run.model)
        refused = False
    except Exception:
        refused = True
    assert run.json["check"]["unoptimized"] == refused
    assert any("optimizations off" in note for note in run.json["notes"]) == refused
    assert harness.compare(case, run.model, optimize=False)["Y"] > 30
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 30
    example = harness.run_cli(*[a for a in run.args[1:] if a != "--json"], "--force").ok().out
    assert ("ORT_DISABLE_ALL" in example) == refused
    assert "Y" in harness.compare(
        case, bench.quantize(case, "--force", target="onnxruntime").ok().model
    )


def test_what_the_runtimes_optimizer_spoils_is_measured_without_it(bench):
    """Between two pairs some runtimes quantize the float16 bias of a Conv themselves, in float16,
    where its codes overflow. TensorRT leaves biases alone."""
    g = models.Graph(opset=19, ir=9)
    x = g.input("X", [1, 8, 8, 8], onnx.TensorProto.FLOAT16)
    for name, out in (("conv1", "c1"), ("conv2", "Y")):
        w = g.const(f"{name}.w", models.noise(8, 8, 1, 1, scale=0.3).astype(np.float16))
        b = g.const(f"{name}.b", models.noise(8, scale=3).astype(np.float16))
        x = g.node("Conv", [x, w, b], out, name)
    g.output("Y", [1, 8, 8, 8], onnx.TensorProto.FLOAT16)
    case = models.Case(g.build(), {"X": models.noise(8, 8, 8, 8, scale=0.1).astype(np.float16)})
    run = bench.quantize(case, target="tensorrt").ok()
    spoilt = harness.compare(case, run.model, optimize=True)["Y"] < 15
    assert run.json["check"]["unoptimized"] == spoilt
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 30
    assert harness.compare(case, run.model, optimize=False)["Y"] > 30
    assert not any("LOW QUALITY" in note for note in run.json["notes"])
