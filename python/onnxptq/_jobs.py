"""Calibration shared among processes of this machine. Each takes its part of the samples and leaves
a state file; the run that follows finds all of it done."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

from . import _engine, _library
from ._errors import Error


def _threads(n: int) -> int:
    return max(1, len(os.sched_getaffinity(0)) // n)


def _start(work: dict[str, Any]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "onnxptq._jobs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    pickle.dump(work, process.stdin)
    process.stdin.close()
    process.stdin = None
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    text, _ = process.communicate()
    if process.returncode == 0:
        return
    fault = pickle.loads(text) if text else None
    if isinstance(fault, Error):
        raise fault
    raise Error(
        "runtime",
        f"cannot calibrate: a process that shared the samples ended with code {process.returncode}; "
        "leave jobs out to see what it does",
    )


def share(work: dict[str, Any], n: int) -> None:
    """Runs `n` processes until all have done their part of `work`, the arguments of run_path()."""
    given = work["given"]
    state = os.fsencode(given["state"])
    _library.call("onnxptq_state_join" if given.get("resume") else "onnxptq_state_discard", state)
    member = {**given, "resume": True, "save_ranges": None}
    member["threads"] = given.get("threads") or _threads(n)
    processes = []
    try:
        for part in range(n):
            processes.append(_start({**work, "given": {**member, "part": (part, n)}}))
        for process in processes:
            _end(process)
    except BaseException:
        for process in processes:
            process.terminate()
            process.wait()
        if not given.get("resume"):
            _library.call("onnxptq_state_discard", state)
        raise


def _member() -> None:
    try:
        _engine.run_path(**pickle.load(sys.stdin.buffer), steps=("plan", "calibrate"))
    except Error as fault:
        sys.stdout.buffer.write(pickle.dumps(fault))
        sys.exit(1)


if __name__ == "__main__":
    _member()
