"""Digest of the settings by which a pipeline file sorts a source's records: good or dead letter.

Each commit contains the digest. The same digest gives the same result for the same record, so a
replay can find the tables that left a dead letter out (`dead_letters/routing.py`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pipelines.model.pipeline import Decode, Format, OnError, Transform
from pipelines.model.plan import SourcePlan

JUDGED_BY = "judged_by"
"""The digest's name in a commit."""
_METHOD = 1
"""Raise it when a code change accepts other values as good in every format."""
_AS_SENT = {Format.JSON, Format.CSV, Format.DEBEZIUM}
"""Formats that refuse values which Spark would change (`formats/json_contract.py`), and take those
with a byte order mark. A commit of a version before that took some of the former for good, so its
digest must differ: else a replay would add their rows once more. Nor did it take the latter."""


def judgement(plan: SourcePlan) -> str:
    """A digest of `decode`, of the checks that send dead letters, and of those checks' inputs."""
    source = plan.source
    said: list[Any] = [
        _METHOD,
        _of_decode(source.decode),
        [[check.name, check.on, check.expr.text] for check in plan.sending],
        {each.name: _of_transform(each) for each in plan.judged_in},
    ]
    if source.decode_key is not None:
        said.append(_of_decode(source.decode_key))
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def _of_transform(transform: Transform) -> str | list[str]:
    """A function counts with its whole file, because it may call other functions there."""
    function = transform.function
    return [function.name, function.source] if function else transform.said.text


def _of_decode(how: Decode | None) -> list[Any] | None:
    """`on_error: dead_letter` and `fail` give the same digest: both accept the same records."""
    if how is None:
        return None
    said = [how.schema.text, how.strict, how.tombstones]
    if how.format is not Format.JSON or how.on_error is OnError.NULL:
        # Commits of versions that knew only JSON name no format; their digests must still match.
        said += [how.format.value, how.separator, how.on_error is OnError.NULL]
    if how.format in (Format.AVRO, Format.DEBEZIUM):
        said += [how.avro, how.framed]
        if how.avro and how.framed:
            # Earlier versions refused a record whose schema refers to others.
            said += ["references"]
    if how.record_type or how.skips_other_types:
        said += ["type", how.record_type, how.skips_other_types]
    if how.explodes:
        said += ["explode"]
    if how.format is Format.JSON and how.framed:
        said += ["framed"]
    if how.format in _AS_SENT:
        said += ["values as sent", "byte order marks"]
    if how.format is Format.PROTOBUF:
        said += [hashlib.sha256(how.descriptors).hexdigest(), how.message, how.framed]
    return said
