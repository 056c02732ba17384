"""Several processes that share the samples: --jobs."""

import json
import signal
import time

import harness
import models
import pace
import pytest

CALIBRATED = [i for i in range(40) if i % 8 != 7]


def state(bench):
    return bench.out / "ranges.json.state"


@pytest.mark.parametrize("n", [2, 3, 7])
def test_ranges_are_those_of_one_process(bench, n):
    fast = pace.Pace(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    fast.ran()
    fast.run("--jobs", n).ok()
    assert sorted(fast.ran()) == sorted([0] * (n + 1) + CALIBRATED)
    assert fast.out.read_bytes() == want.read_bytes()
    assert harness.files_in(bench.out) == ["ranges.json"]


@pytest.mark.parametrize("name", ["encoder_layer", "motivating", "downsample_block"])
@pytest.mark.parametrize("method", ["max", "entropy"])
def test_the_model_is_that_of_one_process(bench, target, name, method):
    case = getattr(models, name)()
    one = bench.quantize(case, "--method", method, target=target, out="one.onnx").ok()
    args = ["--method", method, "--jobs", 3]
    three = bench.quantize(case, *args, target=target, out="three.onnx").ok()
    assert three.model == one.model
    same = ("calibration_samples", "check", "notes", "tensors", "weights", "nodes")
    assert [three.json.get(key) for key in same] == [one.json.get(key) for key in same]
    assert harness.files_in(bench.out) == ["one.onnx", "three.onnx"]


def test_progress_is_that_of_all(bench):
    slow = pace.Pace(bench, pace.case(milliseconds=30))
    run = slow.run("--jobs", 2, "--progress", "json", slow=True).ok()
    lines = [json.loads(line) for line in run.err.splitlines()]
    done = [(line["done"], line["total"]) for line in lines if line["stage"] == "calibrate"]
    assert len(done) > 3 and done == sorted(done)
    assert done[-1] == (len(CALIBRATED), len(CALIBRATED))


# Deaths


def crash(slow, sample, deaths):
    slow.fuse.write_text("x" * deaths)
    return {"PACE_CRASH": str(sample), "PACE_FUSE": str(slow.fuse)}


def test_an_accident_loses_no_sample(bench):
    """A member that dies once is begun again; the others notice nothing."""
    fast = pace.Pace(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    fast.ran()
    run = fast.run("--jobs", 2, env=crash(fast, 20, 1)).ok()
    assert "warning" in run.err and "sample 20" in run.err and "libpace.so" in run.err, str(run)
    assert fast.out.read_bytes() == want.read_bytes()
    ran = fast.ran()
    assert 20 in CALIBRATED[::2]
    assert all(ran.count(sample) == 1 for sample in CALIBRATED[1::2]), ran
    assert set(ran) == set(CALIBRATED)
    assert harness.files_in(bench.out) == ["ranges.json"]


def test_a_member_that_dies_goes_on_from_its_state(bench):
    """What it had saved is not run again."""
    slow = pace.Pace(bench, pace.case(milliseconds=200))
    run = slow.run("--jobs", 2, env=crash(slow, 38, 1), slow=True).ok()
    assert "sample 38" in run.err
    ran = slow.ran()
    member = CALIBRATED[CALIBRATED.index(38) % 2 :: 2]
    again = [sample for sample in member if ran.count(sample) > 1 and sample != 0]
    assert again and len(again) < len(member) - 5, again


@pytest.mark.parametrize("resume", [False, True])
def test_a_fault_is_named(bench, resume):
    fast = pace.Pace(bench, pace.case())
    args = ["--resume"] if resume else []
    run = fast.run("--jobs", 2, *args, env=crash(fast, 20, 9))
    run.failed("/pace", "my.pace::Pace", "libpace.so", "sample 20 of calibrate")
    assert fast.fuse.read_text() == "x" * 7, "twice"
    assert not fast.out.exists()
    if not resume:
        assert harness.files_in(bench.out) == []
        return
    fast.ran()
    fast.run(*args).ok()
    assert set(fast.ran()) <= {0, *CALIBRATED[CALIBRATED.index(20) % 2 :: 2]}
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    assert fast.out.read_bytes() == want.read_bytes()


def test_a_hang_is_named(bench):
    from test_faulty_libraries import assert_blamed, faulty

    run = bench.quantize(faulty("Hang", 1), "--jobs", 2, "--timeout", 2)
    assert_blamed(bench, run, "2 s (--timeout)", "of calibrate")


@pytest.mark.parametrize("op", ["Crash", "Exit", "Fail"])
def test_other_faults_are_named(bench, op):
    from test_faulty_libraries import assert_blamed, faulty

    assert_blamed(
        bench, bench.quantize(faulty(op, 1), "--jobs", 2), "of calibrate" * (op != "Fail")
    )


def test_a_mistake_is_told_once(bench):
    fast = pace.Pace(bench, pace.case())
    fast.run("--jobs", 3, data=bench.folder / "none.npz").failed("none.npz")
    fast.run("--jobs", 3, "--target", "nobody").failed("nobody", code=2)
    fast.run("--jobs", 3, "--json", data=bench.folder / "none.npz").failed("none.npz")
    fast.run("--jobs", 300).failed("300", code=2)
    fast.run("--jobs", 0).failed("--jobs", code=2)
    fast.run("--jobs", 2, "--in-process").failed("--jobs", "--in-process", code=2)
    assert harness.files_in(bench.out) == []


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("then", [1, 3])
def test_a_team_goes_on_as_another(bench, number, then):
    """Ended with two processes, resumed with one or three."""
    slow = pace.Pace(bench, pace.case(milliseconds=200))
    process = slow.start("--jobs", 2)
    begun = time.monotonic()
    parts = [bench.out / f"ranges.json.state.{i}" for i in (1, 2)]
    slow.wait_for(lambda: all(part.exists() for part in parts), process)
    _, err = slow.kill(process, number)
    assert time.monotonic() - begun < 20
    ran = slow.ran()
    if number == signal.SIGINT:
        assert "--resume" in err
        assert harness.files_in(bench.out) == ["ranges.json.state"]
        assert json.loads(state(bench).read_text())["samples"] == len(ran) - 2
    slow.run("--resume", "--jobs", then).ok()
    again = slow.ran()
    assert len(again) < len(CALIBRATED) and set(ran) | set(again) == set(CALIBRATED)
    want = bench.folder / "want.json"
    slow.run(out=want).ok()
    assert slow.out.read_bytes() == want.read_bytes()
    assert harness.files_in(bench.out) == ["ranges.json"]


def test_a_join_that_was_cut_short(bench):
    """Killed when the files of all were one already, and not yet removed: nothing counts twice."""
    slow = pace.Pace(bench, pace.case(milliseconds=200))
    process = slow.start("--jobs", 2)
    parts = [bench.out / f"ranges.json.state.{i}" for i in (1, 2)]
    slow.wait_for(lambda: all(part.exists() for part in parts), process)
    slow.kill(process)
    kept = [part.read_bytes() for part in parts]
    process = slow.start("--jobs", 2, "--resume")
    slow.wait_for(lambda: state(bench).exists(), process)
    slow.kill(process, signal.SIGINT)
    for part, data in zip(parts, kept, strict=True):
        part.write_bytes(data)
    slow.run("--resume").ok()
    want = bench.folder / "want.json"
    slow.run(out=want).ok()
    assert slow.out.read_bytes() == want.read_bytes()
    assert harness.files_in(bench.out) == ["ranges.json"]


def test_states_of_different_runs_do_not_join(bench):
    """The same samples in two files, which no team leaves."""
    slow = pace.Pace(bench, pace.case(milliseconds=20))
    for name, n in (("ranges.json.state.1", 8), ("ranges.json.state.2", 12)):
        process = slow.start("--resume", "--state", bench.out / name)
        slow.wait_for(
            lambda n=n: slow.log.exists() and slow.log.read_text().count("\n") > n, process
        )
        slow.kill(process, signal.SIGINT)
        slow.ran()
    for args in (["--resume"], ["--resume", "--jobs", 2]):
        slow.run(*args).failed("ranges.json.state.2", "another run", code=2)
    assert not slow.out.exists()


def test_jobs_and_shards(bench):
    fast = pace.Pace(bench, pace.case())
    want = bench.folder / "want.json"
    fast.run(out=want).ok()
    parts = [bench.out / f"{i}.json" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        fast.run("--shard", f"{i}/2", "--jobs", 2, out=part).ok()
    merged = bench.out / "merged.json"
    harness.run_cli("merge", *parts, "-o", merged).ok()
    assert merged.read_bytes() == want.read_bytes()
