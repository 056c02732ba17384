"""A model whose runs take their time and are told, one line each, in a log."""

import os
import signal
import subprocess
import time

import harness
import models
import numpy as np


def case(n=40, milliseconds=0.0, width=16):
    """Sample i begins with the number i; behind the operator a network that is quantized."""
    g = models.Graph(my_dot_pace=1)
    x = g.input("X", ["n", width])
    x = g.node("Pace", [x], "p", "/pace", "my.pace", alpha=float(milliseconds))
    x = g.node("Relu", [g.matmul(x, "m1", width, 32, "mm1")], "r1", "relu1")
    x = g.node("Tanh", [g.matmul(x, "m2", 32, 32, "mm2")], "t", "tanh")
    g.matmul(x, "Y", 32, 8, "mm3")
    g.output("Y", ["n", 8])
    data = models.noise(n, width)
    data[:, 0] = np.arange(n)
    return models.Case(g.build(), {"X": data}, libs=("pace",))


class Pace:
    """Commands on such a model, and what they ran."""

    def __init__(self, bench, case):
        self.bench = bench
        self.model = bench.write_model(case.model)
        self.data = bench.write_data(case.data)
        self.log = bench.folder / "log"
        self.fuse = bench.folder / "fuse"
        self.out = bench.out / "ranges.json"

    def words(self, *args, command="calibrate", out=None, data=None):
        base = [command, self.model, "-o", out or self.out, "--data", data or self.data]
        base += ["--custom-op-lib", harness.library("pace"), "--size-rules", "off"]
        return [*map(str, base), *map(str, args)]

    @property
    def env(self):
        return {"PACE_LOG": str(self.log)}

    def run(self, *args, env=None, slow=False, **options):
        speed = {} if slow else {"PACE_FAST": "1"}
        env = {**self.env, **speed, **(env or {})}
        return harness.run_cli(*self.words(*args, **options), env=env)

    def start(self, *args, **options):
        """In a group of its own, so that all of it can be killed at once."""
        return subprocess.Popen(
            [str(harness.CLI), *self.words(*args, **options)],
            env={**os.environ, **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self, process, number=signal.SIGKILL):
        os.killpg(process.pid, number)
        return process.communicate(timeout=20)

    def ran(self):
        """Numbers of the samples, in the order in which they ran; forgets them."""
        lines = self.log.read_text().split() if self.log.exists() else []
        self.log.write_text("")
        return [int(float(line)) for line in lines]

    def wait_for(self, ready, process, seconds=30):
        deadline = time.monotonic() + seconds
        while not ready() and time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        assert ready(), "it took too long"
