"""Reader of the keywords for a topic with records of several types: `type`, `other_types`."""

from __future__ import annotations

from josefine_arrow.formats.avro.schema import SchemaError, parse
from pipelines.config.section import Reader

SKIP = "skip"


def record_type(reader: Reader) -> str:
    """The full name of the Avro record, or the title of the JSON Schema, of the records that are
    read; "" if `schema` declares the only one."""
    return (reader.text("type") or "") if names_types(reader) else ""


def names_types(reader: Reader) -> bool:
    """Whether records count by the name of their type; keys never do."""
    is_value = reader.section == "decode value"
    return is_value and (reader.has("type") or reader.has("other_types"))


def skips_other_types(reader: Reader, said: str, avro: str) -> bool:
    """Whether records of other types are left out. `said`: the format; `avro`: its schema.

    Only a registry's frame and the index of an Avro union name the type of a record.
    """
    if not names_types(reader):
        return False
    word = "type" if reader.has("type") else "other_types"
    if said == "json":
        _check_json(reader, word)
    if said == "protobuf" and not reader.has("registry"):
        reader.wrong_at(word, f"`{word}` needs a `registry`, whose frame names the message")
    if said == "avro" and avro and not reader.has("registry") and not _is_union(avro):
        reader.wrong_at(
            word,
            f"`{word}` needs a `registry`, or a union of records as `schema`: without them, "
            "nothing in a record names its type",
        )
    return reader.choice("other_types") == SKIP


def _check_json(reader: Reader, word: str) -> None:
    """Refuse what no JSON record can have: a type without a frame, one without a name."""
    if not reader.has("registry"):
        reader.wrong_at(word, f"`{word}` needs a `registry`, whose frame names the schema")
    elif not reader.has("type"):
        reader.wrong_at(word, "`other_types` needs a `type`: the columns of JSON have no name")
    elif reader.flag("explode"):
        reader.wrong_at("explode", "an array is not of one `type`: leave `explode` or `type` out")


def _is_union(avro: str) -> bool:
    try:
        return parse(avro).kind == "union"
    except SchemaError:
        return True
