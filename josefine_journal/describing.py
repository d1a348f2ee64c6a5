"""What an append's value says beside its events: their tags, and when the journal expires.

Rules (expiry, as kafka-journal's): the last append that counts rules, one without `expire_after`
takes the expiry away; the time is the append's own plus the duration. A value that cannot be read
says nothing here: it harms its own journal only, when its events are read.
"""

import re
from dataclasses import replace
from datetime import timedelta

from josefine_journal.actions import Append, PayloadType
from josefine_journal.errors import JournalError
from josefine_journal.payloads import decode_payload
from josefine_journal.records import ActionRecord

_SPOKEN = re.compile(rb'expireAfter|"tags"\s*:\s*\[\s*"|\\u')
"""A JSON value without any of these says neither; the last may be part of an escaped name."""


def described(record: ActionRecord) -> ActionRecord:
    """An append with its tags and its expiry."""
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
