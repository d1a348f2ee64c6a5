"""Write the pages that come from code, `PAGES`.

`python -m tests.generate_docs` writes them; tests/unit/test_docs.py holds them equal.
"""

from pathlib import Path

from josefine_broker.handlers.table import APIS
from tests import state_machines
from tests.checklist import Row, rows

ROOT = Path(__file__).resolve().parents[1]

NOT_SERVED: dict[str, str] = {
    "JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, DeleteGroups": (
        "groups with members come with the group coordinator; assign partitions by hand until then"
    ),
    "AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, WriteTxnMarkers, TxnOffsetCommit": (
        "transactions come with their coordinator; InitProducerId with a transactional id is "
        "refused with a clear error"
    ),
    "log compaction": (
        "cleanup.policy=compact is taken and described, and everything is kept until it is built"
    ),
    "SaslHandshake, SaslAuthenticate, ACL APIs": "security is a later issue; listen on loopback",
    "UpdateFeatures v0": "it cannot say which downgrades are meant; no client sends it any more",
    "AlterReplicaLogDirs": "a broker has one log directory",
    "AddRaftVoter": (
        "the controller makes registered brokers voters by itself; RemoveRaftVoter is for one that "
        "lost its data, and UnregisterBroker removes a broker"
    ),
    "ConsumerGroupHeartbeat, Share* and Streams* APIs": "later than the classic group protocol",
    "GetTelemetrySubscriptions, PushTelemetry": "clients work without; metrics are at /metrics",
    "Fetch v0-3, Produce v0-2, message formats 0 and 1": (
        "removed from Kafka 4.0 too (KIP-896); every client since 2017 sends record batches v2"
    ),
}
"""What a Kafka broker has and this one has not, with the reason."""


def compatibility() -> str:
    """COMPATIBILITY.md: the APIs of the handler table, and the ledger of what is not served."""
    lines = [
        "# Compatibility",
        "",
        "Written by `./build.sh docs` from `josefine_broker/handlers/table.py`: ApiVersions",
        "answers from the same table, so this page is what the broker says of itself.",
        "",
        "| key | API | versions |",
        "|---|---|---|",
    ]
    lines += [f"| {a.key} | {a.name} | {a.min_version}–{a.max_version} |" for a in APIS]
    lines += ["", "## Not served, and why", "", "| API | reason |", "|---|---|"]
    lines += [f"| {what} | {why} |" for what, why in NOT_SERVED.items()]
    return "\n".join(lines) + "\n"


def checklist() -> str:
    """docs/checklist.md: every row with its tests, or the reason why it has none yet."""
    every = rows()
    proved = [row for row in every if row.tests]
    lines = [
        "# Checklist",
        "",
        "What the predecessors can do, as statements a test can prove. J = josefine (Rust),",
        "K = Kafkaesque (Go), E = Kafka Journal (Scala), B = the pub/sub book (Rust), S = the",
        "Spark side. Written by `./build.sh docs` from tests/checklist_rows.txt and docstrings.",
        "",
        f"{len(proved)} of {len(every)} rows have a test. Where a row asks for more than is",
        "built yet, its tests prove the part that is, and the rest is named.",
    ]
    section = ""
    for row in every:
        if row.section != section:
            section = row.section
            lines += ["", f"## {section}", "", "| # | capability | test |", "|---|---|---|"]
        lines.append(f"| {row.number} | {_cell(row.statement)} | {_evidence(row)} |")
    return "\n".join(lines) + "\n"


def _evidence(row: Row) -> str:
    tests = "<br>".join(f"`{test}`" for test in row.tests[:4])
    if len(row.tests) > 4:
        tests += f"<br>and {len(row.tests) - 4} more"
    if not row.tests:
        return f"open: {row.reason}"
    return tests + (f"<br>still open: {row.reason}" if row.reason else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES = {
    "COMPATIBILITY.md": compatibility,
    "docs/checklist.md": checklist,
    "docs/state-machines.md": state_machines.page,
}


def main() -> None:
    """Write every page."""
    for name, render in PAGES.items():
        (ROOT / name).write_text(render())


if __name__ == "__main__":
    main()
