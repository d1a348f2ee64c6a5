"""Facts of one source file: lengths, comments, attributes of classes. Text in, values out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

ATTRIBUTES_MAX = 12
"""Of a class that can change."""
LONG_FUNCTION = 30
"""Lines from which a function needs a comment."""

VALUE_BASES = {
    "BaseModel", "Section", "NamedTuple", "TypedDict", "Protocol",
    "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag",
}  # fmt: skip
"""Base classes whose instances do not change; Section is the configuration's frozen model."""

_PRAGMA = re.compile(
    r"#\s*(?:fmt: (?:skip|on|off)|type: ignore(?:\[[^\]]*\])?|noqa(?:: ?[A-Z0-9, ]+)?|pragma: .*)"
)
"""What a comment says to a tool, not to a reader."""


class Function(NamedTuple):
    """One function or method."""

    name: str
    line: int
    length: int
    """In lines, the signature and the docstring included."""
    has_comment: bool


class Class(NamedTuple):
    """One class."""

    name: str
    line: int
    attributes: int
    """Annotated in its body or assigned to `self`; inherited ones do not count."""
    is_mutable: bool


class Facts(NamedTuple):
    """What is measured in one file."""

    lines: int
    commented_lines: int
    """Lines that have a comment, and lines of docstrings."""
    functions: tuple[Function, ...]
    classes: tuple[Class, ...]


Span = tuple[int, int, int, int]
"""(line, column, end line, end column) of a node; columns in bytes of UTF-8."""


def facts_of(text: str) -> Facts:
    """Measure one file. Raises SyntaxError."""
    nodes = list(ast.walk(ast.parse(text)))
    comments = frozenset(comment_lines(text, nodes))
    docstrings = {
        line
        for node in nodes
        if isinstance(node, ast.Expr) and is_text(node.value)
        for line in range(node.lineno, _end(node) + 1)
    }
    return Facts(
        lines=len(text.splitlines()),
        commented_lines=len(comments | docstrings),
        functions=tuple(
            Function(node.name, node.lineno, length, _any_between(comments, node))
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for length in (_end(node) - node.lineno + 1,)
        ),
        classes=tuple(
            Class(node.name, node.lineno, len(attributes(node)), is_mutable(node))
            for node in nodes
            if isinstance(node, ast.ClassDef)
        ),
    )


def comment_lines(text: str, nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Numbers of the lines with a comment for readers: a pragma is none.

    A `#` inside a string is found by the positions of the strings: tokenizing takes far longer.
    """
    if "#" not in text:
        return
    lines = text.encode().splitlines()
    strings = [
        (node.lineno, node.col_offset, _end(node), node.end_col_offset or 0)
        for node in nodes
        if isinstance(node, ast.expr) and (isinstance(node, ast.JoinedStr) or is_text(node))
    ]
    for number, line in enumerate(lines, start=1):
        at = line.find(b"#")
        while at >= 0 and _is_inside((number, at), strings):
            at = line.find(b"#", at + 1)
        if at >= 0 and _PRAGMA.sub("", line[at:].decode()).strip("# "):
            yield number


def is_text(node: ast.AST) -> bool:
    """A constant string or bytes."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def attributes(node: ast.ClassDef) -> set[str]:
    """Names that an instance of the class has: fields, and what methods assign to `self`."""
    found = {
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    }
    for each in ast.walk(node):
        for target in assigned(each):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                found.add(target.attr)
    return found


def assigned(node: ast.AST) -> Iterator[ast.expr]:
    """Targets of an assignment, tuples taken apart."""
    targets: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple | ast.List) else (target,)


def is_mutable(node: ast.ClassDef) -> bool:
    """Not a frozen dataclass, and not of a base whose instances do not change."""
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    bases = {ast.unparse(each).rpartition(".")[2] for each in node.bases}
    return "frozen=True" not in decorators and not bases & VALUE_BASES


def _is_inside(at: tuple[int, int], spans: Iterable[Span]) -> bool:
    return any((a, b) <= at < (c, d) for a, b, c, d in spans)


def _any_between(lines: Iterable[int], node: ast.AST) -> bool:
    first, last = getattr(node, "lineno", 0), _end(node)
    return any(first <= line <= last for line in lines)


def _end(node: ast.AST) -> int:
    end = getattr(node, "end_lineno", None)
    assert end is not None, "a parsed node has its end"
    return int(end)
