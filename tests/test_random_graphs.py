"""What holds for any model, on models made at random: the result is valid, loads, computes what
the original computes but for the rounding, and the report tells the truth about it."""

import math

import harness
import onnx
import pytest
import qdq
import random_graphs

SMALLEST_DB = 15.0


# Constant and Identity go with the weight behind them, a batch normalization into its Conv.
MAY_GO = {"Constant", "Identity", "BatchNormalization"}


def check(bench, case, target):
    run = bench.quantize(case, target=target).ok()
    onnx.checker.check_model(run.model, full_check=not case.libs)
    qdq.assert_well_formed(run.model)
    kept = {n.name for n in run.model.graph.node}
    assert {n.op_type for n in case.model.graph.node if n.name not in kept} <= MAY_GO

    report = run.json["check"]
    assert not report["held_back"]
    reported = {o["name"]: o["sqnr_db"] for o in report["outputs"]}
    for optimize in (False,) if report["unoptimized"] else (False, True):
        for name, value in harness.compare(case, run.model, optimize).items():
            assert math.isnan(value) or value > SMALLEST_DB, f"{name}: {value:.1f} dB, {optimize}"
            if optimize != report["unoptimized"] and value < 100:
                assert reported[name] == pytest.approx(value, abs=3), name


@pytest.mark.parametrize("seed", range(7))
def test_standard_operators(bench, target, seed):
    check(bench, random_graphs.case(seed), target)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_foreign_operator(bench, target, seed):
    check(bench, random_graphs.case(1000 + seed, foreign=True), target)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(7, 120))
def test_more_standard_operators(bench, target, seed):
    check(bench, random_graphs.case(seed), target)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3, 40))
def test_more_with_a_foreign_operator(bench, target, seed):
    check(bench, random_graphs.case(1000 + seed, foreign=True), target)
