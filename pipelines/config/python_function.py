"""Reader of a transform's Python function. The file is parsed, not imported.

`lint` uses it too, so it checks everything that is known without an import: the file exists and is
valid Python, it has the function, and the function takes as many frames as there are inputs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pipelines.config.keywords import WORDS
from pipelines.config.section import Reader, nearest
from pipelines.model.pipeline import Function

_BASE = "StatefulProcessor"
_SAID = re.compile(r"(?P<file>[^:]+\.py):(?P<name>[^:]+)")


def function_of(transform: Reader, inputs: tuple[str, ...]) -> Function:
    """The function; its source is empty if there is a problem, which is recorded."""
    said = transform.text("python") or ""
    match = _SAID.fullmatch(said)
    file, name = (match["file"], match["name"]) if match else ("", "")
    if said and not name.isidentifier():
        expected = WORDS["transform"]["python"].expected
        transform.wrong_at("python", f"expected {expected}; found `{said}`")
    source = ""
    if name.isidentifier():
        file = str(Path(transform.place_of("python").file).parent / file)
        source, wrong = _read(file, name, len(inputs), is_class=transform.has("state"))
        if wrong:
            transform.wrong_at("python", f"{file}{wrong}")
    return Function(file=file, name=name, source=source)


def _read(file: str, name: str, inputs: int, *, is_class: bool) -> tuple[str, str]:
    """(the file's text, the problem of the file or the function, "" if there is none)."""
    try:
        source = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(source, file)
    except OSError as error:
        return "", f": {error.strerror}"
    except SyntaxError as error:
        return "", f"{f':{error.lineno}' if error.lineno else ''}: no Python: {error.msg}"
    except ValueError:
        return "", ": not UTF-8 text"
    wrong = _wrong_class(tree, name) if is_class else _wrong(tree, name, inputs)
    return ("", f": {wrong}") if wrong else (source, "")


def _wrong(tree: ast.Module, name: str, inputs: int) -> str:
    """The problem of the function of that name, "" if there is none."""
    functions = {each.name: each for each in _functions(tree)}
    if name in functions:
        return _wrong_arguments(functions[name], inputs)
    if name in _others(tree):
        return ""  # imported or assigned: only an import can check it
    known = [each for each in functions if not each.startswith("_")]
    has = f"it has {', '.join(f'`{each}`' for each in known)}" if known else "it has none"
    return f"no function `{name}`{nearest(name, known) or f'; {has}'}"


def _wrong_class(tree: ast.Module, name: str) -> str:
    """The problem of the class of that name, "" if there is none."""
    classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    if name not in classes:
        if name in _others(tree):
            return ""  # imported or assigned: only an import can check it
        has = f"it has {', '.join(f'`{each}`' for each in classes)}" if classes else "it has none"
        return f"no class `{name}`{nearest(name, classes) or f'; {has}'}"
    made = classes[name]
    methods = {each.name for each in made.body if isinstance(each, ast.FunctionDef)}
    missing = [each for each in ("init", "handleInputRows") if each not in methods]
    # Another class of the file, or an imported one, may have it.
    is_plain = [ast.unparse(each).rpartition(".")[2] for each in made.bases] == [_BASE]
    if missing and is_plain:
        return f"class `{name}` in line {made.lineno} has no method `{missing[0]}`"
    return ""


def _wrong_arguments(function: ast.FunctionDef, inputs: int) -> str:
    of = function.args
    positional = len(of.posonlyargs) + len(of.args)
    fewest, most = positional - len(of.defaults), positional
    must = [a.arg for a, d in zip(of.kwonlyargs, of.kw_defaults, strict=True) if d is None]
    if must:
        return f"`{function.name}` must be given `{must[0]}` by its name; inputs have none"
    if fewest <= inputs and (inputs <= most or of.vararg):
        return ""
    wants = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    wants = f"at least {fewest}" if of.vararg else wants
    line = function.lineno
    return f"`{function.name}` in line {line} takes {wants} of frames; `inputs` has {inputs}"


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (each for each in tree.body if isinstance(each, ast.FunctionDef))


def _others(tree: ast.Module) -> set[str]:
    """Module-level names that are bound by an import or an assignment."""
    aliases = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    stored = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return aliases | stored
