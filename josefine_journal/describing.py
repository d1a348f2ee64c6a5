"""Tags and expiry of an append, extracted from its value.

Rules (expiry as in kafka-journal): the last valid append decides, and one without `expire_after`
removes the expiry; the time is the append's own plus the duration. An unreadable value has neither
tags nor expiry here: it harms only its own journal, when its events are read.
"""

import re
from dataclasses import replace
from datetime import timedelta

from josefine_journal.actions import Append, PayloadType
from josefine_journal.errors import JournalError
from josefine_journal.payloads import decode_payload
from josefine_journal.records import ActionRecord

_SPOKEN = re.compile(rb'expireAfter|"tags"\s*:\s*\[\s*"|\\u')
"""A JSON value without any of these has neither; the last may be part of an escaped name."""


def described(record: ActionRecord) -> ActionRecord:
    """The record of an append, with its tags and its expiry."""
    action, value = record.action, record.value
    if not isinstance(action, Append) or value is None:
        return record
    if action.payload_type is PayloadType.JSON and _SPOKEN.search(value) is None:
        return record
    try:
        events = decode_payload(action.payload_type, value)
    except JournalError:
        return record
    tags = dict.fromkeys(tag for event in events.events for tag in event.tags)
    expire_after = events.metadata.expire_after
    return replace(
        record,
        tags=tuple(tags),
        expire_on_ms=None
        if expire_after is None
        else record.timestamp_ms + expire_after // timedelta(milliseconds=1),
    )
