"""The JSON Schema of pipeline files, for editors, generated from the keywords alone.

Draft 7, which the YAML plugins of editors support. A value may be a `${variable}` wherever the
reader accepts one. Rules across several keywords (an unknown name, two sinks in one folder) are
checked by `lint`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.config.keyword import Kind, ModeWords, Word
from pipelines.config.keywords import EXACTLY_ONE, FORMATS, MODES, SINK_TYPES, WORDS
from pipelines.config.source_keywords import TYPES
from pipelines.config.spelling import EXTRA
from pipelines.config.topic import TOPIC_MODES

_NAME = "^[a-z][a-z0-9_]*$"
_REFERENCE = {"type": "string", "pattern": r"\$\{[^}]+\}"}
_TEXT = {"type": ["string", "number"]}
_TEXTS = {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}
_SETTING = {"type": ["string", "number", "boolean"]}
_NUMBER = {"anyOf": [{"type": "integer", "minimum": 0}, _REFERENCE]}
_PARTS = "part of "
"""Prefix of an environment's sections: the same keywords, none of them required."""


def json_schema() -> dict[str, Any]:
    """The whole schema."""
    definitions = {name: _section(name) for name in WORDS if name}
    parts = {_PARTS + (name or "a pipeline"): _section(name, is_part=True) for name in WORDS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Josefine pipeline",
        "description": "`josefine pipeline lint` knows more; docs/reference/pipelines/ explains.",
        **_section(""),
        "patternProperties": {f"^{EXTRA}": {"description": "not read: a place for YAML anchors"}},
        "definitions": {**definitions, **parts},
    }


def _section(section: str, *, is_part: bool = False) -> dict[str, Any]:
    words = WORDS[section]
    schema: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {"description": word.expected, **_value(word, is_part)}
            for name, word in words.items()
            if not (is_part and word.kind in (Kind.VERSION, Kind.ENVIRONMENTS))
        },
    }
    # A part overlays a section of the file, which has the required keywords already.
    if is_part:
        return schema
    schema["required"] = [name for name, word in words.items() if word.required]
    if section == "source":
        schema["allOf"] = [_choice(TYPES, "type", name) for name in TYPES]
        for own, each in zip(TYPES.values(), schema["allOf"], strict=True):
            if "topics" in own.allowed:
                each["then"]["oneOf"] = _one_of("source")
            if "table" in own.allowed:
                each["then"]["oneOf"] = _one_of("sink")
    elif section == "sink":
        schema["allOf"] = [_choice(SINK_TYPES, "type", name) for name in SINK_TYPES]
        schema["allOf"][0]["then"]["oneOf"] = _one_of("sink")
        schema["allOf"] += [_choice(MODES, "mode", mode) for mode in MODES]
        schema["allOf"] += [_TOPICS_GROW, _TABLES_HAVE_NO_CHANGES, _CHANGES_HAVE_KEYS]
    elif section in EXACTLY_ONE:
        schema["oneOf"] = _one_of(section)
    if section == "":
        schema["anyOf"] = [{"required": ["trigger"]}, _A_SINK_IS_FRESH]
    if section in ("start", "stop"):
        schema["oneOf"] = [{"required": [word]} for word in words]
    if section in ("decode value", "decode key"):
        schema["allOf"] = [_choice(FORMATS, "format", name) for name in FORMATS]
    return schema


_A_SINK_IS_FRESH = {
    # "Some value of the mapping": JSON Schema has it as "not every value does not".
    "properties": {"sinks": {"not": {"additionalProperties": {"not": {"required": ["fresh"]}}}}}
}
_TOPICS_GROW = {
    "if": {"properties": {"type": {"const": "josefine"}}, "required": ["type"]},
    "then": {"properties": {"mode": {"anyOf": [{"enum": [*TOPIC_MODES]}, _REFERENCE]}}},
}
_TABLES_HAVE_NO_CHANGES = {
    "if": {"properties": {"type": {"enum": ["delta", "iceberg"]}}, "required": ["type"]},
    "then": {"properties": {"mode": {"not": {"const": "update"}}}},
}
_CHANGES_HAVE_KEYS = {
    "if": {"properties": {"mode": {"const": "update"}}, "required": ["mode"]},
    "then": {"required": ["key"]},
    "else": {"not": {"required": ["tombstone_when"]}},
}


def _one_of(section: str) -> list[dict[str, Any]]:
    """Exactly one of two keywords. The first of a section's types is the one that has them."""
    return [{"required": [word]} for word in EXACTLY_ONE[section]]


def _choice(all_of_them: Mapping[str, ModeWords], word: str, said: str) -> dict[str, Any]:
    """The required and forbidden keywords of a section if `word` has this value."""
    words = {w for each in all_of_them.values() for w in (*each.required, *each.allowed)}
    own = all_of_them[said]
    forbidden = sorted(words - {*own.required, *own.allowed})
    then: dict[str, Any] = {
        "required": list(own.required),
        "not": {"anyOf": [{"required": [each]} for each in forbidden]},
    }
    return {"if": {"properties": {word: {"const": said}}, "required": [word]}, "then": then}


def _choices(word: Word) -> list[str | None]:
    """A choice named `null` also accepts YAML's null."""
    return [*word.choices, *([None] if "null" in word.choices else [])]


def _tables(word: Word) -> dict[str, Any]:
    """A partial pipeline has complete tests: a list replaces the list of the file."""
    return {
        "type": "array",
        "items": {"$ref": f"#/definitions/{word.of}"} if word.of else {"type": "object"},
    }


def _by_name(value: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "minProperties": 1, "additionalProperties": value}


def _value(word: Word, is_part: bool) -> dict[str, Any]:
    of = _PARTS + (word.of or "a pipeline") if is_part else word.of
    match word.kind:
        case Kind.VERSION:
            return {"enum": [1, "1"]}
        case Kind.TEXT:
            return dict(_TEXT)
        case Kind.TEXTS:
            return dict(_TEXTS)
        case Kind.COLUMNS:
            return {"anyOf": [_TEXT, _TEXTS]}
        case Kind.CHOICE:
            section = [{"$ref": f"#/definitions/{of}"}] if word.of else []
            return {"anyOf": [{"enum": _choices(word)}, _REFERENCE, *section]}
        case Kind.FLAG:
            return {"anyOf": [{"type": "boolean"}, _REFERENCE]}
        case Kind.COUNT:
            return {"anyOf": [{"type": "integer", "minimum": 1}, _REFERENCE]}
        case Kind.NUMBER:
            return dict(_NUMBER)
        case Kind.RATIO:
            return {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, _REFERENCE]}
        case Kind.ANY:
            return {}
        case Kind.TABLES:
            return _tables(word)
        case Kind.NAMED_TABLES:
            # Or rows of a table, whose keys are its columns.
            items = {"anyOf": [{"$ref": f"#/definitions/{word.of}"}, {"type": "object"}]}
            lists = {"type": "array", "items": items}
            return {"type": "object", "additionalProperties": lists}
        case Kind.DURATION:
            pattern = r"^\d+(ms|s|m|h)$"
            return {"anyOf": [{"type": "string", "pattern": pattern}, _REFERENCE]}
        case Kind.BATCHES:
            return {"anyOf": [{"type": "string", "pattern": r"^\d+ batch(es)?$"}, _REFERENCE]}
        case Kind.PAUSES:
            pattern = r"^\d+(ms|s|m|h)(\.\.\d+(ms|s|m|h))?$"
            return {"anyOf": [{"type": "string", "pattern": pattern}, _REFERENCE]}
        case Kind.SETTINGS:
            return {"type": "object", "additionalProperties": _SETTING}
        case Kind.AGGREGATES:
            name = r"([^\s\d`()*][^\s`()*]*|`([^`]|``)+`)"
            pattern = rf"^(count\(\s*\*\s*\)|(count|sum|min|max)\(\s*{name}\s*\))$"
            one = {"anyOf": [{"type": "string", "pattern": pattern}, _REFERENCE]}
            return {"type": "object", "minProperties": 1, "additionalProperties": one}
        case Kind.OFFSETS:
            return _by_name(_by_name(_NUMBER))
        case Kind.PARTITIONS:
            return _by_name({**_TEXTS, "items": _NUMBER})
        case Kind.SECTION:
            return {"$ref": f"#/definitions/{of}"}
        case Kind.NAMED | Kind.ENVIRONMENTS:
            if word.kind is Kind.ENVIRONMENTS:
                of = _PARTS + "a pipeline"
            schema: dict[str, Any] = {
                "type": "object",
                "propertyNames": {"pattern": _NAME},
                "additionalProperties": {"$ref": f"#/definitions/{of}"},
            }
            return {**schema, "minProperties": 1} if word.required and not is_part else schema
