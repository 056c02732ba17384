"""What the calls of other quantizers have in common: one reading of the model before the run, to turn
their names and patterns into the engine's, which takes none that matches nothing."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from . import _engine
from ._errors import Error

F = TypeVar("F", bound=Callable[..., Any])


def warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


class Unsupported(Error):
    """A value of a parameter that the engine does not do. `parameter` is its name."""

    def __init__(self, parameter: str, value: Any, fact: str) -> None:
        super().__init__("unsupported", f"cannot do {parameter}={value!r}: {fact}")
        self.parameter = parameter
        self.value = value

    def __reduce__(self) -> Any:
        return Error, (self.code, self.message)


def same(a: Any, b: Any) -> bool:
    """Also of lists and tuples, and of arrays, which have no single answer of their own."""
    if a is b:
        return True
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    try:
        return bool(a == b)
    except Exception:
        return False


def with_settings(function: F) -> F:
    """The entries of the argument `engine_settings` act as arguments."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments
        for name, value in (given.pop("engine_settings", None) or {}).items():
            if name not in signature.parameters or name == "engine_settings":
                raise TypeError(
                    f"{function.__name__}() has no parameter '{name}' (engine_settings)"
                )
            if name in given and not same(given[name], value):
                raise ValueError(
                    f"two values for '{name}': {given[name]!r} as an argument and {value!r} in "
                    "engine_settings"
                )
            given[name] = value
        return function(**given)

    return cast(F, call)


def require_default(
    given: Mapping[str, Any], defaults: Mapping[str, Any], facts: Mapping[str, str]
) -> None:
    """Raises for the first of `facts` that has another value than its default."""
    for name, fact in facts.items():
        if not same(given[name], defaults[name]):
            raise Unsupported(name, given[name], fact)


def parse_shapes(text: str | Mapping[str, Sequence[int]] | None, parameter: str) -> dict[str, Any]:
    """ "input0:1x3x8x8,input1:1x4"."""
    if text is None or isinstance(text, Mapping):
        return dict(text or {})
    shapes = {}
    for part in text.split(","):
        name, _, shape = part.strip().rpartition(":")
        if not name or not re.fullmatch(r"\d+(x\d+)*", shape):
            raise ValueError(f"{parameter}: '{part}' is not NAME:1x3x8x8")
        shapes[name] = [int(size) for size in shape.split("x")]
    return shapes


class Graph:
    """Names and types of a model's nodes, and its inputs, as the engine reads them."""

    def __init__(self, model: str, given: dict[str, Any]) -> None:
        with _engine.scratch() as folder:
            given = {**given, "random_data": 1}
            report = _engine.run(model, folder / "out.onnx", None, given, ())
        self.names = [row["name"] for row in report["nodes"]]
        self.ops = sorted({row["op"] for row in report["nodes"]})
        self.inputs = {row["name"]: row["shape"] for row in report["inputs"]}

    def expand_types(self, types: Iterable[str], parameter: str) -> list[str]:
        """A bare type stands for the operators of that type in whatever domain."""
        found: list[str] = []
        for wanted in types:
            ops = [op for op in self.ops if wanted in (op, op.rpartition("::")[2])]
            if not ops:
                warn(f"{parameter}: the model has no operator of type '{wanted}'")
            found += [op for op in ops if op not in found]
        return found

    def match_nodes(self, patterns: Iterable[str], parameter: str, *, exact: bool) -> list[str]:
        """The patterns that match a name: its beginning, or all of it, then literally."""
        found = []
        for pattern in patterns:
            own = re.escape(pattern) + r"\Z" if exact else pattern
            if not any(re.match(own, name) for name in self.names):
                warn(f"{parameter}: no node's name matches '{pattern}'")
            else:
                found.append(re.escape(pattern) if exact else f"(?s)(?:{pattern}).*")
        return found


def select(graph: Graph, given: Mapping[str, Any], *, exact: bool) -> dict[str, Any]:
    """The engine's keywords for what is to be quantized and what is not."""
    types, nodes = {}, {}
    for name, keyword in (
        ("op_types_to_quantize", "op_types"),
        ("op_types_to_exclude", "exclude_op_types"),
    ):
        types[keyword] = graph.expand_types(given.get(name) or (), name)
    for name, keyword in (("nodes_to_quantize", "nodes"), ("nodes_to_exclude", "exclude_nodes")):
        nodes[keyword] = graph.match_nodes(given.get(name) or (), name, exact=exact)
    for name, found in (
        ("op_types_to_quantize", types["op_types"]),
        ("nodes_to_quantize", nodes["nodes"]),
    ):
        if given.get(name) and not found:
            raise Error("usage", f"cannot use {name}: the model has none of them")
    return {**types, **nodes}


def unused_inputs(shapes: Mapping[str, Any], graph: Graph, parameter: str) -> None:
    for name in shapes:
        if name not in graph.inputs:
            raise Error("usage", f"cannot use {parameter}: the model has no input '{name}'")
