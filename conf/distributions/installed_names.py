"""Names of `pipelines/` and `raft/` in the wheels: `josefine_pipelines` and `josefine_raft`.

The two folders have names that a user's repository may have too, and whichever comes first on
`sys.path` hides the other. The distributions therefore carry them under names of our own, and each
import of them is rewritten in the copy. Only the name is replaced, so line numbers stay and a
traceback points into the installed file. An editable install keeps the folders' names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

INSTALLED = {"pipelines": "josefine_pipelines", "raft": "josefine_raft"}
"""Folder → the package's name in the wheel."""

OUR_PACKAGES = "OUR_PACKAGES"
"""The variable whose strings name packages, and are rewritten: the one place that needs them."""

_DOTTED = re.compile(rf"({'|'.join(INSTALLED)})(\.[a-z_]\w*)+")


class UnclearName(Exception):
    """A line that names one of the packages in a way that cannot be rewritten."""


class Edit(NamedTuple):
    """One name of a source file that gets the installed name in its place."""

    line: int
    column: int
    """In bytes of UTF-8, as `ast` counts."""
    name: str


def rewritten(text: str, path: str) -> str:
    """The source text with every import of the packages under its installed name.

    Raises UnclearName for an import that cannot be rewritten alone, and for a string that is the
    name of one of their modules.
    """
    if not any(name in text for name in INSTALLED):
        return text
    lines = text.encode().splitlines(keepends=True)
    for edit in sorted(edits(ast.parse(text), path), reverse=True):
        line, name = lines[edit.line - 1], edit.name.encode()
        at = line.index(name, edit.column)  # the first one: `from` and `import` come before it
        new = INSTALLED[edit.name].encode()
        lines[edit.line - 1] = line[:at] + new + line[at + len(name) :]
    return b"".join(lines).decode()


def edits(tree: ast.Module, path: str) -> Iterator[Edit]:
    """Every place of a module that names one of the packages."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            first = (node.module or "").partition(".")[0]
            if node.level == 0 and first in INSTALLED:
                yield Edit(node.lineno, node.col_offset, first)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                if first not in INSTALLED:
                    continue
                if alias.asname is None:
                    raise UnclearName(
                        f"{path}:{node.lineno}: `import {alias.name}` binds the name `{first}`, "
                        "which the wheel does not have: write `from … import …`"
                    )
                yield Edit(alias.lineno, alias.col_offset, first)
        elif isinstance(node, ast.Assign) and _assigns(node, OUR_PACKAGES):
            for each in ast.walk(node.value):
                if isinstance(each, ast.Constant) and each.value in INSTALLED:
                    yield Edit(each.lineno, each.col_offset, each.value)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            _refuse_module_name(node, path)


def _assigns(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)


def _refuse_module_name(node: ast.Constant, path: str) -> None:
    """`-m pipelines.x`, `import_module("pipelines.x")`: they would name nothing in the wheel."""
    if not isinstance(node.value, str) or not _DOTTED.fullmatch(node.value):
        return
    file = Path(__file__).parents[2].joinpath(*node.value.split("."))
    if file.is_dir() or file.with_suffix(".py").exists():
        raise UnclearName(
            f"{path}:{node.lineno}: the string '{node.value}' names a module by the folder's name, "
            "which the wheel does not have: import the module and use its `__name__`"
        )
