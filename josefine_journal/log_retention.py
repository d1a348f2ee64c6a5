"""The decision whether delta-rs may clean a table's log up after its commits. Pure.

It has the properties' names of Delta for Spark, but does not read all of their forms, and takes its
default for the others. (Delta's PROTOCOL.md: metadata cleanup.)
"""

import re
from collections.abc import Mapping

_DURATION = re.compile(r"interval \d{1,9} (second|minute|hour|day|week)s?", re.ASCII)
_OBEYED = {
    "delta.checkpointRetentionDuration": _DURATION,
    "delta.deletedFileRetentionDuration": _DURATION,
    "delta.enableExpiredLogCleanup": re.compile("true|false"),
    "delta.logRetentionDuration": _DURATION,
}
"""How delta-rs reads the properties that it obeys while it cleans the log up. For other texts, such
as Spark's `365 days`, it takes its default, and deletes the log of months that the table keeps."""


def why_not_cleaned(properties: Mapping[str, str]) -> str:
    """Why delta-rs would clean the table's log up by its own rules; "" if it does so by these."""
    for name, obeyed in _OBEYED.items():
        if name in properties and not obeyed.fullmatch(properties[name]):
            return f"its property {name} is `{properties[name]}`, which delta-rs does not read"
    return ""
