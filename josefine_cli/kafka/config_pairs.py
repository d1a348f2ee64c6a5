"""The parser of NAME=VALUE configurations: times may have units, and unknown names get a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from josefine_broker.base.durations import FORMS, duration_ms
from josefine_cli.base.errors import UsageError

CONFIG_HELP = f"A topic configuration; repeatable. Times (.ms) also like {FORMS}."


def parse_configs(pairs: Sequence[str] | None, what: str = "--config ") -> dict[str, str]:
    """Parse the pairs. Raises UsageError, in which `what` precedes the wrong pair."""
    configs = {}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise UsageError(f"{what}'{pair}' is not KEY=VALUE")
        configs[key.strip()] = _in_ms(key.strip(), value.strip())
    return configs


def check_known(names: Sequence[str], known: Iterable[str], what: str, kind: str = "topic") -> None:
    """Raises UsageError for an unknown name: the broker accepts the reset of any name."""
    there = list(known)
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1, cutoff=0.0)
            hint = f"; the nearest known key is {near[0]}" if near else ""
            raise UsageError(f"{what}'{name}' is not a {kind} configuration{hint}")


def _in_ms(key: str, value: str) -> str:
    """Kafka's times are numbers of milliseconds; people write 7d."""
    found = duration_ms(value) if key.endswith(".ms") else None
    return value if found is None else str(found)
