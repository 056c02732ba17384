"""Opset conversion: each form that changed, and each operator that did not, run at the old opset
and after the conversion: equal to the bit."""

import subprocess

import onnx
import pytest
from opset_cases import CHANGED, SAME
from opsets import NEWEST, OLDEST, ROUNDING, TOOL, assert_converts, newest_of_runtime


def run_case(case, version, tmp_path):
    model, feeds = case.model()
    rounding = ROUNDING if version >= case.rounding_from else None
    check = version >= case.valid_from
    return assert_converts(model, feeds, version, tmp_path, rounding, check)


@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_changed_form(case, tmp_path):
    for version in (13, 17, 19, 21, NEWEST):
        if case.opset < version <= newest_of_runtime():
            run_case(case, version, tmp_path)


@pytest.mark.parametrize("case", SAME, ids=str)
def test_same_meaning(case, tmp_path):
    for version in (13, 17, 19, 21, NEWEST):
        if case.opset < version <= newest_of_runtime():
            converted = run_case(case, version, tmp_path)
            assert list(converted.graph.node) == list(case.model()[0].graph.node)


def test_table_lists_every_version_of_every_operator():
    output = subprocess.run([str(TOOL), "--table"], capture_output=True, text=True, check=True)
    rows = [line.split() for line in output.stdout.splitlines()]
    listed = [(op, int(version)) for op, version, _ in rows]
    assert listed == sorted(set(listed))
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    oldest = {s.name: min(t.since_version for t in schemas if t.name == s.name) for s in schemas}
    changed = {
        (s.name, s.since_version)
        for s in schemas
        if max(OLDEST, oldest[s.name]) < s.since_version <= NEWEST
    }
    assert changed <= set(listed)
    tested = {case.op for case in CHANGED}
    assert {op for op, _, how in rows if how == "converted"} <= tested | {"Scan"}
