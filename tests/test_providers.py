"""Execution providers: their order, their options, custom operators that run beside them, and the
shapes that they need behind those. The OpenVINO provider comes with a runtime of its own
(`tools/setup openvino`); without it these tests are skipped."""

import os
from pathlib import Path

import harness
import models
import numpy as np
import pytest
import qdq
from onnx import TensorProto, helper

CPU_FALLBACK = "compared with the original on CPU"


@pytest.fixture
def openvino():
    given = os.environ.get("ONNXPTQ_OPENVINO_LIB")
    found = sorted((harness.ROOT / ".deps").glob("onnxruntime-openvino-*/libonnxruntime.so.*"))
    path = Path(given) if given else found[-1] if found else None
    if path is None or not path.exists():
        pytest.skip("no runtime with the OpenVINO provider: tools/setup openvino")
    return path


class Cache:
    """A folder that OpenVINO fills with what it compiles: proof that it was asked to."""

    def __init__(self, bench):
        self.folder = bench.folder / "cache"
        self.option = f"openvino:cache_dir={self.folder}"

    @property
    def used(self):
        return any(self.folder.glob("*.blob")) if self.folder.exists() else False


# The provider runs what it can


@pytest.mark.parametrize(
    "name",
    ["motivating", "custom_first", "custom_last", "two_libraries", "mixed_types",
     "data_dependent_shape"],
)  # fmt: skip
def test_a_custom_operator_falls_back_to_the_processor(bench, openvino, target, name):
    """OpenVINO refuses what lies behind an operator that it does not know, unless the shapes there
    are told: they are, in every session, and nothing falls back but the operator itself."""
    case = models.FOREIGN[name]()
    cache = Cache(bench)
    run = bench.quantize(
        case, "--ort-lib", openvino, "--providers", "openvino", "--provider-option", cache.option,
        target=target,
    ).ok()  # fmt: skip
    assert not any(CPU_FALLBACK in note for note in run.json["notes"]), str(run)
    assert cache.used
    assert qdq.View(run.model).edges() == case.edges(target)
    harness.assert_quality(case, run.model)
    assert run.json["providers"] == [
        {"name": "OpenVINOExecutionProvider", "options": {"cache_dir": str(cache.folder)}}
    ]
    assert harness.files_in(bench.out) == ["model.int8.onnx"]


def refused_by_openvino():
    """A result whose rank depends on the branch taken."""
    g = models.Graph(custom_domain=1)
    x = g.input("X", ["n", 3, 8, 8])
    x = models.dummy_op(g, g.conv(x, "c1", 3, 16, name="conv1"), "d")
    branches = [
        helper.make_graph([helper.make_node(op, [x], [name])], name, [],
                          [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])
        for op, name in (("Identity", "same"), ("Flatten", "flat"))
    ]  # fmt: skip
    g.const("low", np.float32(-1e9))
    total = g.node("ReduceSum", ["X"], "sum", "sum", keepdims=0)
    yes = g.node("Greater", [total, "low"], "yes", "greater")
    x = g.node("If", [yes], "r", "if", then_branch=branches[0], else_branch=branches[1])
    g.conv(x, "Y", 16, 8, name="conv2")
    g.output("Y", ["n", 8, 8, 8])
    both = {"conv1": models.BOTH, "conv2": models.BOTH}
    return models.Case(g.build(), {"X": models.noise(8, 3, 8, 8)}, both, libs=("dummy",))


@pytest.mark.parametrize("args", [(), ("--method", "max")])
def test_a_model_that_the_provider_refuses(bench, openvino, target, args):
    """All of it is done on the processor then, once the reason has been said."""
    case = refused_by_openvino()
    run = bench.quantize(
        case, "--ort-lib", openvino, "--providers", "openvino", *args, target=target
    ).ok()
    for words in (
        "the ranges were measured on CPU",
        CPU_FALLBACK,
        "the result was measured on CPU",
    ):
        assert sum(words in note and "rank" in note for note in run.json["notes"]) == 1, words
    assert qdq.View(run.model).edges() == case.edges(target)
    harness.assert_quality(case, run.model)


def test_ranks_behind_shapes_that_are_computed(bench, openvino):
    """Nobody infers them in this text recogniser, and the provider wants them."""
    path = harness.ROOT / ".deps" / "models" / "ch_PP-OCRv4_rec_infer.onnx"
    model = os.environ.get("ONNXPTQ_MODELS")
    path = Path(model) / path.name if model else path
    run = harness.run_cli(
        "quantize", path, "-o", bench.out / "q.onnx", "--random-data", "2", "--input-shape",
        "x:1x3x48x320", "--method", "max", "--ort-lib", openvino, "--providers", "openvino", "--json",
        timeout=120,
    ).ok()  # fmt: skip
    assert not any("CPU" in note for note in run.json["notes"]), str(run)


def test_the_ranges_are_those_of_the_provider(bench, openvino):
    """Both run in float32: the scales of the same samples agree closely."""
    case = models.motivating()
    scales = {}
    for providers in ("cpu", "openvino"):
        run = bench.quantize(
            case, "--ort-lib", openvino, "--providers", providers, out=f"{providers}.onnx"
        ).ok()
        scales[providers] = {t["name"]: t["scale"] for t in run.json["tensors"]}
    assert scales["openvino"] == pytest.approx(scales["cpu"], rel=1e-3)


@pytest.mark.parametrize("providers, used", [("openvino,cpu", True), ("cpu,openvino", False)])
def test_the_first_provider_that_can_run_a_node_gets_it(bench, openvino, providers, used):
    cache = Cache(bench)
    run = bench.quantize(
        models.motivating(), "--ort-lib", openvino, "--providers", providers,
        "--provider-option", cache.option,
    ).ok()  # fmt: skip
    assert cache.used == used
    assert [p["name"] for p in run.json["providers"]] == [
        {"openvino": "OpenVINOExecutionProvider", "cpu": "CPUExecutionProvider"}[p]
        for p in providers.split(",")
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--providers", "openvino:device_type=CPU;num_of_threads=1"),
        ("--providers", "OpenVINOExecutionProvider", "--provider-option",
         "OPENVINO:device_type=CPU", "--provider-option",
         "OpenVINOExecutionProvider:num_of_threads=1"),
        ("--providers", "openvino:device_type=GPU", "--provider-option", "openvino:device_type=CPU",
         "--provider-option", "openvino:num_of_threads=1"),
    ],
)  # fmt: skip
def test_options_of_a_provider(bench, openvino, words):
    """Behind its name, or each by itself, which wins."""
    run = bench.quantize(models.motivating(), "--ort-lib", openvino, *words).ok()
    assert run.json["providers"][0]["options"] == {"device_type": "CPU", "num_of_threads": "1"}


def test_an_option_that_the_provider_does_not_have(bench, openvino):
    run = bench.quantize(
        models.motivating(), "--ort-lib", openvino, "--providers", "openvino",
        "--provider-option", "openvino:no_such_option=1",
    )  # fmt: skip
    run.failed("openvino", "no_such_option")
    assert harness.files_in(bench.out) == []


def test_inspect_knows_providers_too(bench, openvino):
    model = bench.write_model(models.motivating().model)
    harness.run_cli(
        "inspect", model, "--ort-lib", openvino, "--providers", "openvino", "--provider-option",
        "openvino:device_type=CPU", "--custom-op-lib", harness.library("dummy"),
    ).ok()  # fmt: skip


# What cannot work is refused before anything runs


@pytest.mark.parametrize(
    "words, parts, code",
    [
        (("--providers", "nosuch"), ("nosuch", "cpu (CPUExecutionProvider)"), 1),
        (("--provider-option", "openvino:device_type=CPU"), ("openvino", "(cpu)", "--providers"), 2),
        (("--provider-option", "cpu"), ("NAME:KEY=VALUE",), 2),
        (("--provider-option", "cpu:=1"), ("NAME:KEY=VALUE",), 2),
        (("--provider-option", ":a=1"), ("NAME:KEY=VALUE",), 2),
        (("--providers", "cpu:x"), ("cpu:x", "key=value"), 2),
        (("--trt-plugin", "libplugin.so"), ("--trt-plugin", "--providers trt"), 2),
        (("--trt-profile-min", "X:1x3x8x8"), ("--trt-profile-min", "--providers trt"), 2),
        (("--trt-profile-max", "X:1xax8"), ("X:1xax8",), 2),
    ],
)  # fmt: skip
def test_wrong_options(bench, words, parts, code):
    bench.quantize(models.motivating(), *words).failed(*parts, code=code)
    assert harness.files_in(bench.out) == []


def test_a_kernel_for_another_provider(bench):
    """The operator is known, and no provider of the session runs it."""
    run = bench.quantize(models.motivating(), libs=[harness.library("elsewhere")])
    run.failed("DummyOp", "/block/custom", "another provider", "--providers", "(cpu)")
    assert harness.files_in(bench.out) == []


def test_a_kernel_for_another_provider_behind_one_that_was_chosen(bench, openvino):
    run = bench.quantize(
        models.motivating(), "--ort-lib", openvino, "--providers", "openvino",
        libs=[harness.library("elsewhere")],
    )  # fmt: skip
    run.failed("DummyOp", "/block/custom", "another provider", "(openvino)")
    assert harness.files_in(bench.out) == []


# Plugins


def test_a_plugin_is_offered_under_its_domain_and_the_output_keeps_the_users(bench, target):
    """As ONNX Runtime's TensorRT provider wants it; a library that registers the same domain
    stands in for it here."""
    case = models.motivating()
    run = bench.quantize(case, target=target, libs=[harness.library("trtplugins")]).ok()
    assert [n.domain for n in run.model.graph.node if n.op_type == "DummyOp"] == ["custom_domain"]
    assert "trt.plugins" not in {o.domain for o in run.model.opset_import}
    assert any("trt.plugins::DummyOp" in note for note in run.json["notes"])
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 30
    qdq.assert_rest_unchanged(case.model, run.model)


# Summaries on the device


@pytest.mark.runtime
@pytest.mark.parametrize("name", ["motivating", "two_libraries", "mixed_types", "shared_constants"])
def test_a_device_gives_the_ranges_of_the_host(bench, target, name):
    """The graph's own reductions, forced onto the processor: the very same model comes out."""
    case = models.FOREIGN[name]()
    host = bench.quantize(
        case, "--method", "max", "--observe", "host", target=target, out="host.onnx"
    ).ok()
    device = bench.quantize(
        case, "--method", "max", "--observe", "device", target=target, out="device.onnx"
    ).ok()
    assert device.path.read_bytes() == host.path.read_bytes()
    assert device.json["tensors"] == host.json["tensors"]


def test_a_device_gives_the_ranges_of_the_host_on_a_provider(bench, openvino):
    case = models.motivating()
    args = ("--ort-lib", openvino, "--providers", "openvino", "--method", "max")
    host = bench.quantize(case, *args, "--observe", "host", out="host.onnx").ok()
    device = bench.quantize(case, *args, "--observe", "device", out="device.onnx").ok()
    expected = {t["name"]: (t["min"], t["max"]) for t in host.json["tensors"]}
    for tensor in device.json["tensors"]:
        assert (tensor["min"], tensor["max"]) == pytest.approx(expected[tensor["name"]], rel=1e-5)
