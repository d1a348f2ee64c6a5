"""Parameters of SQL that are not in `params` or not used, and variables pasted into SQL as text.

`${VAR}` in SQL is replaced before Spark reads the text, so a value with a quote changes the
statement. The warning shows the line with a parameter in its place. A variable that is part of a
name (`from ${table}`) is left alone: a parameter is a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from pipelines.base.errors import Problem
from pipelines.config.section import nearest
from pipelines.config.source_positions import place_at
from pipelines.model.parameters import names_in
from pipelines.model.pipeline import Pipeline, Placed

_SHOWN_MAX = 100
_REFERENCE = r"\$\{(?!secret:)(?P<name>\w+)[^}]*\}"
_TOKEN = re.compile(
    rf"""--[^\n]* | /\*.*?(\*/|\Z) | `[^`]*` | (?P<text>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<name>\b(?:from|join)\s+\S+ | [\w.]+\$\{{[^}}]*\}}[\w.]* | \$\{{[^}}]*\}}[\w.]+)
    | (?P<value>{_REFERENCE.replace("?P<name>", "?:")}) | \$\$\{{""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def parameter_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """The problems of every SQL text of the file, and of its `params`."""
    used: set[str] = set()
    for said in _texts(pipeline):
        for index, name in names_in(said.text):
            used.add(name)
            if name not in pipeline.params:
                hint = nearest(name, pipeline.params)
                message = f"no parameter `{name}`{hint or ': expected it below `params`'}"
                place = place_at(said, index)
                yield Problem(place=place, path=said.path, message=message, stops_run=False)
        yield from _pasted(said)
    for name, each in pipeline.params.items():
        if name not in used:
            message = f"no SQL names it: expected `:{name}` in a transform or a condition"
            yield Problem(place=each.place, path=each.path, message=message, stops_run=False)


def _texts(pipeline: Pipeline) -> Iterator[Placed]:
    yield from (each.said for each in pipeline.transforms.values() if each.function is None)
    yield from (each.expr for each in pipeline.checks.values())
    for sink in pipeline.sinks.values():
        if sink.latest is not None and sink.latest.delete_when is not None:
            yield sink.latest.delete_when
        yield from sink.constraints.values()


def _pasted(said: Placed) -> Iterator[Problem]:
    """A warning for each line of a text that has a variable where a value is."""
    sql = said.raw
    if "${" not in sql:
        return
    warned: set[int] = set()
    for match in _TOKEN.finditer(sql):
        token = match["text"] or match["value"]
        reference = re.search(_REFERENCE, token) if token else None
        if reference is None:
            continue
        index = match.start() + reference.start()
        line = sql.count("\n", 0, index)
        if line in warned:
            continue
        warned.add(line)
        name, new = reference["name"].lower(), _rewritten(sql.split("\n")[line]).strip()
        new = new if len(new) <= _SHOWN_MAX else new[: _SHOWN_MAX - 3] + "..."
        message = (
            f"`{reference[0]}` is pasted into the SQL as text; bind it as a parameter: {new} with "
            f'`params: {{ {name}: "{reference[0]}" }}`'
        )
        place = place_at(replace(said, text=sql), index)
        yield Problem(place=place, path=said.path, message=message, stops_run=False)


def _rewritten(line: str) -> str:
    """A line with parameters in place of variables; `'%${X}'` becomes `'%' || :x`."""

    def of(match: re.Match[str]) -> str:
        if match["value"]:
            return ":" + _name(match["value"])
        if not match["text"] or not re.search(_REFERENCE, match["text"]):
            return match[0]
        quote, inside = match["text"][0], match["text"][1:-1]
        parts, at = [], 0
        for each in re.finditer(_REFERENCE, inside):
            parts += [f"{quote}{inside[at : each.start()]}{quote}", f":{each['name'].lower()}"]
            at = each.end()
        parts.append(f"{quote}{inside[at:]}{quote}")
        return " || ".join(part for part in parts if part != quote * 2)

    return _TOKEN.sub(of, line)


def _name(reference: str) -> str:
    match = re.fullmatch(_REFERENCE, reference)
    assert match is not None
    return match["name"].lower()
