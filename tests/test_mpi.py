"""Under mpirun: ranks share the samples, and the first makes the result."""

import json
import os
import shutil
import signal
import subprocess
import time

import harness
import models
import pace
import pytest

CALIBRATED = [i for i in range(40) if i % 8 != 7]
MODULE = harness.CLI.parent / "onnxptq-mpi.so"

pytestmark = pytest.mark.skipif(
    shutil.which("mpirun") is None or not MODULE.exists(), reason="needs Open MPI"
)


def ranks(n, words, env=None, more=()):
    """`more`: further groups of ranks with words of their own."""
    base = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(n), *map(str, words)]
    for group in more:
        base += [":", *map(str, group)]
    return subprocess.Popen(
        base,
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            # Open MPI leaves some memory behind.
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0",
            **(env or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(n, words, **options):
    process = ranks(n, words, **options)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return harness.Run([*map(str, words)], process.returncode, out, err)


def own_lines(done):
    """What onnxptq says; mpirun adds a banner of its own."""
    return [line for line in done.err.splitlines() if line.startswith("onnxptq: ")]


class Ranks(pace.Pace):
    def mpirun(self, n, *args, env=None, **options):
        words = [harness.CLI, *self.words(*args, **options)]
        return run(n, words, env={**self.env, **(env or {})})


@pytest.mark.parametrize("n", [1, 2, 4])
def test_ranges_are_those_of_one_process(bench, n):
    fast = Ranks(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    fast.ran()
    done = fast.mpirun(n).ok()
    assert "35 calibration samples" in done.out and not own_lines(done)
    traces = n + 1 if n > 1 else 1
    assert sorted(fast.ran()) == sorted([0] * traces + CALIBRATED)
    assert fast.out.read_bytes() == want.read_bytes()
    assert harness.files_in(bench.out) == ["ranges.json"]


@pytest.mark.parametrize("name", ["encoder_layer", "motivating"])
@pytest.mark.parametrize("args", [[], ["--method", "entropy"], ["--jobs", "2"]])
def test_the_model_is_that_of_one_process(bench, target, name, args):
    case = getattr(models, name)()
    one = bench.quantize(case, *args, target=target, out="one.onnx").ok()
    words = [word if word != str(one.path) else bench.out / "all.onnx" for word in one.args]
    done = run(4, words).ok()
    assert (bench.out / "all.onnx").read_bytes() == one.path.read_bytes()
    report = json.loads(done.out)
    same = ("calibration_samples", "check", "notes", "tensors", "weights", "nodes")
    assert [report.get(key) for key in same] == [one.json.get(key) for key in same]
    assert harness.files_in(bench.out) == ["all.onnx", "one.onnx"]


def test_ranks_without_a_folder_in_common(bench):
    """What a rank saw comes to the first by MPI."""
    fast = Ranks(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    words = [str(harness.CLI), *fast.words(out="r.json")]
    folders = [bench.out / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    a, b, c = (["-wdir", folder, *words] for folder in folders)
    done = run(1, a, more=[["-n", 1, *b], ["-n", 1, *c]], env=fast.env)
    assert done.code == 0, str(done)
    assert (folders[0] / "r.json").read_bytes() == want.read_bytes()
    assert [harness.files_in(folder) for folder in folders] == [["r.json"], [], []]


def test_what_cannot_be_shared_is_done_once(bench):
    fast = Ranks(bench, pace.case(n=4))
    fast.run().ok()
    merged = bench.out / "merged.json"
    done = run(3, [harness.CLI, "merge", fast.out, "-o", merged]).ok()
    assert len(done.out.splitlines()) == 1 and merged.read_bytes() == fast.out.read_bytes()


# Failures


def test_a_fault_in_one_rank_ends_all(bench):
    slow = Ranks(bench, pace.case(milliseconds=400))
    slow.fuse.write_text("x" * 9)
    env = {"PACE_CRASH": "1", "PACE_FUSE": str(slow.fuse)}
    begun = time.monotonic()
    done = slow.mpirun(2, env=env)
    assert done.code == 1 and time.monotonic() - begun < 6, str(done)
    (line,) = own_lines(done)
    for word in ("/pace", "libpace.so", "sample 1 of calibrate"):
        assert word in line, line
    assert "Process received signal" not in done.err
    assert harness.files_in(bench.out) == []


def test_an_error_in_one_rank_is_that_of_all(bench):
    """Its message, once, and its exit code."""
    fast = Ranks(bench, pace.case(milliseconds=50))
    words = [str(harness.CLI), *fast.words(data="calib.npz")]
    begun = time.monotonic()
    here, there = ["-wdir", bench.inside, *words], ["-wdir", bench.folder, *words]
    done = run(1, here, more=[["-n", 1, *there]], env=fast.env)
    assert done.code == 1 and time.monotonic() - begun < 10, str(done)
    (line,) = own_lines(done)
    assert "calib.npz" in line and "no such file" in line
    assert harness.files_in(bench.out) == []


def test_commands_that_differ_share_nothing(bench):
    """As where a script gives each rank a shard of its own."""
    fast = Ranks(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    parts = [bench.out / f"{i}.json" for i in (1, 2)]
    one, two = (
        [str(harness.CLI), *fast.words("--shard", f"{i}/2", out=part)]
        for i, part in enumerate(parts, 1)
    )
    assert run(1, one, more=[["-n", 1, *two]], env=fast.env).code == 0
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *parts, "-o", merged).ok()
    assert merged.read_bytes() == want.read_bytes()


@pytest.mark.parametrize("args, code", [(["--bogus"], 2), (["--target", "nobody"], 2),
                                        (["--data", "none.npz"], 1), (["--jobs", "999"], 2)])  # fmt: skip
def test_a_mistake_is_told_once(bench, args, code):
    done = Ranks(bench, pace.case(n=4)).mpirun(3, *args)
    assert done.code == code and len(own_lines(done)) == 1, str(done)
    assert args[-1].strip("-") in own_lines(done)[0]
    assert harness.files_in(bench.out) == []


def test_a_failure_of_the_last_step_is_that_of_all(bench):
    """The first rank alone makes the result; what stops it is the exit code of all."""
    fast = Ranks(bench, pace.case())
    blocked = bench.out / "ranges.json"
    blocked.write_text("old")
    done = fast.mpirun(2)
    assert done.code == 2 and len(own_lines(done)) == 1
    assert blocked.read_text() == "old" and harness.files_in(bench.out) == ["ranges.json"]


def test_without_the_module_it_says_so(bench):
    """A program that knows nothing of mpirun would write the same file several times."""
    folder = bench.folder / "moved"
    folder.mkdir()
    for file in ("onnxptq", "libonnxptq.so.0"):
        shutil.copy(harness.CLI.parent / file, folder)
    fast = Ranks(bench, pace.case(n=4))
    words = [folder / "onnxptq", *fast.words()]
    done = run(2, words, env={**fast.env, "LD_LIBRARY_PATH": str(folder)})
    assert done.code == 1, str(done)
    assert "without MPI" in own_lines(done)[0] and "--jobs" in own_lines(done)[0]
    assert not fast.out.exists()


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_was_ended_goes_on(bench, number):
    """Also as a single process."""
    slow = Ranks(bench, pace.case(milliseconds=200))
    process = ranks(2, [harness.CLI, *slow.words()], env=slow.env)
    parts = [bench.out / f"ranges.json.state.{i}" for i in (1, 2)]
    slow.wait_for(lambda: all(part.exists() for part in parts), process)
    if number == signal.SIGKILL:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.send_signal(number)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while any(p.suffix == ".tmp" for p in bench.out.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    ran = slow.ran()
    slow.run("--resume").ok()
    again = slow.ran()
    assert len(again) < len(CALIBRATED) and set(ran) | set(again) == set(CALIBRATED)
    want = bench.folder / "want.json"
    slow.run(out=want).ok()
    assert slow.out.read_bytes() == want.read_bytes()
    assert harness.files_in(bench.out) == ["ranges.json"]
