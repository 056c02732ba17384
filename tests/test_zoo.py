"""Real models of the kinds that users bring, quantized with the command's defaults: valid, in int8 where the work is, and no
worse than a simple hand-made placement."""

import harness
import numpy as np
import onnx
import pytest
import qdq
import zoo

MIN_INT8 = 0.9  # of the multiply-accumulates that no rule keeps float
BELOW_YARDSTICK = 1.0  # dB
BETWEEN_LEVELS = 3.0  # dB between the runtime's optimizations on and off

LONG = {"open-nsfw.onnx", "common.onnx", "common_det.onnx"}


def each(models):
    return [
        pytest.param(m, id=str(m), marks=[pytest.mark.full] if m.file in LONG else [])
        for m in models
    ]


@pytest.mark.parametrize("model", each([m for m in zoo.MODELS if not m.quantized]))
def test_real_model(bench, target, model):
    run = zoo.quantize(bench, model, target)
    onnx.checker.check_model(run.model, full_check=True)
    qdq.assert_well_formed(run.model)
    for part in ("input", "output", "metadata_props"):
        holder = (lambda m: m) if part == "metadata_props" else (lambda m: m.graph)
        assert getattr(holder(run.model), part) == getattr(holder(model.float_model), part)

    share = zoo.share(model, run.json)
    assert share.int8 > 0 and share.of_the_rest >= MIN_INT8
    assert run.json["output_bytes"] < run.json["model_bytes"]

    on, off = (
        model.quality(harness.run_model(run.path, model.feeds(zoo.CHECK), optimize=optimize))
        for optimize in (True, False)
    )
    for name, value in on.items():
        assert abs(off[name] - value) < BETWEEN_LEVELS, f"{name}: {value:.1f}, {off[name]:.1f} dB"
    for name, least in model.yardstick(zoo.left_float(run.json)).items():
        assert on[name] >= least - BELOW_YARDSTICK, f"{name}: {on[name]:.1f} of {least:.1f} dB"


@pytest.mark.parametrize("model", each([m for m in zoo.MODELS if m.quantized]))
def test_real_model_that_is_quantized_already(bench, target, model):
    """Integer convolutions and products with scales found at run time, and an LSTM of the runtime's
    own: nothing is left to do."""
    run = zoo.quantize(bench, model, target)
    assert run.model == model.float_model
    assert any("nothing is quantized" in note for note in run.json["notes"])
    got = harness.run_model(run.path, model.feeds(zoo.CHECK))
    assert set(model.quality(got).values()) == {np.inf}
