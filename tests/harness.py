"""Running the command line tool, and ONNX Runtime beside it as the independent judge."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

ROOT = Path(__file__).resolve().parent.parent
CLI = Path(os.environ.get("ONNXPTQ_CLI", ROOT / "build" / "onnxptq"))
OPS = Path(os.environ.get("ONNXPTQ_TEST_OPS", ROOT / "build" / "test-ops"))
TARGETS = ("tensorrt", "onnxruntime")
# What the allocator of a build with ASan says of a size that it refuses, as malloc does silently.
REFUSED = "WARNING: AddressSanitizer failed to allocate"


def library(name):
    """Path of the test operator library built from ops/NAME.c."""
    path = OPS / f"lib{name}.so"
    assert path.exists(), f"{path} is missing: build it with `make`, or set ONNXPTQ_TEST_OPS"
    return path


@dataclass
class Run:
    """A finished command."""

    args: list
    code: int
    out: str
    err: str
    path: Path = None

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def model(self):
        return onnx.load(self.path)

    def __str__(self):
        streams = f"--- stdout\n{self.out}\n--- stderr\n{self.err}"
        return f"{' '.join(self.args)}\nexit {self.code}\n{streams}"

    def ok(self):
        assert self.code == 0, str(self)
        return self

    def failed(self, *words, code=1):
        """One line on stderr that holds every one of `words`, whatever the case; no result
        on stdout."""
        codes = code if isinstance(code, tuple) else (code,)
        lines = [line for line in self.err.splitlines() if line.strip() and REFUSED not in line]
        assert self.code in codes, str(self)
        assert len(lines) == 1, f"expected one line on stderr\n{self}"
        if "--json" in self.args:
            assert set(self.json) == {"error"}, str(self)
        else:
            assert not self.out, f"expected nothing on stdout\n{self}"
        message = lines[0].removeprefix("onnxptq: ").lower()
        for word in map(str, words):
            is_name = len(word) == 1 and word.isalpha()  # and no letter of another word
            part = f"'{word.lower()}'" if is_name else word.lower()
            assert part in message, f"{word!r} is not in the message\n{self}"
        return self


def run_cli(*args, timeout=60, env=None, **options):
    """Runs the tool; a death by signal or a hang fails the test that asked."""
    assert CLI.exists(), f"{CLI} is missing: build it with `make`, or set ONNXPTQ_CLI"
    args = [str(CLI), *map(str, args)]
    done = subprocess.run(
        args,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        **options,
    )
    run = Run(args, done.returncode, done.stdout, done.stderr)
    assert 0 <= run.code < 128, f"killed by a signal\n{run}"
    return run


def files_in(folder):
    return sorted(p.name for p in Path(folder).iterdir())


class Bench:
    """One test's folder: writes cases to `in/`, quantizes them into `out/`."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.inside = self.folder / "in"
        self.out = self.folder / "out"
        self.inside.mkdir()
        self.out.mkdir()

    def write_model(self, model, name="model.onnx"):
        path = self.inside / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def write_data(self, arrays, name="calib.npz"):
        path = self.inside / name
        np.savez(path, **arrays)
        return path

    def quantize(
        self,
        case,
        *args,
        target="tensorrt",
        size_rules="off",
        libs=None,
        data=None,
        out="model.int8.onnx",
        gate=False,
        **options,
    ):
        """Runs `quantize` on a case with --json. `libs` and `data` replace the case's own. Without
        `gate` what comes out is neither refused for its quality nor repaired: small graphs show one
        thing each, and lose what they lose."""
        model = self.write_model(case.model)
        data = self.write_data(case.data) if data is None else data
        libs = [library(name) for name in case.libs] if libs is None else libs
        given = [word for lib in libs for word in ("--custom-op-lib", lib)]
        path = self.out / out
        run = run_cli(
            "quantize",
            model,
            "-o",
            path,
            *(["--data", data] if data else []),
            *given,
            "--target",
            target,
            "--size-rules",
            size_rules,
            "--json",
            *([] if gate else ["--allow-low-quality", "--no-repair"]),
            *args,
            **options,
        )
        run.path = path
        return run


# ONNX Runtime as the judge


def session(model, libs=(), optimize=True, save_to=None):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    if save_to:
        options.optimized_model_filepath = str(save_to)
    for name in libs:
        options.register_custom_ops_library(str(library(name)))
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def run_model(model, feeds, libs=(), optimize=True):
    """Outputs of every run in `feeds`, as a list of {output name: array}."""
    live = session(model, libs, optimize)
    names = [o.name for o in live.get_outputs()]
    return [dict(zip(names, live.run(None, feed))) for feed in feeds]


def sqnr_db(reference, got):
    """10 log10(sum ref^2 / sum (ref-got)^2) over pairs of arrays; infinite where they are equal."""
    signal = sum(float(np.sum(np.square(r, dtype=np.float64))) for r in reference)
    noise = sum(
        float(np.sum(np.square(np.subtract(r, g, dtype=np.float64))))
        for r, g in zip(reference, got)
    )
    return np.inf if noise == 0 else 10 * np.log10(signal / noise)


def compare(case, quantized, optimize=True, feeds=None):
    """{output: SQNR in dB} of a quantized model against the case's own; integer outputs must be
    equal."""
    feeds = case.feeds() if feeds is None else feeds
    reference = run_model(case.model, feeds, case.run_libs)
    got = run_model(quantized, feeds, case.run_libs, optimize)
    result = {}
    for name in reference[0]:
        want, have = [r[name] for r in reference], [g[name] for g in got]
        assert [(w.shape, w.dtype) for w in want] == [(h.shape, h.dtype) for h in have], name
        if want[0].dtype.kind == "f":
            result[name] = sqnr_db(want, have)
        else:
            assert all(np.array_equal(w, h) for w, h in zip(want, have)), name
    return result


def assert_quality(case, quantized, at_least=30.0):
    """Every float output of the quantized model reaches `at_least` dB with the runtime's
    optimizations on and off."""
    for optimize in (True, False):
        for name, value in compare(case, quantized, optimize).items():
            assert value >= at_least, (
                f"{name}: {value:.1f} dB, optimizations {'on' if optimize else 'off'}"
            )
