"""By what a file judges the records of a source: good, or a dead letter.

A digest of it is in each commit. A record that the same judgement has met twice is both times the
same, so that a replay can tell which tables have left a letter out (`dead_letters/routing.py`).
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
"""To be raised when the code takes other values for good ones."""


def judgement(plan: SourcePlan) -> str:
    """A digest of `decode`, of the checks that send dead letters and of what they look at."""
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
    """A function is all of its file: what it calls there makes its rows, too."""
    function = transform.function
    return [function.name, function.source] if function else transform.said.text


def _of_decode(how: Decode | None) -> list[Any] | None:
    """Whether bad ones are letters or stop the run makes no other ones good."""
    if how is None:
        return None
    said = [how.schema.text, how.strict, how.tombstones]
    if how.format is not Format.JSON or how.on_error is OnError.NULL:
        # Commits of before there was more than JSON name no format.
        said += [how.format.value, how.separator, how.on_error is OnError.NULL]
    if how.format in (Format.AVRO, Format.DEBEZIUM):
        said += [how.avro, how.framed]
    if how.format is Format.JSON and how.framed:
        said += ["framed"]
    if how.format is Format.PROTOBUF:
        said += [hashlib.sha256(how.descriptors).hexdigest(), how.message, how.framed]
    return said
