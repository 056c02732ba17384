"""The pages: what they show runs, and they become a site without a broken link."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import harness
import models
import numpy as np
import onnxptq
import pytest

DOCS = harness.ROOT / "docs"
# Commands that need what is not here: the launcher of a cluster, or another runtime.
ELSEWHERE = ("mpirun ", "srun ", "--ort-lib /opt/", "--providers openvino")


def commands(page):
    """Every line that begins with onnxptq, or a launcher before it, as one line."""
    text = (DOCS / page).read_text().replace("\\\n", " ")
    return re.findall(r"^ {4}((?:\w+ .*)?onnxptq +[a-z].*?)(?: +#.*)?$", text, re.MULTILINE)


PAGES = sorted(path.name for path in DOCS.glob("*.md") if commands(path.name))


@pytest.fixture
def reader(tmp_path):
    """The folder of someone who follows them, and the environment with the command."""
    case = models.two_convolutions()
    (tmp_path / "model.onnx").write_bytes(case.model.SerializeToString())
    rows = {name: np.resize(array, (16, *array.shape[1:])) for name, array in case.data.items()}
    np.savez(tmp_path / "calib.npz", **rows)
    (tmp_path / "calib").mkdir()
    for i in range(16):
        sample = {name: array[i : i + 1] for name, array in rows.items()}
        np.savez(tmp_path / "calib" / f"{i:02}.npz", **sample)
    shutil.copy(harness.library("dummy"), tmp_path / "libmyops.so")
    for name in ("monday.json", "tuesday.json", "ranges.2.json"):
        part = {"shard": (2, 2)} if name == "ranges.2.json" else {}
        onnxptq.calibrate(tmp_path / "model.onnx", tmp_path / name, tmp_path / "calib", **part)
    env = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
    return tmp_path, {**os.environ, "PATH": f"{harness.CLI.parent}:{os.environ['PATH']}", **env}


def run(command, folder, env):
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("page", PAGES)
def test_commands(page, reader):
    folder, env = reader
    for command in commands(page):
        done = run(command, folder, env)
        if any(words in command for words in ELSEWHERE):
            assert done.returncode != 2, f"{command}\n{done.stderr}"  # no wrong usage
        else:
            assert done.returncode == 0, f"{command}\n{done.stderr}"
        for path in folder.glob("*.int8.onnx"):
            path.unlink()


def test_every_page_with_commands_was_found():
    assert {"distributed.md", "precision.md", "ranges.md"} <= set(PAGES)


def test_python_of_the_calibration_page(tmp_path, monkeypatch):
    text = (DOCS / "calibration-data.md").read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    images = np.zeros((2, 3, 4, 4), np.float32)
    monkeypatch.chdir(tmp_path)
    exec(source, {"images": images, "ids": np.zeros((2, 4)), "mask": np.ones((2, 4))})
    with np.load("calib.npz") as file:
        assert set(file.files) == {"input_ids", "attention_mask"}


# The site


@pytest.fixture(scope="module")
def pages():
    path = harness.ROOT / "tools" / "docs_pages.py"
    spec = importlib.util.spec_from_file_location("docs_pages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_c_reference(pages):
    """Every function, struct, enum and callback of the header, with its words."""
    page = pages.c_page()
    header = re.sub(r"/\*.*?\*/", "", pages.HEADER.read_text(), flags=re.DOTALL)
    functions = set(re.findall(r"\b(onnxptq_\w+)\(", header))
    for name in {name for name in functions if not name.endswith("_init")}:
        assert f"### `{name}()`" in page, name
    for name in re.findall(r"^(?:struct|enum) (onnxptq_\w+) \{", header, re.MULTILINE):
        assert f"### `{name}`" in page, name
    for name in re.findall(r"\(\*(onnxptq_\w+)\)", header):
        assert f"### `{name}`" in page, name
    assert "Runs one sample to learn types, shapes and ranges" in page


def test_python_reference(pages):
    page = pages.python_page()
    for name in set(onnxptq.__all__) - {"CalibrationData"}:
        assert f"### `{name}`" in page, name
    assert "custom_op_libs:" in page and "engine_settings" in page and "calibrate_method" in page


def test_the_site(tmp_path):
    mkdocs = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*mkdocs, "--site-dir", str(tmp_path / "site")],
        cwd=harness.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    html = {path.name for path in (tmp_path / "site").glob("*.html")}
    sources = {f"{path.stem}.html" for path in DOCS.glob("*.md")}
    assert sources | {"index.html", "c-api.html", "python-api.html", "CHANGELOG.html"} <= html
