#!/usr/bin/env python3
"""Measures `onnxptq quantize` beside plain inference over the same samples and beside other quantizers: ONNX Runtime's
quantize_static and, where `make bench-peers` has been, NVIDIA's ModelOpt.

usage: run.py [--models resnet50,encoder] [--samples 32] [--methods max,percentile,mse,entropy,auto] [--repeat 5]
              [--threads 2] [--target tensorrt] [--without-peers] [--check] [--json FILE]

Each contender is a process of its own; they take turns, and medians are compared. Printed as Markdown.
The other quantizers run once. All of it takes about ten minutes.

calibration   our stage `calibrate`, session creation included; of quantize_static, what its calibrator does; of
              ModelOpt, which calibrates in the middle of other work, all of it but the start of Python.
              Its measure is plain inference over the samples that were calibrated with: session and runs.
processor     what calibration takes of all processors together: on one thread it is what calibration would take on a machine
              that does nothing else, and other work on the machine disturbs it little.
total         the whole process, from start to exit.
memory        largest sum of anonymous resident memory over the process tree, sampled every 10 ms, and the
              largest resident set. Of plain inference the Python interpreter's own share is taken off.

--check   fails when calibration takes more than 1.15 times plain inference for max, 1.25 times for the others, or
          memory more than 1.2 times
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import models

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
MAX_TIME, MAX_TIME_OF_MAX, MAX_MEMORY = 1.25, 1.15, 1.2
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
POLL_SECONDS = 0.01
MIB = 1 << 20


# ---- Memory of a process tree ----


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as listed:
                found += map(int, listed.read().split())
    except OSError:
        pass  # it ended, or this kernel does not tell
    return found


def resident(pid):
    """Anonymous and whole resident bytes of one process."""
    sizes = {"RssAnon": 0, "VmRSS": 0}
    try:
        with open(f"/proc/{pid}/status") as status:
            for line in status:
                name, _, value = line.partition(":")
                if name in sizes:
                    sizes[name] = int(value.split()[0]) * 1024
    except OSError:
        pass
    return sizes["RssAnon"], sizes["VmRSS"]


class Watch(threading.Thread):
    """Peak memory of a process and all that it starts, while it runs."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.done = pid, threading.Event()
        self.anonymous = self.resident = 0

    def run(self):
        while not self.done.wait(POLL_SECONDS):
            pids = [self.pid]
            for pid in pids:
                pids += children(pid)
            sizes = [resident(pid) for pid in pids]
            self.anonymous = max(self.anonymous, sum(size[0] for size in sizes))
            self.resident = max(self.resident, sum(size[1] for size in sizes))

    def stop(self):
        self.done.set()
        self.join()


# ---- Contenders ----


def run(command, threads):
    """Runs a contender on `threads` cores. Returns (what it printed as JSON, wall seconds, memory watch)."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
    )
    os.sched_setaffinity(process.pid, cores)
    watch = Watch(process.pid)
    watch.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - started
    watch.stop()
    if process.returncode:
        sys.exit(f"bench: {' '.join(map(str, command))}\n{err}")
    return json.loads(out[out.index("{") :]), seconds, watch


def plain(case):
    result, _, watch = run(contender("plain", case), case.threads)
    spent = result["session_seconds"] + result["run_seconds"]
    own = result["interpreter_bytes"]
    return {
        "calibrate": spent,
        "processor": result["processor_seconds"],
        "total": result["seconds"],
        "loop": result["run_seconds"],
        "anonymous": watch.anonymous - own,
        "resident": watch.resident - own,
    }


def ours(case, method):
    output = case.folder / "onnxptq.onnx"
    command = [case.cli, "quantize", case.model, "-o", output, "--force", "--data", case.data]
    command += ["--threads", case.threads, "--target", case.target, "--json", "--method", method]
    result, seconds, watch = run(command, case.threads)
    stages = {stage["name"]: stage["seconds"] for stage in result["stages"]}
    processor = {stage["name"]: stage["processor_seconds"] for stage in result["stages"]}
    return {
        "calibrate": stages["calibrate"],
        "processor": processor["calibrate"],
        "total": seconds,
        "anonymous": max(watch.anonymous, result["peak_memory"]["anonymous_bytes"]),
        "resident": max(watch.resident, result["peak_memory"]["resident_bytes"]),
        "stages": stages,
    }


def peer(case, python, kind, method):
    """Another quantizer, which shows in what it prints what calibrating took."""
    output = case.folder / f"{kind}.onnx"
    result, seconds, watch = run([*contender(kind, case, python), output, method], case.threads)
    return {
        "calibrate": result["calibrate_seconds"],
        "processor": None,
        "total": seconds,
        "anonymous": watch.anonymous,
        "resident": watch.resident,
    }


def contender(kind, case, python=sys.executable):
    script = HERE / "contenders.py"
    return [python, script, kind, case.model, case.data, case.calibrated, case.threads]


def contenders(given):
    """({name: function of a case} of those that take turns, the same of those that run once)"""
    turns = {"plain inference": plain}
    for method in given.methods:
        turns[f"onnxptq {method}"] = functools.partial(ours, method=method)
    peers = {}
    if given.peers:
        for method in ("MinMax", "Entropy"):
            peers[f"quantize_static {method}"] = functools.partial(
                peer, python=sys.executable, kind="quantize_static", method=method
            )
    if given.peers and PEERS_PYTHON.exists():
        for method in ("max", "entropy"):
            peers[f"ModelOpt {method}"] = functools.partial(
                peer, python=PEERS_PYTHON, kind="modelopt", method=method
            )
    return turns, peers


class Case:
    """A model, its data, and the settings that all contenders share."""

    def __init__(self, arguments, name, samples):
        self.name, self.samples = name, samples
        # From 16 on, every eighth sample is held back for checking and not calibrated with.
        self.calibrated = samples if samples < 16 else samples - samples // 8
        self.threads, self.target, self.cli = arguments.threads, arguments.target, arguments.cli
        self.folder = arguments.folder
        self.model = self.folder / f"{name}.onnx"
        self.data = self.folder / f"{name}-{samples}.npz"
        if not self.model.exists():
            models.MODELS[name](self.model)
        models.np.savez(self.data, **models.DATA[name](samples))

    def measure(self, turns, peers, repeat):
        """{contender: medians of what it reports}"""
        runs = {name: [] for name in turns}
        for _ in range(repeat):
            for name, function in turns.items():
                runs[name].append(function(self))
        results = {name: medians(results) for name, results in runs.items()}
        results |= {name: function(self) for name, function in peers.items()}
        self.data.unlink()
        return results


def medians(results):
    first = results[0]
    return {
        key: medians([result[key] for result in results])
        if isinstance(value, dict)
        else statistics.median(result[key] for result in results)
        for key, value in first.items()
    }


# ---- Report ----


def row(case, name, result, base):
    def against(key, digits, unit):
        if result[key] is None:
            return "-"
        value = f"{result[key] / unit:.{digits}f}"
        return value if result is base else f"{value} ({result[key] / base[key]:.2f}x)"

    cells = [
        against("calibrate", 2, 1),
        against("processor", 2, 1),
        against("total", 2, 1),
        against("anonymous", 0, MIB),
        against("resident", 0, MIB),
    ]
    return f"| {case.name}, {case.samples} samples | {name} | " + " | ".join(cells) + " |"


def failures(case, results):
    """What misses the promise, in words."""
    base = results["plain inference"]
    for name, own in results.items():
        if not name.startswith("onnxptq"):
            continue
        where = f"{case.name}, {case.samples} samples, {name}"
        limit = MAX_TIME_OF_MAX if name == "onnxptq max" else MAX_TIME
        time_ratio = own["calibrate"] / base["calibrate"]
        memory_ratio = own["anonymous"] / base["anonymous"]
        if time_ratio > limit:
            yield f"{where}: calibration takes {time_ratio:.2f} times plain inference, not {limit}"
        if memory_ratio > MAX_MEMORY:
            yield f"{where}: memory is {memory_ratio:.2f} times plain inference's, not {MAX_MEMORY}"


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    build = ROOT / os.environ.get("BUILD", "build")
    parser.add_argument("--models", default="resnet50,encoder")
    parser.add_argument("--samples", default="32")
    parser.add_argument("--methods", default="max,percentile,mse,entropy,auto")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--target", default="tensorrt")
    parser.add_argument("--without-peers", dest="peers", action="store_false")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cli", default=os.environ.get("ONNXPTQ_CLI", build / "onnxptq"))
    parser.add_argument("--folder", type=Path, default=build / "bench")
    given = parser.parse_args(arguments)
    given.samples = [int(n) for n in given.samples.split(",")]
    given.models = given.models.split(",")
    given.methods = given.methods.split(",")
    given.folder.mkdir(parents=True, exist_ok=True)
    return given


def main(arguments):
    given = parse(arguments)
    turns, peers = contenders(given)
    print(
        f"Medians of {given.repeat} interleaved runs, {given.threads} threads, batch 1, target {given.target}.\n"
    )
    print(
        "| model | contender | calibration, s | processor, s | total, s | anonymous, MiB | resident, MiB |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    everything, missed = [], []
    for name in given.models:
        for samples in given.samples:
            case = Case(given, name, samples)
            results = case.measure(turns, peers, given.repeat)
            for contender_name, result in results.items():
                print(row(case, contender_name, result, results["plain inference"]), flush=True)
            missed += failures(case, results)
            everything.append({"model": name, "samples": samples, "results": results})
    if given.json:
        given.json.write_text(json.dumps(everything, indent=1) + "\n")
    print(
        "",
        *(missed or ["Within the promised bounds."]),
        sep="\n",
    )
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
