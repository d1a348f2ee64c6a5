"""Which client does what, on which broker: the table of COMPATIBILITY.md, from whole runs.

`./build.sh test compat --all` and `./build.sh test oracle --all` write down in `matrix.json` how
each test ended; nothing here is said by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("matrix.json")
OURS, ORACLE = "josefine", "Apache Kafka 4.3.0"
BY_CLIENT = ("test_groups.py", "test_foreign_transactions.py")
_TEST = re.compile(r"(?P<file>\w+\.py)::test_(?P<name>\w+)(?:\[(?P<case>.*)\])?")

Outcomes = Mapping[str, str]
"""Test → passed, failed or skipped."""


def write_matrix(file: Path, broker: str, outcomes: Outcomes) -> None:
    """Put a run's outcomes in the place of the last run's on the same broker."""
    known = json.loads(file.read_text()) if file.exists() else {}
    known[broker] = dict(sorted(outcomes.items()))
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def lines() -> Iterator[str]:
    """Of Markdown."""
    known = json.loads(FILE.read_text())
    cells = {broker: _by_client(outcomes) for broker, outcomes in known.items()}
    clients = sorted({client for row in cells[OURS].values() for client in row})
    yield f"| groups and transactions, here and ({ORACLE}) | {' | '.join(clients)} |"
    yield "|---|" + "---|" * len(clients)
    for name in cells[OURS]:
        row = [
            f"{_said(cells[OURS][name].get(client))} "
            f"({_said(cells[ORACLE].get(name, {}).get(client))})"
            for client in clients
        ]
        yield f"| {name.replace('_', ' ')} | {' | '.join(row)} |"
    yield ""
    yield f"| other tests, passed | here | {ORACLE} |"
    yield "|---|---|---|"
    for file in sorted({_parts(test)["file"] for test in known[OURS]}.difference(BY_CLIENT)):
        counts = [
            sum(_parts(test)["file"] == file and said == "passed" for test, said in each.items())
            for each in (known[OURS], known[ORACLE])
        ]
        yield f"| `tests/compat/{file}` | {counts[0]} | {counts[1]} |"


def _by_client(outcomes: Outcomes) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for test, outcome in outcomes.items():
        parts = _parts(test)
        if parts["file"] in BY_CLIENT and parts["case"]:
            found.setdefault(str(parts["name"]), {})[str(parts["case"])] = outcome
    return found


def _parts(test: str) -> dict[str, str | None]:
    match = _TEST.match(test)
    assert match is not None, test
    return match.groupdict()


def _said(outcome: str | None) -> str:
    return {"passed": "yes", "failed": "no"}.get(outcome or "", "-")
