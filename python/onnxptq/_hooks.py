"""Callbacks of the engine, and what they do to the call that they happen in."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _abi

LEVELS = {1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}
logger = logging.getLogger("onnxptq")


class Activity(NamedTuple):
    """What code that is not the engine's is about to do."""

    stage: str | None
    first_sample: int
    n_samples: int
    node: str | None
    op: str | None
    library: str | None


ProgressCallback = Callable[[str, int, int], Any]
LogCallback = Callable[[int, str], Any]
ActivityCallback = Callable[[Activity], Any]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def log_to_logger(level: int, message: str) -> None:
    logger.log(level, "%s", message)


class Bar:
    """Progress on stderr: tqdm's where that is installed, else a line for each stage."""

    def __init__(self) -> None:
        self.stage: str | None = None
        self.bar: Any = None
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            tqdm = None
        self.tqdm = tqdm

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self.stage or (self.bar is not None and done < self.bar.n):
            self.close()
            self.stage = stage
            if self.tqdm is not None:
                self.bar = self.tqdm(total=total, desc=stage, unit="sample")
        if self.bar is not None:
            self.bar.update(done - self.bar.n)
        elif done == total:
            print(f"onnxptq: {stage}: {total} samples", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        self.bar = None


class Hooks:
    """An exception in a callback, and Ctrl-C, end the engine's work; `reraise` raises them where the
    call was made."""

    def __init__(
        self,
        progress: ProgressCallback | bool | None = None,
        log: LogCallback | None = None,
        activity: ActivityCallback | None = None,
    ) -> None:
        self.bar = Bar() if progress is True else None
        self.progress = self.bar or (progress if callable(progress) else None)
        self.log = log or log_to_logger
        self.activity = activity
        self.interrupted = False
        self.fault: BaseException | None = None
        # Kept here, since the engine only borrows them.
        self.c_progress = _abi.ProgressFn(self._on_progress)
        self.c_log = _abi.LogFn(self._on_log)
        self.c_activity = _abi.ActivityFn(self._on_activity)

    def _on_progress(self, _: Any, stage: bytes, done: int, total: int) -> bool:
        try:
            going_on = True
            if self.progress is not None:
                going_on = self.progress(stage.decode(), done, total) is not False
            return going_on and self.fault is None and not self.interrupted
        except BaseException as fault:
            self.fault = self.fault or fault
            return False

    def _on_log(self, _: Any, level: int, message: bytes) -> None:
        try:
            self.log(LEVELS.get(level, logging.DEBUG), message.decode(errors="replace"))
        except BaseException as fault:
            self.fault = self.fault or fault

    def _on_activity(self, _: Any, pointer: Any) -> None:
        try:
            now = pointer.contents
            self.activity(  # type: ignore[misc]
                Activity(
                    _text(now.stage),
                    now.first_sample,
                    now.n_samples,
                    _text(now.node),
                    _text(now.op),
                    _text(now.library),
                )
            )
        except BaseException as fault:
            self.fault = self.fault or fault

    def reraise(self) -> None:
        if self.fault is not None:
            raise self.fault
        if self.interrupted:
            raise KeyboardInterrupt

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

    @contextlib.contextmanager
    def hearing_interrupts(self) -> Iterator[None]:
        """Ctrl-C is noted, and obeyed at the engine's next step, which removes what it has written.
        A program's own handler is left alone."""
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return

        def note(number: int, frame: Any) -> None:
            if self.interrupted:  # twice: not at the next step but now
                signal.default_int_handler(number, frame)
            self.interrupted = True

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
