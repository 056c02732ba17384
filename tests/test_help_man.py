"""--help, the manual page and the parser name the same options."""

import re

import harness
import pytest

HALF = {"high-precision", "io-types", "keep-float-op-types", "keep-float-nodes", "half-op-types"}
QUALITY = {"min-sqnr", "allow-low-quality", "repair", "no-repair", "min-int8-macs", "repair-budget"}
MANUAL = harness.ROOT / "docs" / "onnxptq.1"


def help_options(command):
    """{long option: (short option, argument)} of a command's --help."""
    text = harness.run_cli(command, "--help").ok().out
    rows = re.findall(r"^ {2}(?:-(\w), |    )--([\w-]+)(?: (\S+))?", text, re.MULTILINE)
    assert len(rows) == len({name for _, name, _ in rows}), "an option is listed twice"
    return {name: (short or None, argument or None) for short, name, argument in rows}


def manual_options():
    """The same of the manual's list of quantize's options."""
    found = {}
    for item in re.findall(r"^\.It (Fl .*)$", MANUAL.read_text(), re.MULTILINE):
        words = re.fullmatch(r"(?:Fl (\w) , )?Fl Fl ([\w-]+)(?: Ar (\S+))?", item)
        assert words, f"cannot read {item!r}"
        assert words[2] not in found, f"{words[2]} is described twice"
        found[words[2]] = (words[1], words[3])
    return found


def test_help_and_manual_agree():
    assert help_options("quantize") == manual_options()


def test_inspect_takes_a_part_of_the_same_options():
    every = manual_options()
    options = help_options("inspect")
    assert all(every[name] == row for name, row in options.items())
    section = MANUAL.read_text().split(".Ss Options of inspect")[1].split(".Sh")[0]
    assert set(re.findall(r"^\.Fl Fl ([\w-]+)", section, re.MULTILINE)) == set(options)


def test_calibrate_and_merge_take_a_part_too():
    every = manual_options()
    options = help_options("calibrate")
    assert all(every[name] == row for name, row in options.items())
    missing = {"ranges", "save-ranges", *HALF, *QUALITY} | {
        name for name in every if "external-data" in name
    }
    assert set(every) - set(options) == missing
    options = help_options("merge")
    assert all(every[name] == row for name, row in options.items())
    section = MANUAL.read_text().split(".Ss Options of convert")[1].split(".Ss")[0]
    listed = section.split(".Cm merge")[1]
    assert set(re.findall(r"^\.Fl Fl ([\w-]+)", listed, re.MULTILINE)) == set(options)


def test_convert_takes_what_does_not_quantize():
    every, options = manual_options(), help_options("convert")
    assert all(every[name] == row for name, row in options.items())
    assert {"data", "output", "custom-op-lib", *HALF} <= set(options)
    assert not {"method", "op-types", "foreign-edges", "ranges", "resume"} & set(options)


@pytest.mark.parametrize("command", ["quantize", "convert", "calibrate", "inspect"])
def test_the_parser_knows_every_option_of_the_help(command):
    """Each fails for want of a value or of a model, never as unknown."""
    for name, (short, argument) in help_options(command).items():
        if name in ("help", "version"):
            continue
        for option in [f"--{name}"] + ([f"-{short}"] if short else []):
            run = harness.run_cli(command, option)
            expected = f"'--{name}' needs a value" if argument else "no model given"
            assert run.code == 2 and expected in run.err, str(run)
            if not argument:
                run = harness.run_cli(command, f"--{name}=x")
                assert run.code == 2 and "takes no value" in run.err, str(run)


def test_an_option_of_the_other_command_is_unknown():
    only = set(help_options("quantize")) - set(help_options("inspect"))
    for name in only:
        run = harness.run_cli("inspect", "m.onnx", f"--{name}")
        assert run.code == 2 and "unknown option" in run.err, str(run)


@pytest.mark.parametrize(
    "args, suggestion",
    [
        (["quantise"], "quantize"),
        (["calibrat"], "calibrate"),
        (["--hlep"], "--help"),
        (["quantize", "--dta", "x"], "--data"),
        (["quantize", "--exclude-node", "x", "m"], None),
        (["quantize", "--custom-op-libs", "x"], "--custom-op-lib"),
        (["inspect", "--jsn"], "--json"),
        (["quantize", "--zzzzzzzz"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_nearest_name_is_suggested(args, suggestion):
    run = harness.run_cli(*args)
    assert run.code == 2 and not run.out, str(run)
    if suggestion:
        assert f"did you mean '{suggestion}'" in run.err, str(run)
    else:
        assert "did you mean" not in run.err, str(run)


def test_lines_of_the_help_are_short():
    commands = ("quantize", "calibrate", "merge", "inspect")
    for args in [["--help"], *([command, "--help"] for command in commands)]:
        assert all(len(line) <= 100 for line in harness.run_cli(*args).ok().out.splitlines())


def test_the_manual_names_what_the_command_reads():
    """Environment variables, exit codes, targets and methods."""
    text = MANUAL.read_text()
    for word in ("ONNXPTQ_ORT_LIB", "NO_COLOR", "tensorrt", "onnxruntime", "max"):
        assert word in text
    codes = re.findall(r"^\.It (\d)$", text, re.MULTILINE)
    assert codes == ["0", "1", "2", "3"]


def test_options_may_be_shortened():
    """As the manual says: as far as they stay distinct."""
    assert harness.run_cli("quantize", "--vers").ok().out == harness.run_cli("--version").out
    run = harness.run_cli("quantize", "m.onnx", "--exclude", "Conv")
    assert run.code == 2 and "ambiguous" in run.err
    assert "--exclude-op-types" in run.err and "--exclude-nodes" in run.err
