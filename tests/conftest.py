"""Fixtures of the tests. `--full` adds what takes long; everything else is quick and needs no
network."""

import os
import sys
from pathlib import Path

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before any onnxruntime is loaded, ours or Python's

# The Python package as it lies in the tree, with the build's engine.
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("ONNXPTQ_LIBRARY", str(ROOT / "build" / "libonnxptq.so"))

import pytest

# Their assertions tell what they compared, as those of the tests do.
pytest.register_assert_rewrite("expect", "harness", "opsets", "preparation", "qdq")

import harness


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the tests marked `full` too")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="runs with --full"))


@pytest.fixture
def bench(tmp_path):
    """A folder with `in/` (model, data) and `out/` (nothing but the result), and the command to
    quantize in it."""
    return harness.Bench(tmp_path)


@pytest.fixture(params=["tensorrt", "onnxruntime"])
def target(request):
    return request.param
