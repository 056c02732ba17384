"""Nothing leaves the machine: no network call, no file outside the output's folder and the
temporary folder.

Recent builds of ONNX Runtime send telemetry from a thread of their own and keep files in the
user's cache folder, unless it is switched off before their environment exists."""

import os
import re
import shutil
import subprocess

import harness
import models
import pytest

pytestmark = pytest.mark.runtime

CALL = re.compile(r"^(?:\[pid +\d+\] |\d+ +)?(\w+)\((.*)$")
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
CHANGING = {
    "creat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "truncate",
    "mknod",
    "mknodat",
}


def environment(folder):
    """A home and a temporary folder of the test's own, and nothing that switches telemetry off
    from outside."""
    made = {}
    for name in (
        "HOME",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "TMPDIR",
    ):
        made[name] = str(folder / name.lower())
        os.mkdir(made[name])
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ORT_")}
    return {**kept, **made}


def command(bench, target):
    case = models.motivating()
    return [
        str(word)
        for word in (
            harness.CLI,
            "quantize",
            bench.write_model(case.model),
            "-o",
            bench.out / "q.onnx",
            "--data",
            bench.write_data(case.data),
            "--custom-op-lib",
            harness.library("dummy"),
            "--target",
            target,
            "--size-rules",
            "off",
        )
    ]


def test_no_files_in_the_users_folders(bench, target):
    env = environment(bench.folder)
    done = subprocess.run(
        command(bench, target),
        env=env,
        cwd=bench.inside,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for name in (
        "HOME",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "TMPDIR",
    ):
        assert os.listdir(env[name]) == [], name
    assert harness.files_in(bench.out) == ["q.onnx"]
    assert harness.files_in(bench.inside) == ["calib.npz", "model.onnx"]


def traced(bench, args, env):
    """The system calls of a command and all its children, as (name, rest of the line)."""
    log = bench.folder / "strace.log"
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed")
    probe = subprocess.run([strace, "-f", "-o", os.devnull, "true"], capture_output=True, text=True)
    if probe.returncode:
        pytest.skip(f"strace cannot trace here: {probe.stderr.strip()}")
    calls = "network,openat,open," + ",".join(f"?{name}" for name in sorted(CHANGING))
    # A leak check, in a build that has one, cannot run in a traced process.
    env = {**env, "ASAN_OPTIONS": env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
    done = subprocess.run(
        [strace, "-f", "-y", "-s", "4096", "-o", log, "-e", f"trace={calls}", *args],
        env=env,
        cwd=bench.inside,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [
        match.groups()
        for match in map(CALL.match, log.read_text(errors="replace").splitlines())
        if match
    ]


def test_no_network_call_and_no_file_elsewhere(bench, target):
    env = environment(bench.folder)
    calls = traced(bench, command(bench, target), env)
    assert [c for c in calls if c[0] == "openat"], "the trace is empty"

    # A socket pair between the tool and its worker is no network.
    network = [
        c
        for c in calls
        if re.search(r"AF_INET|AF_NETLINK|AF_PACKET", c[1]) or c[0] in ("socket", "connect", "bind")
    ]
    assert not network, network[:5]

    allowed = (str(bench.out), env["TMPDIR"])
    devices = ("/dev/null", "/dev/tty")
    for name, rest in calls:
        if name in CHANGING or (name in ("openat", "open", "creat") and WRITING.search(rest)):
            for folder, path in re.findall(
                r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"', rest
            ):
                absolute = os.path.normpath(os.path.join(folder or bench.inside, path))
                assert absolute in devices or absolute.startswith(allowed), f"{name}({rest}"
