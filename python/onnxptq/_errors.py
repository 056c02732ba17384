"""The one exception of the package."""

from __future__ import annotations

import re

CODES = (
    "ok",
    "usage",
    "io",
    "model",
    "data",
    "unsupported",
    "runtime",
    "missing operator",
    "library",
    "memory",
    "cancelled",
    "quality",
    "internal",
)


# Options of the command line tool whose keyword is not the same name with underscores.
KEYWORDS = {
    "custom-op-lib": "custom_op_libs",
    "data": "calibration_data",
    "force": "overwrite",
    "input-range": "input_ranges",
    "input-shape": "input_shapes",
    "no-external-data": "external_data",
    "no-repair": "repair",
    "provider-option": "provider_options",
    "trt-plugin": "trt_plugins",
}


def keyword(option: str) -> str:
    """The keyword that an option of the command line tool is here."""
    return KEYWORDS.get(option, option.replace("-", "_"))


def _named(what: str, message: str) -> str | None:
    found = re.search(rf"\b{what} '([^']+)'", message)
    return found[1] if found else None


class Error(Exception):
    """What the engine could not do.

    `code` is one of CODES, such as "usage" or "missing operator"; `message` one sentence with the
    fact and what to do; `node` and `tensor` the ones that it is about, or None.
    """

    def __init__(self, code: str, message: str) -> None:
        # The engine speaks of the tool's options.
        message = re.sub(r"(?<![\w-])--([a-z][a-z-]+)", lambda found: keyword(found[1]), message)
        super().__init__(message)
        self.code = code
        self.message = message
        self.node = _named("(?:node|first)", message)
        self.tensor = _named("(?:tensor|input|output)", message)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (self.code, self.message)
