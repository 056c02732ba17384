"""Hooks of mkdocs: pages that are made of other files of the tree, and links between them."""

import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "onnxptq.h"
TOP = {"index.md": "README.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}


# ---- The C interface --------------------------------------------------------------------------


def plain(comment):
    """The text of a C comment, lists kept."""
    lines = [re.sub(r"^\s*/?\*+/?\s?", "", line) for line in comment.splitlines()]
    text = re.sub(r"\s*\*/$", "", "\n".join(lines)).strip()
    text = re.sub(r"\n[ \t]*(?=(?:-|\d\.) )", "\n\n", text)
    text = re.sub(r"(?<!\n)\n[ \t]*(?!\n)", " ", text)
    return text.replace("<", "&lt;")


def name_of(code):
    """What a declaration declares: a function, a struct, an enum, a type or a constant."""
    for pattern, form in (
        (r"ONNXPTQ_API[^;{]*?\b(onnxptq_\w+)\(", "{}()"),
        (r"^typedef [^;]*\(\*(\w+)\)", "{}"),
        (r"^(?:struct|enum) (\w+)", "{}"),
        (r"^#define (\w+)", "{}"),
    ):
        found = re.search(pattern, code, re.MULTILINE)
        if found:
            return form.format(found[1])
    return None


def blocks(section):
    """(comment, code) of each declaration, which begin at a line's start behind a comment or an empty
    line."""
    comment, code, depth = "", [], 0
    for line in [*section.splitlines(), ""]:
        open_comment = comment.count("/*") > comment.count("*/") or line.startswith("/*")
        if not code and not depth and open_comment:
            comment += line + "\n"
        elif line.strip() or depth:
            if code and not depth and line.startswith("/*"):
                yield comment, "\n".join(code)
                comment, code = line + "\n", []
                continue
            if code and not depth and code[-1].endswith(";") and re.match("ONNXPTQ_API|typedef", line):
                yield comment, "\n".join(code)
                comment, code = "", []
            code.append(line)
            depth += line.count("{") - line.count("}")
        else:
            if code:
                yield comment, "\n".join(code)
                comment, code = "", []
            elif comment:
                yield comment, ""
                comment = ""


def c_page():
    text = HEADER.read_text()
    intro = plain(re.search(r"/\*.*?\*/", text, re.DOTALL)[0])
    parts = ["# C interface", intro]
    pieces = re.split(r"^/\* ---- (.*?) -+ \*/$", text, flags=re.MULTILINE)
    for title, section in zip(pieces[1::2], pieces[2::2]):
        parts.append(f"## {title}")
        for comment, code in blocks(section.split("\n#ifdef __cplusplus")[0]):
            name = name_of(code)
            if name:
                parts.append(f"### `{name}`")
            if comment:
                parts.append(plain(comment))
            if code:
                parts.append(f"```c\n{code}\n```")
    return "\n\n".join(parts) + "\n"


# ---- The Python interface ---------------------------------------------------------------------


def signature(function):
    rows = [str(p) for p in inspect.signature(function).parameters.values()]
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        rows.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    inside = "".join(f"    {row},\n" for row in rows)
    return f"{function.__name__}(\n{inside})"


def documented(name, thing):
    parts = [f"### `{name}`"]
    if inspect.isroutine(thing):
        parts.append(f"```\n{signature(thing)}\n```")
    if thing.__doc__ and not thing.__doc__.startswith(f"{thing.__name__}("):
        parts.append(f"```text\n{inspect.cleandoc(thing.__doc__)}\n```")
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            text = getattr(value, "__doc__", None)
            own = isinstance(value, property) or inspect.isfunction(value)
            if own and not member.startswith("_"):
                kind = "" if isinstance(value, property) else "()"
                parts.append(f"- `{member}{kind}`: {' '.join((text or '').split())}")
    return parts


def python_page():
    sys.path.insert(0, str(ROOT / "python"))
    import onnxptq
    import onnxptq.modelopt
    import onnxptq.ort

    parts = ["# Python interface", "See [Python](python.md) for how it is used.", "## onnxptq"]
    for name in sorted(set(onnxptq.__all__) - {"CalibrationData"}):
        parts += documented(name, getattr(onnxptq, name))
    for module in (onnxptq.modelopt, onnxptq.ort):
        parts += [f"## {module.__name__}", inspect.cleandoc(module.__doc__)]
        for name in module.__all__:
            parts += documented(name, getattr(module, name))
    return "\n\n".join(parts) + "\n"


# ---- mkdocs -----------------------------------------------------------------------------------


def on_files(files, config):
    from mkdocs.structure.files import File

    pages = {page: (ROOT / source).read_text() for page, source in TOP.items()}
    pages.update({"c-api.md": c_page(), "python-api.md": python_page()})
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links between files of the tree become links between pages; to others there is none."""

    def link(found):
        text, target = found[1], found[2]
        path, hash, anchor = target.removeprefix("../").removeprefix("docs/").partition("#")
        path = {"README.md": "index.md", "include/onnxptq.h": "c-api.md"}.get(path, path)
        if "://" in target or not path or files.get_file_from_path(path):
            return f"[{text}]({target if '://' in target else path + hash + anchor})"
        return text

    return re.sub(r"\[([^\]\[]+)\]\(([^)\s]+)\)", link, markdown)
