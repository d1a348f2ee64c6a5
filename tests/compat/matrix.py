"""Which client does what, on which broker: the tables of COMPATIBILITY.md, from whole runs.

`./build.sh test compat --all` and `./build.sh test oracle --all` write to `matrix.json` how each
test ended, on which commit and on which day; written by hand is only why a client is not tried. A
test is on three brokers if it gets the fixture `cluster`. `python -m tests.compat.matrix`, which
`./build.sh lint` calls, warns when a table is older than `AGE_MAX`.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from pathlib import Path

AGE_MAX = timedelta(days=31)
"""After that nobody knows whether a table still holds: clients and brokers have changed since."""
FILE = Path(__file__).with_name("matrix.json")
OURS, ORACLE = "josefine", "Apache Kafka 4.3.0"
BY_CLIENT = ("test_groups.py", "test_foreign_transactions.py", "test_transactions.py")
_TEST = re.compile(r"(?P<file>\w+\.py)::test_(?P<name>\w+)(?:\[(?P<case>.*)\])?")

COMMITTED = "committed_is_seen_and_aborted_is_not"
OF_ONE_CLIENT = {
    "aiokafka_commits_and_aborts": (COMMITTED, "aiokafka"),
    "kafka_python_commits_and_aborts": (COMMITTED, "kafka-python"),
}
"""Tests of transactions of one client: their row, and who it is. Without a case it is else
librdkafka."""

ENDS = "transactions_outlive_their_coordinator"
BOTH = "transactions_outlive_a_leader_that_coordinates"
LEADER = "members_go_on_when_the_leader_is_killed"
STATIC = "static_member_comes_back_to_its_partitions_and_the_others_notice_nothing"
WHY: Mapping[tuple[str, str], str] = {
    ("", "java-heartbeats"): "a consumer of the consumer protocol: it has no transactions",
    (STATIC, "java-heartbeats"): "the other member of the test is a classic one",
    (STATIC, "kafkajs"): "it has no static members",
    (LEADER, "kafkajs"): "it may take over a minute to end when a broker that it read from is gone",
    (ENDS, "franz-go"): "it ends no transaction once its coordinator's port has refused it",
    (BOTH, "kafka-python"): "it forgets to end a transaction whose coordinator refuses connections",
    ("", "aiokafka"): "its transactions are tried with commits, aborts and killed leaders",
    ("", "kafka-python"): "as aiokafka",
    ("", "franz-go"): "killed leaders are tried with the clients of Python",
    ("", "java"): "as franz-go",
    ("", "kafkajs"): "as franz-go",
    ("", "sarama"): "as franz-go",
}
"""Why a client has no answer of ours in a row; without a row: in any other one."""

Outcomes = Mapping[str, str]
"""Test → passed, failed or skipped."""


def write_matrix(file: Path, broker: str, outcomes: Outcomes, today: date) -> None:
    """Put a run's outcomes in the place of the last run's on the same broker."""
    known = json.loads(file.read_text()) if file.exists() else {}
    known[broker] = {
        "commit": commit(),
        "date": today.isoformat(),
        "outcomes": dict(sorted(outcomes.items())),
    }
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


@cache
def commit() -> str:
    """The checked-out commit, marked where files differ from it; asked once, before a run writes
    its own results into the tree."""
    line = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.strip()


def warnings(file: Path, today: date) -> list[str]:
    """A line for each broker whose table is older than `AGE_MAX`."""
    verbs = {OURS: "compat", ORACLE: "oracle"}
    return [
        f"tests/compat/matrix.json: the table of {broker} is of {run['date']} (commit "
        f"{run['commit']}), older than {AGE_MAX.days} days: run ./build.sh test {verbs[broker]} "
        "--all, then ./build.sh docs"
        for broker, run in json.loads(file.read_text()).items()
        if today - date.fromisoformat(run["date"]) > AGE_MAX
    ]


def lines() -> Iterator[str]:
    """Of Markdown."""
    runs = json.loads(FILE.read_text())
    for broker in (OURS, ORACLE):
        yield f"{broker}: measured on {runs[broker]['date']}, commit {runs[broker]['commit']}."
    yield ""
    known = {broker: run["outcomes"] for broker, run in runs.items()}
    cells = {broker: _by_client(outcomes) for broker, outcomes in known.items()}
    clients = sorted({client for row in cells[OURS].values() for client in row})
    yield f"| groups and transactions, here and ({ORACLE}) | brokers | {' | '.join(clients)} |"
    yield "|---|---|" + "---|" * len(clients)
    missing: dict[tuple[str, str], None] = {}
    for name in cells[OURS]:
        row = []
        for client in clients:
            ours, theirs = cells[OURS][name].get(client), cells[ORACLE].get(name, {}).get(client)
            row.append(f"{_said(ours)} ({_said(theirs)})")
            if _said(ours) == "-":
                missing[(name, client) if (name, client) in WHY else ("", client)] = None
        brokers = 3 if any(name in _on_three(file) for file in BY_CLIENT) else 1
        yield f"| {name.replace('_', ' ')} | {brokers} | {' | '.join(row)} |"
    yield ""
    yield "Not tried, and why (the oracle is one broker):"
    yield ""
    yield from (f"- {_why(*each)}" for each in sorted(missing, key=lambda each: each[::-1]))
    yield ""
    yield f"| other tests, passed | here, 1 broker | here, 3 brokers | {ORACLE} |"
    yield "|---|---|---|---|"
    for file in sorted({_parts(test)["file"] or "" for test in known[OURS]}.difference(BY_CLIENT)):
        ours, theirs = (_passed(file, known[broker]) for broker in (OURS, ORACLE))
        three = sum(name in _on_three(file) for name in ours)
        yield f"| `tests/compat/{file}` | {len(ours) - three} | {three} | {len(theirs)} |"


def _why(name: str, client: str) -> str:
    where = f" ({name.replace('_', ' ')})" if name else ""
    return f"{client}{where}: {WHY[name, client]}"


def _passed(file: str, outcomes: Outcomes) -> list[str]:
    """The names of those of a file, each as often as it has cases."""
    found = [_parts(test) for test, outcome in outcomes.items() if outcome == "passed"]
    return [str(each["name"]) for each in found if each["file"] == file]


def _by_client(outcomes: Outcomes) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for test, outcome in outcomes.items():
        parts = _parts(test)
        name, client = str(parts["name"]), parts["case"]
        if parts["file"] == "test_transactions.py" and client is None:
            name, client = OF_ONE_CLIENT.get(name, (name, "librdkafka"))
        if parts["file"] in BY_CLIENT and client:
            found.setdefault(name, {})[client] = outcome
    return found


@cache
def _on_three(file: str) -> frozenset[str]:
    """The tests of a file that get `cluster`, by themselves or by a fixture of that file."""
    tree = ast.parse(FILE.with_name(file).read_text())
    asks = {
        node.name: {each.arg for each in node.args.args}
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }

    def gets(name: str) -> bool:
        asked = asks[name]
        return "cluster" in asked or any(gets(each) for each in asked & asks.keys() - {name})

    return frozenset(
        name.removeprefix("test_") for name in asks if name.startswith("test_") and gets(name)
    )


def _parts(test: str) -> dict[str, str | None]:
    match = _TEST.match(test)
    assert match is not None, test
    return match.groupdict()


def _said(outcome: str | None) -> str:
    return {"passed": "yes", "failed": "no"}.get(outcome or "", "-")


if __name__ == "__main__":
    for warning in warnings(FILE, date.today()):
        print(f"warning: {warning}", file=sys.stderr)
