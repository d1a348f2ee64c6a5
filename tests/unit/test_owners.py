"""Who writes what of a broker's context: the sentences in its classes are the rule, this checks it.

"Written by `engine/metadata_quorum/apply_committed.py`" in the docstring of a field, or else of its
class, names the only modules of the broker that may assign the field, or change the table that it
is. Without such a sentence nobody does: the field stays what the composition made it.

An expression is followed from a `ctx`, or an argument annotated with one of the classes, along the
fields' annotations and through a function's local names; what is handed on as an argument of
another type is not.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.shape.sources import ATTRIBUTES_MAX, attributes
from tests.unit.test_style import ROOT

BROKER = ROOT / "josefine_broker"
COMPOSITION = ("engine/context.py", "engine/hosted.py", "engine/ports.py")
COUNTED = {"Counters", "ReplicaCounters"}
"""By whoever does what they count."""
WRITTEN_BY = re.compile(r"[Ww]ritten\s+by\s+((?:`[a-z_/]+\.py`(?:,\s+|\s+and\s+)?)+)")
CHANGES = {"add", "append", "clear", "discard", "pop", "popitem", "remove", "setdefault", "update"}


class Field(NamedTuple):
    """One field of one class."""

    of: str
    name: str


def test_only_those_write_a_field_of_the_context_whom_its_docstring_names() -> None:
    allowed = writers()

    assert [
        f"{path}:{line}: writes {'.'.join(field)}, which is for {sorted(allowed[field])}"
        for field, path, line in written()
        if path not in allowed[field]
    ] == []


def test_everybody_who_is_said_to_write_a_class_does() -> None:
    said = {(field.of, path) for field, paths in writers().items() for path in paths}

    assert said
    assert said == {(field.of, path) for field, path, _ in written()}


def test_each_field_that_names_who_writes_it_is_written_by_them() -> None:
    said = {
        (Field(node.name, name), path)
        for composed in COMPOSITION
        for node in classes(composed)
        for name, _, text in fields_of(node)
        for path in named(text)
    }

    assert said
    assert said <= {(field, path) for field, path, _ in written()}


def test_classes_of_the_context_have_a_dozen_attributes_at_most() -> None:
    sizes = {
        node.name: len(attributes(node))
        for path in COMPOSITION
        for node in classes(path, with_frozen=True)
    }

    assert sizes["Context"] > 1
    assert {name: size for name, size in sizes.items() if size > ATTRIBUTES_MAX} == {}


def test_every_kind_of_write_is_seen() -> None:
    """Those marked, and no others."""
    lines = """
def f(ctx, x):
    ctx.image = 1  # !
    x, ctx.image = ctx.image, 2  # !
    ctx.metadata.applied_height += 1  # !
    del ctx.hosted.partitions[1]  # !
    ctx.hosted.partitions.pop(1)  # !
    hosted, x = ctx.hosted, 1
    hosted.unopened[1] = 2  # !
    hosted = x.partitions
    table = x._ctx.hosted.partitions
    table.update(x)  # !
    ctx.image == ctx.hosted.partitions.get(1)
    ctx.counters.refused_batches += 1
    ctx.image.name = x.partitions[1] = x.image = 2
    partitions = []
    partitions.append(1)
def g(self, table, one: HostedPartition, hosted):
    hosted.halt = one.settings = 2  # !
    self._ctx.cluster.is_heard = True  # !
    self.image, table[1] = 1, 2
""".splitlines()

    assert {line for _, line in writes("\n".join(lines))} == {
        at for at, line in enumerate(lines, start=1) if line.endswith("# !")
    }


@cache
def writers() -> dict[Field, frozenset[str]]:
    """The modules that may write each field of the context and its parts."""
    return {
        Field(node.name, name): named(text) or named(ast.get_docstring(node))
        for path in COMPOSITION
        for node in classes(path)
        if node.name not in COUNTED
        for name, _, text in fields_of(node)
    }


@cache
def types() -> dict[Field, str]:
    """The class of each field that has one of these."""
    return {
        Field(node.name, name): annotation
        for path in COMPOSITION
        for node in classes(path)
        for name, annotation, _ in fields_of(node)
        if annotation in {field.of for field in writers()}
    }


@cache
def tables() -> dict[Field, str]:
    """The fields that are plain tables: other classes change themselves."""
    return {
        Field(node.name, name): annotation
        for path in COMPOSITION
        for node in classes(path)
        for name, annotation, _ in fields_of(node)
        if annotation.startswith("dict[")
    }


def named(text: str | None) -> frozenset[str]:
    """The modules that a docstring says write."""
    found = WRITTEN_BY.search(text or "")
    return frozenset(re.findall(r"`([^`]+)`", found[1])) if found else frozenset()


def classes(path: str, *, with_frozen: bool = False) -> Iterator[ast.ClassDef]:
    """The dataclasses of a module."""
    for node in ast.parse((BROKER / path).read_text()).body:
        if isinstance(node, ast.ClassDef):
            kinds = " ".join(ast.unparse(each) for each in node.decorator_list)
            if "dataclass" in kinds and (with_frozen or "frozen" not in kinds):
                yield node


def fields_of(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """(name, annotation, docstring) of each field."""
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            doc = str(text.value) if isinstance(text, ast.Constant) else ""
            yield each.target.id, ast.unparse(each.annotation), doc


@cache
def written() -> list[tuple[Field, str, int]]:
    """(field, module, line) of every write in the broker."""
    return [
        (field, path.relative_to(BROKER).as_posix(), line)
        for path in sorted(BROKER.rglob("*.py"))
        for field, line in sorted(writes(path.read_text()))
    ]


def writes(text: str) -> set[tuple[Field, int]]:
    """Every place that assigns a field, or changes the table in it."""
    found: set[tuple[Field, int]] = set()
    if "ctx" not in text and "hosted" not in text:  # most files, sooner than by walking them
        return found
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            scope = Scope(function)
            for node in ast.walk(function):
                found |= {(field, line) for field, line in scope.writes(node)}
    return found


class Scope:
    """What the names within one function stand for."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._classes = {"ctx": "Context", "hosted": "HostedPartition"}
        self._fields: dict[str, Field] = {}
        arguments = function.args
        for each in (*arguments.args, *arguments.kwonlyargs):
            if each.annotation is not None:
                self._classes[each.arg] = ast.unparse(each.annotation)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                for target, value in pairs(node):
                    self._learn(target, value)

    def _learn(self, target: ast.expr, value: ast.expr | None) -> None:
        field = None if value is None else self.field(value)
        if isinstance(target, ast.Name) and field is not None:
            self._fields[target.id] = field
            if field in types():
                self._classes[target.id] = types()[field]

    def field(self, node: ast.expr) -> Field | None:
        """The field that an expression is."""
        if isinstance(node, ast.Name):
            return self._fields.get(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        field = Field(self._class(node.value), node.attr)
        return field if field in writers() else None

    def _class(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self._classes.get(node.id, "")
        if isinstance(node, ast.Attribute) and node.attr in ("ctx", "_ctx"):
            return "Context"
        field = self.field(node)
        return "" if field is None else types().get(field, "")

    def writes(self, node: ast.AST) -> Iterator[tuple[Field, int]]:
        """What this statement or call writes."""
        for target in targets(node):
            is_part = not isinstance(target, ast.Name)  # a local name is bound anew
            field = self.field(target) if is_part else None
            if isinstance(target, ast.Subscript):
                field = self.field(target.value)
            if field is not None:
                yield field, target.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            field = self.field(node.func.value)
            if field is not None and field in tables() and node.func.attr in CHANGES:
                yield field, node.lineno


def pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """(target, its value if it can be told) of an assignment, tuples taken apart."""
    for target in node.targets:
        if isinstance(target, ast.Tuple):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [None] * 99
            yield from zip(target.elts, values, strict=False)
        else:
            yield target, node.value


def targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement assigns or deletes."""
    if isinstance(node, ast.Assign):
        yield from (target for target, _ in pairs(node))
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
    elif isinstance(node, ast.Delete):
        yield from node.targets
