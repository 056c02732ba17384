"""python -m onnxptq: the command line tool, with the installed package's ONNX Runtime."""

from __future__ import annotations

import os
import sys

from ._library import command_path, runtime_path


def main() -> None:
    path = command_path()
    environment = dict(os.environ)
    runtime = runtime_path()
    if runtime:
        environment["ONNXPTQ_ORT_LIB"] = runtime
    try:
        os.execve(path, [str(path), *sys.argv[1:]], environment)
    except OSError as fault:
        sys.exit(f"onnxptq: cannot start '{path}': {fault.strerror}; reinstall onnxptq")


if __name__ == "__main__":
    main()
