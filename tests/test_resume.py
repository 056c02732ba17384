"""Calibrations that are killed or interrupted, and go on."""

import json
import signal

import harness
import numpy as np
import pace
import pytest

CALIBRATED = [i for i in range(40) if i % 8 != 7]


@pytest.fixture
def slow(bench):
    """About 3.5 seconds of calibration; the state is saved every two."""
    return pace.Pace(bench, pace.case(milliseconds=100))


def whole(slow, name="whole.json"):
    path = slow.bench.folder / name
    slow.run(out=path).ok()
    slow.ran()
    return path.read_bytes()


def state(slow):
    return slow.bench.out / "ranges.json.state"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_ended_goes_on(slow, number):
    """The same bytes, and no sample is run twice but those since the last state, and the trace's."""
    want = whole(slow)
    process = slow.start()
    slow.wait_for(lambda: state(slow).exists(), process)
    _, err = slow.kill(process, number)
    ran = slow.ran()
    assert state(slow).exists() and not slow.out.exists()
    if number == signal.SIGINT:
        assert "--resume" in err and "ranges.json.state" in err
    done = json.loads(state(slow).read_text())["samples"]
    assert 0 < done < len(CALIBRATED) and done <= len(ran)
    if number == signal.SIGINT:
        assert done == len(ran) - 1, "the trace is one run"
    slow.run("--resume").ok()
    assert slow.ran() == [0, *CALIBRATED[done:]]
    assert slow.out.read_bytes() == want
    assert harness.files_in(slow.bench.out) == ["ranges.json"]


def test_quantizing_goes_on_too(slow):
    path = slow.bench.out / "q.onnx"
    want = slow.run("--json", command="quantize", out=slow.bench.folder / "want.onnx").ok()
    slow.ran()
    process = slow.start(command="quantize", out=path)
    left = slow.bench.out / "q.onnx.state"
    slow.wait_for(left.exists, process)
    slow.kill(process)
    slow.ran()
    got = slow.run("--resume", "--json", command="quantize", out=path).ok()
    assert path.read_bytes() == (slow.bench.folder / "want.onnx").read_bytes()
    assert harness.files_in(slow.bench.out) == ["q.onnx"]
    same = ("calibration_samples", "check", "notes", "tensors", "weights")
    assert [got.json[key] for key in same] == [want.json[key] for key in same]


def test_in_one_process_too(bench):
    """That for debuggers."""
    slow = pace.Pace(bench, pace.case(milliseconds=20))
    want = whole(slow)
    process = slow.start("--resume", "--in-process")
    slow.wait_for(lambda: slow.log.exists() and slow.log.read_text().count("\n") > 5, process)
    _, err = slow.kill(process, signal.SIGINT)
    assert "--resume" in err and state(slow).exists()
    n = len(slow.ran()) - 1
    slow.run("--resume", "--in-process").ok()
    assert len(slow.ran()) - 1 == len(CALIBRATED) - n
    assert slow.out.read_bytes() == want


def test_without_a_state_it_begins(bench):
    fast = pace.Pace(bench, pace.case())
    want = whole(fast)
    fast.run("--resume").ok()
    assert fast.out.read_bytes() == want
    assert harness.files_in(bench.out) == ["ranges.json"]


@pytest.fixture
def left(bench):
    """A state that an interrupted run left, of a quick model."""
    slow = pace.Pace(bench, pace.case(milliseconds=20))
    process = slow.start("--resume")
    slow.wait_for(lambda: slow.log.exists() and slow.log.read_text().count("\n") > 5, process)
    slow.kill(process, signal.SIGINT)
    assert state(slow).exists()
    slow.ran()
    return slow


def test_the_state_may_have_a_name(bench, left):
    named = bench.folder / "my.state"
    state(left).rename(named)
    left.run("--resume", "--state", named).ok()
    assert len(left.ran()) < len(CALIBRATED) and not named.exists()


@pytest.mark.parametrize("what", ["model", "data", "values", "batch", "selection", "shard"])
def test_a_state_of_another_run_is_refused(bench, left, what):
    kept = state(left).read_bytes()
    args = {"batch": ["--batch", 2], "selection": ["--exclude-nodes", "mm2"],
            "shard": ["--shard", "1/2"]}.get(what, [])  # fmt: skip
    if what == "model":
        bench.write_model(pace.case(width=16, milliseconds=19).model)
    elif what == "data":
        bench.write_data(pace.case(n=48).data)
    elif what == "values":
        data = pace.case().data
        data["X"][38, 3] += 1
        bench.write_data(data)
    left.run("--resume", *args).failed("ranges.json.state", "another", code=2)
    assert state(left).read_bytes() == kept and not left.out.exists()


def test_without_resume_it_begins_anew(left):
    left.run().ok()
    assert left.ran() == [0, *CALIBRATED]
    assert harness.files_in(left.bench.out) == ["ranges.json"]


def test_a_failure_before_calibration_keeps_an_older_state(left):
    left.run("--target", "nobody").failed("nobody", code=2)
    left.run(data=left.bench.folder / "none.npz").failed("none.npz")
    assert state(left).exists()


@pytest.mark.parametrize("text", ["", "mine", '{"format":"onnxptq ranges","version":1}'])
def test_a_file_that_is_no_state_is_left_alone(bench, text):
    fast = pace.Pace(bench, pace.case())
    state(fast).write_text(text)
    for args in ([], ["--resume"]):
        run = fast.run(*args)
        assert run.code in (1, 2) and "ranges.json.state" in run.err, str(run)
    assert state(fast).read_text() == text and not fast.out.exists()


def test_a_broken_state_is_refused_or_replaced(left):
    text = state(left).read_text()
    state(left).write_text(text[:-20])
    left.run("--resume").failed("ranges.json.state")
    left.run().ok()
    assert harness.files_in(left.bench.out) == ["ranges.json"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_fault_leaves_a_state_only_for_resume(bench, resume):
    slow = pace.Pace(bench, pace.case(milliseconds=100))
    slow.fuse.write_text("x")
    env = {"PACE_CRASH": "38", "PACE_FUSE": str(slow.fuse)}
    args = ["--resume"] if resume else []
    slow.run(*args, env=env, slow=True).failed("/pace", "sample 38")
    assert harness.files_in(bench.out) == (["ranges.json.state"] if resume else [])
    if resume:
        want = whole(slow)
        slow.run("--resume").ok()
        assert slow.out.read_bytes() == want and len(slow.ran()) < len(CALIBRATED)


# Shards


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_shards_merge_into_the_whole(bench, n):
    """Each sample in one shard; the same bytes, and the same model."""
    fast = pace.Pace(bench, pace.case())
    want = whole(fast)
    parts, ran = [], []
    for i in range(1, n + 1):
        parts.append(bench.out / f"{i}.json")
        fast.run("--shard", f"{i}/{n}", out=parts[-1]).ok()
        trace, *samples = fast.ran()
        assert trace == 0
        ran += samples
    assert sorted(ran) == CALIBRATED
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *reversed(parts), "-o", merged).ok()
    assert merged.read_bytes() == want


def test_shards_of_batches(bench):
    """What runs together stays together: the runtime's arithmetic may depend on it."""
    fast = pace.Pace(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run("--batch", 3, out=want).ok()
    parts = [bench.out / f"{i}.json" for i in (1, 2)]
    fast.ran()
    for i, part in enumerate(parts, 1):
        fast.run("--batch", 3, "--shard", f"{i}/2", out=part).ok()
    assert sorted(fast.ran()) == sorted([0, 0, *CALIBRATED[::3]])
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *parts, "-o", merged).ok()
    assert merged.read_bytes() == want.read_bytes()


def test_a_shard_goes_on(bench):
    slow = pace.Pace(bench, pace.case(milliseconds=20))
    want = bench.folder / "want.json"
    slow.run("--shard", "2/2", out=want).ok()
    slow.ran()
    process = slow.start("--resume", "--shard", "2/2")
    slow.wait_for(lambda: slow.log.exists() and slow.log.read_text().count("\n") > 5, process)
    slow.kill(process, signal.SIGTERM)
    n = len(slow.ran()) - 1
    slow.run("--resume", "--shard", "2/2").ok()
    assert len(slow.ran()) - 1 + n == len(CALIBRATED) // 2
    assert slow.out.read_bytes() == want.read_bytes()


def test_more_shards_than_samples(bench):
    """A shard without samples adds nothing."""
    case = pace.case(n=3)
    fast = pace.Pace(bench, case)
    want = whole(fast)
    parts = [bench.out / f"{i}.json" for i in range(1, 6)]
    for i, part in enumerate(parts, 1):
        fast.run("--shard", f"{i}/5", out=part).ok()
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *parts, "-o", merged).ok()
    assert merged.read_bytes() == want


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "/2", "1/0", "a/b", "1/2/3", "-1/2"])
def test_a_shard_is_two_numbers(bench, text):
    pace.Pace(bench, pace.case(n=2)).run("--shard", text).failed("--shard", code=2)


def test_a_shard_makes_no_model(bench):
    fast = pace.Pace(bench, pace.case(n=2))
    path = bench.out / "q.onnx"
    fast.run("--shard", "1/2", command="quantize", out=path).failed("q.onnx", "merge", code=2)
    cache = bench.out / "r.cache"
    fast.run("--shard", "1/2", out=cache).failed("r.cache", "merge", code=2)
    assert np.all([not p.exists() for p in (path, cache)])
