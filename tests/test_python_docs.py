"""What the pages on Python show runs, block after block of a page in one program."""

import ast
import re
import shutil

import harness
import models
import numpy as np
import pytest

DOCS = harness.ROOT / "docs"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Reader:
    """Samples as ONNX Runtime's calibration readers give them, as often as they are asked for."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def get_next(self):
        if self.at == len(self.data["X"]):
            self.at = 0
            return None
        self.at += 1
        return {"X": self.data["X"][self.at - 1 : self.at]}


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """The working folder of someone who reads them."""
    case = models.motivating()
    for node in case.model.graph.node:
        if node.name == "conv2":
            node.name = "/head/conv"
    (tmp_path / "model.onnx").write_bytes(case.model.SerializeToString())
    np.savez(tmp_path / "calib.npz", **case.data)
    shutil.copy(harness.library("dummy"), tmp_path / "libmyops.so")
    monkeypatch.chdir(tmp_path)
    return Reader(case.data)


def blocks(page, language="python"):
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["python.md", "migration.md"])
def test_blocks_run(page, reader, capsys, tmp_path):
    names = {"reader": reader}
    found = blocks(page)
    assert len(found) >= 2
    for source in found:
        exec(compile(source, page, "exec"), names)
    output = capsys.readouterr().out
    assert "'Y': " in output or "Y: " in output
    assert (tmp_path / "model.int8.onnx").exists()


def test_the_calls_before_and_after_differ_as_said():
    """In the import, the libraries, and what is done with the result."""
    before, after = blocks("migration.md", "python-before"), blocks("migration.md")
    assert len(before) == len(after) == 2

    def arguments(source):
        (call,) = (
            node
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and len(node.keywords) > 2
        )
        return {ast.unparse(a) for a in call.args} | {ast.unparse(k) for k in call.keywords}

    for old, new in zip(before, after):
        assert arguments(old) <= arguments(new)
        (more,) = arguments(new) - arguments(old)
        assert more.split("=")[0] in ("ort_custom_plugins", "custom_op_libs")


def test_every_unsupported_parameter_is_listed():
    import onnxptq.modelopt

    text = (DOCS / "migration.md").read_text()
    for name in onnxptq.modelopt.FIXED:
        assert f"`{name}`" in text or (name.startswith("autotune") and "`autotune*`" in text), name
