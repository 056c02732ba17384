"""The quality gate, and repair: what loses too much is not handed over, and what costs most goes back to float."""

import harness
import models
import numpy as np
import pytest
import zoo
from models import BOTH, Graph, noise

GATE = 3  # exit status


def wide_range(culprits=("mm2",)):
    """Four products in a row, each on its own scale; in front of the culprits one column is a thousand times as large
    as the others, which eight bits then do not hold. The weights behind give each column its share of the output."""
    g = Graph()
    x = g.input("X", [8, 16])
    for k in range(4):
        name = f"mm{k}"
        spread = np.ones((1, 16), np.float32)
        if name in culprits:
            spread[0, 3] = 3000
        s = g.node("Mul", [x, g.const(f"spread{k}", spread)], f"s{k}", f"spread_{name}")
        w = noise(16, 16, seed=k, scale=0.25) / spread.T
        m = g.node("MatMul", [s, g.const(f"w{k}", w)], f"m{k}", name)
        x = g.node("Tanh", [m], "Y" if k == 3 else f"t{k}", f"tanh{k}")
    g.output("Y", [8, 16])
    return models.Case(g.build(), {"X": noise(256, 16)}, {f"mm{k}": BOTH for k in range(4)})


def quantize(bench, case, *args, **options):
    return bench.quantize(case, *args, gate=True, **options)


def quantized(run):
    return {n["name"] for n in run.json["nodes"] if n["decision"] == "quantized"}


def held(run):
    return {n["name"] for n in run.json["nodes"] if n["rule"] == "repair"}


# The gate


def test_a_result_below_the_gate_is_not_handed_over(bench, target):
    run = quantize(bench, wide_range(), "--method", "max", "--no-repair", target=target)
    run.failed("cannot hand over", "'Y'", "dB", "--min-sqnr", "--allow-low-quality", code=GATE)
    assert harness.files_in(bench.out) == []


def test_the_gate_names_the_nodes_that_cost_most(bench, target):
    """A repair that may not repair anything still says where it is lost."""
    run = quantize(bench, wide_range(), "--method", "max", "--min-int8-macs", 1, target=target)
    run.failed("cannot hand over", "'mm2'", code=GATE)
    assert harness.files_in(bench.out) == []


def test_low_quality_that_the_user_allows(bench, target):
    words = ("--method", "max", "--no-repair", "--allow-low-quality")
    run = quantize(bench, wide_range(), *words, target=target).ok()
    assert any("LOW QUALITY" in note for note in run.json["notes"])
    assert quantized(run) == {f"mm{k}" for k in range(4)}


@pytest.mark.parametrize("least, code", [(0, 0), (60, GATE)])
def test_another_gate(bench, target, least, code):
    """Ordinary eight bits keep more than 0 dB and less than 60."""
    run = quantize(bench, models.mlp(), "--no-repair", "--min-sqnr", least, target=target)
    assert run.code == code, str(run)
    assert bool(harness.files_in(bench.out)) == (code == 0)


def test_convert_has_the_same_gate(bench):
    case = models.mlp()
    path, data = bench.write_model(case.model), bench.write_data(case.data)
    words = ("-o", bench.out / "o.onnx", "--data", data, "--high-precision", "fp16")
    run = harness.run_cli("convert", path, *words, "--min-sqnr", 150)
    run.failed("cannot hand over", "--min-sqnr", code=GATE)
    harness.run_cli("convert", path, *words, "--min-sqnr", 40).ok()


# Repair


@pytest.mark.parametrize("culprits", [("mm2",), ("mm0", "mm3")], ids=["one", "two"])
def test_repair_finds_the_culprits(bench, target, culprits):
    """By default, since the result is below the gate: exactly the nodes that lose it go back to float."""
    case = wide_range(culprits)
    words = ("--method", "max", "--min-int8-macs", 0.4)
    run = quantize(bench, case, *words, target=target).ok()
    assert held(run) == set(culprits)
    assert quantized(run) == {f"mm{k}" for k in range(4)} - set(culprits)
    assert run.json["check"]["outputs"][0]["sqnr_db"] > 20
    for optimize in (True, False):
        assert harness.compare(case, run.model, optimize)["Y"] > 20
    notes = " ".join(run.json["notes"])
    assert f"{len(culprits)} of 4 nodes went back to float" in notes
    assert f"{100 - 25 * len(culprits)}.0 % of the multiply-accumulates are int8" in notes
    reasons = {n["name"]: n["reason"] for n in run.json["nodes"]}
    assert all("measured" in reasons[name] for name in culprits)


def test_repair_to_a_target(bench, target):
    """Asked for more than eight bits give, it moves as few nodes as that takes, and no more than it may."""
    case = models.mlp()
    usual = quantize(bench, case, target=target).ok()
    reached = usual.json["check"]["outputs"][0]["sqnr_db"]
    words = ("--repair", reached + 3, "--min-int8-macs", 0)
    run = quantize(bench, case, *words, target=target, out="b.onnx").ok()
    assert held(run) and quantized(run)
    assert run.json["check"]["outputs"][0]["sqnr_db"] > reached + 1


def test_repair_that_is_not_needed(bench, target):
    usual = quantize(bench, models.mlp(), "--no-repair", target=target).ok()
    run = quantize(bench, models.mlp(), "--repair", 5, target=target, out="b.onnx").ok()
    assert not held(run)
    assert run.path.read_bytes() == usual.path.read_bytes()


def test_repair_keeps_the_share_of_int8(bench, target):
    case = wide_range(("mm0", "mm2"))
    words = ("--method", "max", "--min-int8-macs", 0.75, "--allow-low-quality")
    run = quantize(bench, case, *words, target=target).ok()
    assert len(held(run)) <= 1
    assert any("--min-int8-macs" in note for note in run.json["notes"])


def test_repair_with_no_time(bench, target):
    words = ("--method", "max", "--repair-budget", 1e-9, "--allow-low-quality")
    run = quantize(bench, wide_range(), *words, target=target).ok()
    assert not held(run)


def test_repair_beside_custom_operators(bench, target):
    """The search runs the user's library, too."""
    case = models.motivating()
    run = quantize(bench, case, "--repair", 60, "--min-int8-macs", 0, target=target)
    run.ok()
    assert held(run)
    custom = next(n for n in run.json["nodes"] if n["op"] == "custom_domain::DummyOp")
    assert custom["decision"] == "foreign"


def test_the_same_twice(bench, target):
    words = ("--method", "max", "--min-int8-macs", 0.4)
    first, second = (
        quantize(bench, wide_range(), *words, target=target, out=f"{k}.onnx").ok() for k in range(2)
    )
    assert first.path.read_bytes() == second.path.read_bytes()


@pytest.mark.parametrize(
    "words",
    [
        ("--min-int8-macs", "1.5"),
        ("--repair", "-3"),
        ("--repair-budget", "-1"),
    ],
)
def test_numbers_that_make_no_sense(bench, words):
    quantize(bench, models.mlp(), *words).failed("cannot", words[0], code=2)
    assert harness.files_in(bench.out) == []


def test_a_text_recogniser_is_repaired(bench, target):
    """Its output is peaked: characters or none. At least 95 % of the multiply-accumulates stay int8."""
    model = next(m for m in zoo.MODELS if "rec" in m.file)
    usual = zoo.quantize(bench, model, target)
    before = model.quality(
        harness.run_model(usual.path, model.feeds(zoo.CHECK), optimize=target == "onnxruntime")
    )
    usual.path.unlink()
    run = zoo.quantize(bench, model, target, "--repair", 30)
    after = model.quality(
        harness.run_model(run.path, model.feeds(zoo.CHECK), optimize=target == "onnxruntime")
    )
    assert held(run)
    share = zoo.share(model, run.json)
    assert share.of_all >= 0.95
    assert min(after.values()) > min(before.values()) - 0.5
