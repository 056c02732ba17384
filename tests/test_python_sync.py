"""The Python package offers all that the command and the C options do."""

import inspect
import re
import subprocess
import sys

import harness
import onnxptq
import onnxptq._abi as abi
import onnxptq._errors as errors
from test_help_man import help_options

# Options that are no keyword, and what is there instead.
ELSEWHERE = {
    "help": "help(onnxptq.quantize)",
    "in-process": "always so; `python -m onnxptq` has a process of its own",
    "json": "Result.report",
    "quiet": "nothing is printed",
    "timeout": "of the process that `python -m onnxptq` has of its own",
    "verbose": "log",
    "version": "onnxptq.__version__",
}
# Fields that are called otherwise.
FIELDS = {
    "custom_op_libraries": "custom_op_libs",
    "data": "calibration_data",
    "data_path": "calibration_data",
    "images_path": "images",
    "max_samples": "samples",
    "model_path": "model",
    "native_io": "io_types",
    "ort_library": "ort_lib",
    "output_path": "output",
    "random_samples": "random_data",
    "ranges_path": "ranges",
    "repair_db": "repair",
    "save_ranges_path": "save_ranges",
    "state_path": "state",
}
# `part` is how processes that share one run split it.
INTERNAL = {"struct_size", "runtime", "part", "n_parts", "n_shards", "convert_only"}


def keywords(function):
    return set(inspect.signature(function).parameters)


def fields_of(struct):
    """Names, without counts of arrays and the arguments of callbacks."""
    names = {name for name, *_ in struct._fields_}
    counts = {f"n_{name}" for name in names}
    users = {f"{name}_user" for name in names}
    return {FIELDS.get(name, name) for name in names - counts - users - INTERNAL}


def test_every_option_of_the_command_is_a_keyword():
    for command, function in (("quantize", onnxptq.quantize), ("inspect", onnxptq.inspect)):
        options = set(help_options(command)) - set(ELSEWHERE)
        missing = {errors.keyword(name) for name in options} - keywords(function)
        assert not missing, f"onnxptq.{function.__name__}() has no keyword for {missing}"


def test_every_field_of_the_c_options_is_a_keyword():
    fields = fields_of(abi.QuantizeOptions) | fields_of(abi.RuntimeOptions)
    assert fields <= keywords(onnxptq.quantize), "fields of onnxptq.h without a keyword"
    missing = fields_of(abi.RuntimeOptions) - keywords(onnxptq.inspect)
    assert missing <= {"threads", "activity"}, "nothing is run by inspect()"


def test_no_keyword_without_an_option():
    """Else it would be ignored, or a second name for the same."""
    options = {errors.keyword(name) for name in help_options("quantize")}
    extra = keywords(onnxptq.quantize) - options
    assert extra == {"model", "progress", "log", "activity"} - options


def test_merge_and_calibrate():
    options = {errors.keyword(name) for name in set(help_options("merge")) - set(ELSEWHERE)}
    assert options <= keywords(onnxptq.merge)
    options = {errors.keyword(name) for name in set(help_options("calibrate")) - set(ELSEWHERE)}
    assert options <= keywords(onnxptq.calibrate) | keywords(onnxptq.quantize)


def test_convert():
    """It has the keywords of quantize() that the command `convert` has, and no others."""
    every, options = help_options("quantize"), help_options("convert")
    left_out = {errors.keyword(name) for name in set(every) - set(options)}
    assert left_out == onnxptq._QUANTIZING


def test_structs_are_those_of_the_header():
    done = subprocess.run(
        [sys.executable, str(harness.ROOT / "tools" / "python-abi"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_structs_have_the_size_that_the_compiler_gives_them(tmp_path):
    import ctypes

    tags = {
        "quantize_options": abi.QuantizeOptions,
        "runtime_options": abi.RuntimeOptions,
        "error": abi.Error,
        "activity": abi.Activity,
        "input_shape": abi.InputShape,
        "input_range": abi.InputRange,
        "report": abi.Report,
    }
    lines = "".join(f'printf("%zu ", sizeof(struct onnxptq_{tag}));\n' for tag in tags)
    source = tmp_path / "sizes.c"
    source.write_text(
        f"#include <onnxptq.h>\n#include <stdio.h>\nint main(void) {{\n{lines}return 0;\n}}\n"
    )
    program = tmp_path / "sizes"
    include = harness.ROOT / "include"
    subprocess.run(["cc", source, "-I", include, "-o", program], check=True)
    sizes = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert list(map(int, sizes)) == [ctypes.sizeof(struct) for struct in tags.values()]


def test_status_codes():
    assert len(errors.CODES) == len(abi.STATUS)
    for code, (name, value) in zip(errors.CODES, abi.STATUS.items()):
        assert errors.CODES[value] == code
        plain = re.sub(r"^ONNXPTQ_(ERROR_)?", "", name).lower().replace("_", " ")
        assert code == plain, name
