"""What calls return."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import onnx


class Range(NamedTuple):
    """How one activation is quantized. `min` and `max` are what calibration saw."""

    type: str
    scale: float
    zero_point: int
    min: float
    max: float


class Decision(NamedTuple):
    """What happens to one node, and why. `decision` is quantized, float, foreign or excluded."""

    name: str
    op: str
    decision: str
    rule: str
    reason: str


def _sqnr(output: dict[str, Any]) -> float | None:
    if output["sqnr_db"] is None and output["exact"] and output["type"] in _FLOATS:
        return math.inf
    return output["sqnr_db"]


_FLOATS = ("float", "float16", "bfloat16", "double")


class Result:
    """What a run found out. `report` is all of it (docs/report.md)."""

    def __init__(
        self, report: dict[str, Any], path: Path | None, serialized: bytes | None = None
    ) -> None:
        self.report = report
        self.path = path
        """Where the model is, or None when no output was named."""
        self._serialized = serialized

    def to_bytes(self) -> bytes:
        """The quantized model as a file holds it."""
        if self._serialized is not None:
            return self._serialized
        if self.path is None:
            raise ValueError("no model was made: only ranges were saved")
        return self.path.read_bytes()

    @property
    def model(self) -> onnx.ModelProto:
        """The quantized model, its external data included. Needs the package onnx."""
        import onnx

        if self.path is not None:
            return onnx.load(self.path)
        return onnx.load_from_string(self.to_bytes())

    @property
    def summary(self) -> dict[str, dict[str, int]]:
        """`quantized` and `float`: how many nodes of each operator."""
        return self.report["summary"]

    @property
    def sqnr(self) -> dict[str, float | None]:
        """Signal-to-noise ratio in dB of each output beside the original's: infinite when they are
        equal, None for outputs that are no floats."""
        return {output["name"]: _sqnr(output) for output in self.report["check"]["outputs"]}

    @property
    def ranges(self) -> dict[str, Range]:
        """By the name of the quantized activation."""
        return {
            row["name"]: Range(*(row[field] for field in Range._fields))
            for row in self.report["tensors"]
        }

    @property
    def plan(self) -> list[Decision]:
        """What was decided for each node of the model, and why."""
        return [
            Decision(*(row[field] for field in Decision._fields)) for row in self.report["nodes"]
        ]

    @property
    def method(self) -> str:
        """That the ranges come from: what "auto" chose."""
        return self.report["method"]

    @property
    def notes(self) -> list[str]:
        return self.report["notes"]

    def __repr__(self) -> str:
        n = sum(self.summary["quantized"].values())
        total = len(self.report["nodes"])
        where = f"'{self.path}'" if self.path else "in memory"
        return f"<onnxptq.Result {where}: {n} of {total} nodes quantized>"

    def __str__(self) -> str:
        def counted(ops: dict[str, int]) -> str:
            return ", ".join(f"{n} {op}" for op, n in ops.items()) or "none"

        lines = [
            repr(self)[1:-1],
            f"quantized: {counted(self.summary['quantized'])}",
            f"float: {counted(self.summary['float'])}",
        ]
        for name, value in self.sqnr.items():
            lines.append(f"{name}: " + ("not a float" if value is None else f"{value:.1f} dB"))
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


class Inspection:
    """What a model holds, and what the runtime and the libraries can run. `report` is all of it
    (docs/report.md)."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    @property
    def operators(self) -> list[dict[str, Any]]:
        return self.report["operators"]

    @property
    def missing(self) -> list[str]:
        """Operators that neither the runtime nor a library has."""
        return [row["op"] for row in self.operators if not row["runnable"]]

    @property
    def inputs(self) -> dict[str, dict[str, Any]]:
        """`type` and `shape` by name; a dimension that is free is None."""
        return {row["name"]: row for row in self.report["inputs"]}

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in self.report["outputs"]}

    def __repr__(self) -> str:
        ops = ", ".join(f"{row['count']} {row['op']}" for row in self.operators)
        return f"<onnxptq.Inspection {ops}>"
