"""Write the pages that come from code, `PAGES`.

`python -m tests.generate_docs` writes them; tests/unit/test_docs.py holds them equal.
"""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from conf.distributions import licences
from josefine_broker.api.declined import REASONS
from josefine_broker.api.table import SERVED
from josefine_broker.base.schemas import load_request_schema
from josefine_broker.engine.metadata.inert_configs import INERT, REFUSED
from josefine_broker.engine.metadata.topic_config import TOPIC_CONFIGS
from josefine_broker.host.metric_table import SECTIONS
from josefine_lake.report.metric_table import ARCHIVES, TABLES
from pipelines.config.json_schema import json_schema
from pipelines.report.metric_table import ROWS
from tests import state_machines, value_table
from tests.checklist import Row, rows
from tests.compat import config_candidates, matrix
from tests.connector_rows import features
from tests.foreign import results as foreign_results
from tests.oracle.known_kept import KEPT
from tests.oracle.known_open import OPEN
from tests.oracle.row import Known
from tests.pages import cli, errors, keywords, settings, table_features
from tests.pages.blocks import with_files
from tests.support.apache_kafka import VERSION
from tests.support.kafkas_versions import KEYS, kafkas_versions

ROOT = Path(__file__).resolve().parents[1]

NOT_SERVED: dict[str, str] = {
    "*DelegationToken": (
        "there are no tokens yet; to a client that has not logged in the error is "
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka"
    ),
    "AssignReplicasToDirs": "a broker has one log directory",
    "AddRaftVoter, UpdateRaftVoter": (
        "the controller makes registered brokers voters by itself, and they say where they are; "
        "RemoveRaftVoter is for one that lost its data, and UnregisterBroker removes a broker"
    ),
    "Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot, BrokerRegistration, BrokerHeartbeat, "
    "ControllerRegistration, AllocateProducerIds, AlterPartition, Envelope": (
        "what Kafka's brokers say to each other; ours do it by chained Raft, and clients never ask"
    ),
    "StreamsGroup*": (
        "Streams joins by the classic protocol, which is served, unless `group.protocol=streams` "
        "(KIP-1071) is set; no release is set for that"
    ),
    "UnregisterController": "each controller is a broker: UnregisterBroker takes its vote along",
}
"""APIs that Kafka has and this broker has not, with the reason; `*` stands for any letters."""

LIMITED: dict[str, str] = {
    "Fetch v0-3, Produce v0-2, message formats 0 and 1": (
        "removed from Kafka 4.0 too (KIP-896); every client since 2017 sends record batches v2"
    ),
}
"""What of a served API is not there, beside versions that Kafka has (those say why themselves)."""


DIFFERENT: dict[str, str] = {
    "share groups (KIP-932)": (
        "served as by Kafka 4.4, with lock renewal (KIP-1222), both acquire modes (KIP-1206) and "
        "lag (KIP-1226; known where the group's coordinator leads the partition). "
        "`share.auto.offset.reset=by_duration:...` starts at the end where no record is young "
        "enough (Kafka: tries again until there is one). Dead letters (KIP-1191) need "
        "`share.version` 2, as Kafka's; the topic must be there, must not be compacted, and no "
        "broker creates it (`errors.deadletterqueue.auto.create.topics.enable` is false). "
        "A letter that can be written later is tried again without end (Kafka: five times, and "
        "then the record is archived without one); a record that is too large for the topic of "
        "letters is only named. Each record of "
        "`__share_group_state` is a whole ShareSnapshot, in a compacted topic; Kafka also writes "
        "differences. A fetch does not wait for `min_bytes`. Markers of transactions are never "
        "acquired. A late write of a state takes nothing back: neither what is finished nor "
        "a delivery count. InitializeShareGroupState with the state epoch of a state that is in "
        "use, and WriteShareGroupState with one that is not stored, are refused (Kafka: done)"
    ),
    "configurations of groups": (
        "`share.*` and `consumer.*` session timeout and heartbeat interval are served from "
        "`josefine.version` 8 on, and judged by Kafka's bounds (its defaults, extended to the "
        "broker's own value in `group.*`; the bounds themselves have no configuration). "
        "`errors.deadletterqueue.topic.name` must start with the broker's "
        "`group.share_dead_letter_topic_prefix` when it is set (Kafka: when a letter is written). "
        "Assignment intervals, assignor offload and `streams.*` are refused"
    ),
    "configurations of brokers and of their loggers": (
        "are in each broker's file (`log.level` for the loggers): changes are refused with "
        "INVALID_REQUEST, but for the throttles below. Those of loggers are not described either"
    ),
    "subscriptions of client metrics (KIP-714)": (
        "`telemetry.client_metrics` of each broker's file is the only one, for all clients: "
        "`kafka-client-metrics` and `kafka-configs --entity-type client-metrics` list and "
        "describe none, and changes are refused with INVALID_REQUEST"
    ),
    "groups of the consumer protocol (KIP-848)": (
        "served from `group.version` 1 on, which a new cluster has. A group changes its protocol "
        "while it is empty, and keeps its offsets: with members of the other protocol it answers "
        "INCONSISTENT_GROUP_PROTOCOL, unless `group.consumer_migration_policy` is `upgrade`, "
        "`downgrade` or `bidirectional` (Kafka's default; here `disabled`, which keeps classic "
        "members out of the other's groups, too): then "
        "members of both are in one group while clients are moved. A consumer that would join a "
        "classic group that rebalances is told COORDINATOR_LOAD_IN_PROGRESS, and tries again; a "
        "classic group whose members' words are not to be understood stays one. A member of a "
        "group that is not there is told UNKNOWN_MEMBER_ID and joins again (Kafka: "
        "GROUP_ID_NOT_FOUND, at which clients give up). A member that waits for partitions is told "
        "to be heard sooner than the others (Kafka: as often). `SubscribedTopicRegex` is matched "
        "by RE2, as in Kafka by RE2/J; an expression of more than 4,000 characters or compiled "
        "instructions is refused with INVALID_REGULAR_EXPRESSION. "
        "The assignors `uniform` and `range` do not look at racks. "
        "What a member had before it began anew (epoch 0), and is not to have again, is free with "
        "its next heartbeat (Kafka: at once, also by an old join of a connection that was given "
        "up). "
        "Another choice of an assignor begins an epoch. A commit counts in its member's epoch "
        "alone (KIP-1251 would take one from before)"
    ),
    "two-phase commit (KIP-939)": (
        "served where `transactions.two_phase_commit_enable` says so (Kafka:"
        " `transaction.two.phase.commit.enable`, and an ACL besides). A participant's transaction"
        " is not open for ever: `transactions.two_phase_commit_timeout_max_ms` is its timeout, and"
        " it is aborted then"
    ),
    "what a produced batch may be": (
        "as Kafka's LogValidator decides, record by record, and stricter where a batch that Kafka "
        "stores is one that some reader cannot read: INVALID_RECORD also for an offset delta that "
        "is not the record's place in the batch (Kafka stores it, or rewrites the batch), a "
        "negative length other than -1, a varint with bits beyond its type, a record length that "
        "is not that of its fields in a compressed batch, bytes behind the batch or behind its "
        "compressed frame, and a producer id below -1. INVALID_RECORD where Kafka has no name for "
        "it (UNKNOWN_SERVER_ERROR): what cannot be decompressed; UNSUPPORTED_COMPRESSION_TYPE for "
        "the codecs 5 to 7. INVALID_RECORD for a transactional batch without a producer id (Kafka: "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the request). Records of one batch that expand "
        "to more than 128 MiB: MESSAGE_TOO_LARGE, on which Java's producer splits the batch (Kafka "
        "has no bound). An answer names 1,000 records at fault at most. "
        "`log.validate_records: headers` checks headers and checksums alone"
    ),
    "a record without a key that a compacted topic holds": (
        "from before the topic was compacted, or from a broker that did not refuse it: the log "
        "cleaner keeps it (`cleaner_records_without_key_total` counts them); Kafka's drops it"
    ),
    "what a cleaned log keeps": (
        "as Kafka's, the last batch of each producer that is remembered, and of what was cleaned, "
        "without records; besides the first batch of each leader epoch, so that replicas find "
        "where an epoch began, and the last one of each segment. A fetch is not answered with such "
        "headers alone while records follow, for some clients would ask for the same offset for "
        "ever"
    ),
    "a batch of more than 100,000 records, or 64 MiB of them decompressed": (
        "is left as it is by the log cleaner: its memory is bounded"
    ),
    "a record of `__consumer_offsets` that cannot be read": (
        "keeps its partition's groups at COORDINATOR_LOAD_IN_PROGRESS, and is tried again every "
        "second; in Kafka they are not there until the leadership moves"
    ),
    "ACLs of a group of the consumer protocol": (
        "a member that subscribes by an expression is assigned every topic that it fits; those it "
        "may not read it is refused where it reads (Kafka assigns it none of them)"
    ),
    "ACLs of delegation tokens, users and two-phase commit": (
        "are refused with INVALID_REQUEST, as is an operation that a resource has not: they would "
        "say nothing. A broker with `acls.enabled: false` takes none (SECURITY_DISABLED)"
    ),
    "client quotas": (
        "`producer_byte_rate`, `consumer_byte_rate` and `request_percentage` of users and client "
        "ids; those of addresses (KIP-612) and `controller_mutation_rate` (KIP-599) are refused. "
        "An idle client saves up one second's worth (Kafka: ten), and a throttled fetch is "
        "answered with its records (Kafka: empty)"
    ),
    "max.compaction.lag.ms": (
        "closes the segment that is written also when nothing is appended any more; in Kafka it "
        "waits for the next append"
    ),
    "re-authentication (KIP-368)": (
        "`sasl.reauthentication_ms` is Kafka's `connections.max.reauth.ms`, for all mechanisms."
        " What was begun is answered before the connection of a session that is over is closed;"
        " with its token it ends by itself (Kafka: at its next request), whether sessions end or"
        " not. There is no shortest time between two proofs (Kafka: a second). librdkafka and"
        " kafka-python prove again; aiokafka 0.14 and the clients here do not: they are hung up on,"
        " and come again"
    ),
    "throttles of replication": (
        "`leader.` and `follower.replication.throttled.replicas` of topics and the `.rate`s of"
        " brokers are accepted, for tools that move partitions set them always, and have no"
        " effect; the rates are not kept. `replication.throttle_bytes_per_second` of each broker's"
        " file paces its replicas that are out of sync"
    ),
    "DescribeUserScramCredentials without the right to": (
        "has the error with each user that the request names, and of the whole where it names none"
        " (Kafka: both): librdkafka 2.16 ends with a segmentation fault on an error of the whole"
    ),
    "InitProducerId 6 (KIP-939)": (
        "is listed in ApiVersions where `transactions.two_phase_commit_enable` says so (Kafka:"
        " `unstable.api.versions.enable`)"
    ),
    "new topics whose names differ in `.` and `_` alone": (
        "are refused within one request, too (Kafka makes both of them)"
    ),
    "what an administrator changed": (
        "the broker that answers has it then; Kafka's learns of it a moment later"
    ),
}
"""Where a served feature behaves otherwise than Kafka's, with the reason."""

CONFIGS_AS_KAFKAS = (
    "What is accepted of each, how it is printed and which error code a refusal has is as in",
    "Apache Kafka 4.4: `tests/compat/recorded/topic_configs.json` holds its verdicts on some 2,000",
    "texts, lists and deletions, the suite compares ours, and `./build.sh test oracle` asks Kafka",
    "again. `compression.type` is honoured when a batch comes in: one with another codec is stored",
    "with the topic's, in the level that the topic says.",
)

ORACLE = (
    "The tests with other people's clients (`tests/compat`) pass against Apache Kafka 4.3.0 as",
    "they do against this broker: `./build.sh test oracle` runs them there, with those of the",
    "connector. Left out are those on three brokers, and those that look at this broker's pages.",
    "`./build.sh test compat --all` adds clients of other languages; both write down the tables.",
)

FOREIGN = (
    "`./build.sh test foreign` builds the test suites of other projects outside of this tree and",
    "runs them against brokers of this project. Their tests that meet no broker are not counted.",
    "franz-go's tests copy 20,000 records each instead of 500,000; librdkafka's run in quick mode,",
    "and in full where that leaves nothing of a test. Spark's tests of its Kafka connector meet",
    "these brokers through a class in the place of the one that embeds a broker.",
)


FUZZER = (
    "`./build.sh test oracle` also sends some 6,000 generated requests here and to Apache Kafka",
    f"{VERSION}, of every API and version but those that are listed and declined, and compares the",
    "answers field by field (`tests/oracle`).",
    "Not compared: the order of lists, ids that brokers choose, ports, times, leader epochs,",
    "throttle times and the texts of errors. Where two error codes differ, the fields around them",
    "are not compared. Every other difference has a row in `tests/oracle/known.py`, and a row that",
    "a run does not use makes it fail. In a field or value, `*` matches any text.",
)


def compatibility() -> str:
    """COMPATIBILITY.md: the APIs of the handler table, and the ledger of what is not served."""
    lines = [
        "# Compatibility",
        "",
        "Written by `./build.sh docs` from `josefine_broker/api/table.py`: ApiVersions",
        "answers from the same table, so this page is what the broker says of itself.",
        "",
        "| key | API | versions |",
        "|---|---|---|",
    ]
    served = [api.spec for api in SERVED.values() if not api.spec.is_declined]
    lines += [f"| {a.key} | {a.name} | {a.min_version}–{a.max_version} |" for a in served]
    lines += [
        "",
        "## Not served, and why",
        "",
        "Every other API of Kafka's. Those with an error are",
    ]
    lines += ["listed in ApiVersions all the same and answered with it, as by a Kafka where the"]
    lines += ["feature is off: tools tell Kafka's version by the keys that a broker lists.", ""]
    lines += ["| key | API | error | reason |", "|---|---|---|---|"]
    lines += [f"| {key} | {name} | {_error(key)} | {why} |" for key, name, why in not_served()]
    lines += ["", "Of those that are served:", "", "| what | reason |", "|---|---|"]
    ledger = {**versions_not_served(), **LIMITED}
    lines += [f"| {what} | {why} |" for what, why in ledger.items()]
    lines += ["", "## Different, and why", "", "| what | here |", "|---|---|"]
    lines += [f"| {what} | {how} |" for what, how in DIFFERENT.items()]
    lines += ["", "## Against Apache Kafka", "", *ORACLE, ""]
    lines += matrix.lines()
    lines += ["", "### Answers that differ", "", *FUZZER, "", *_known(KEPT)]
    lines += ["", "Defects that are known, and to be fixed:", "", *_known(OPEN)]
    lines += ["", "## Other projects' test suites", "", *FOREIGN, ""]
    lines += foreign_results.lines()
    lines += ["", "## Topic configurations", "", "Served: " + ", ".join(_acting()) + "."]
    lines += ["", "Taken, kept and described, without effect:", "", "| name | why |", "|---|---|"]
    lines += [f"| `{inert.name}` | {inert.why} |" for inert in INERT]
    lines += ["", "Refused:", "", "| name | why |", "|---|---|"]
    lines += [f"| `{name}` | {why} |" for name, why in REFUSED.items()]
    lines += ["", *CONFIGS_AS_KAFKAS, "", "| what differs | here |", "|---|---|"]
    lines += [f"| {each.what} | {each.here} |" for each in config_candidates.DIFFERENT]
    return "\n".join(lines) + "\n"


def _error(key: int) -> str:
    """That a declined API is answered with; others are not listed, and end the connection."""
    return REASONS[key].code.name.upper() if key in REASONS else ""


def _known(rows: Sequence[Known]) -> list[str]:
    """A table of differences that the fuzzer knows."""
    lines = ["| API | field | here | Apache Kafka | reason |", "|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: row.apis):
        cells = (_alternatives(text) for text in (row.path, row.ours, row.theirs))
        twice = "named twice: " if row.is_named_twice else ""
        lines.append(f"| {row.apis} | {' | '.join(cells)} | {twice}{row.why} |")
    return lines


def _alternatives(pattern: str) -> str:
    return ", ".join(f"`{each}`" for each in pattern.split(" | ")) if pattern else "empty"


def _acting() -> list[str]:
    """The topic configurations that do something, in code marks."""
    inert = {each.name for each in INERT}
    return [f"`{key.name}`" for key in TOPIC_CONFIGS if key.name not in inert]


def kafkas_apis() -> dict[int, str]:
    """Key → name of every API that kio, which follows Kafka's schemas, knows."""
    return {
        key: load_request_schema(key, kafkas_versions(key)[-1]).__name__.removesuffix("Request")
        for key in KEYS
    }


def not_served() -> list[tuple[int, str, str]]:
    """(key, name, reason) of each API that no file answers."""
    found = []
    for key, name in kafkas_apis().items():
        if key not in SERVED or key in REASONS:
            (why,) = reasons(name).values()
            found.append((key, name, why))
    return found


def reasons(name: str) -> dict[str, str]:
    """The words of NOT_SERVED that stand for an API, with their reasons: one, or the page lies."""
    return {
        word: why
        for words, why in NOT_SERVED.items()
        for word in words.split(", ")
        if fnmatchcase(name, word)
    }


def versions_not_served() -> dict[str, str]:
    """`Name vN`, with the reason that its row in `wire/apis.py` gives."""
    return {
        f"{spec.name} v{version}": spec.why
        for spec, _, _ in SERVED.values()
        for version in kafkas_versions(spec.key)
        if not spec.min_version <= version <= spec.max_version
    }


def checklist() -> str:
    """docs/reference/checklist.md: every row with its tests, or the reason why it has none yet."""
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


def connector() -> str:
    """docs/reference/connector.md: the features of connector and pipelines, with their tests."""
    lines = [
        "# The connector's features and their tests",
        "",
        'What `format("josefine")` and pipelines can do, with the tests that hold it; and what is',
        "not there, with the reason. How it is used: [Spark](spark.md) and",
        "[pipelines](pipelines/index.md).",
        "Written by `./build.sh docs` from tests/connector_rows.txt.",
        "",
        "| # | feature | tests |",
        "|---|---|---|",
    ]
    for row in features():
        held = [f"`{test}`" for test in row.tests] + ([row.without] if row.without else [])
        lines.append(f"| {row.number} | {_cell(row.statement)} | {'<br>'.join(held)} |")
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


def pipeline_schema() -> str:
    """What `josefine pipeline schema` prints."""
    return json.dumps(json_schema(), indent=2) + "\n"


def metrics_page() -> str:
    """docs/reference/metrics.md: the tables of `host/metric_table.py` and of
    `report/metric_table.py` in `pipelines/` and `josefine_lake/`."""
    lines = [
        "# Metrics",
        "",
        "Written by `./build.sh docs` from `josefine_broker/host/metric_table.py`: what is not",
        "here is not exported. `GET /metrics` on `admin.address`; rules are in",
        "`conf/prometheus/alerts.yaml`, and `conf/grafana/josefine.json` is a dashboard to import.",
        "A counter begins at 0 with its process. What leads or coordinates tells of a partition or",
        "group, so sum over brokers; `josefine_partitions_offline` is the cluster's, so take the",
        "maximum. A topic's rate: `sum by (topic) (rate(josefine_topic_bytes_in_total[5m]))`; its",
        "size: `sum by (topic) (josefine_log_size_bytes)`.",
        "The last sections are no broker's: a run of a pipeline whose file says `metrics` exports",
        "the first (`pipelines/report/metric_table.py`), a table writer on its `--admin` address",
        "the second, an archive's writer the third (`josefine_lake/report/metric_table.py`).",
    ]
    for section, metrics in (
        SECTIONS | {"Runs of pipelines": ROWS, "Table writers": TABLES, "Archive writers": ARCHIVES}
    ).items():
        lines += [
            "",
            f"## {section}",
            "",
            "| name | kind | labels | meaning |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| `{m.exported}` | {m.kind.value} | {', '.join(m.labels)} | {m.meaning} |"
            for m in metrics
        ]
    return "\n".join(lines) + "\n"


PAGES = {
    "COMPATIBILITY.md": compatibility,
    "docs/reference/checklist.md": checklist,
    "docs/reference/cli.md": cli.page,
    "docs/reference/connector.md": connector,
    "docs/reference/errors.md": errors.page,
    "docs/reference/keywords.md": keywords.page,
    "docs/reference/licences.md": licences.page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/pipelines/table-features.md": table_features.page,
    "docs/reference/settings.md": settings.page,
    "docs/reference/state-machines.md": state_machines.page,
    "docs/reference/values.md": value_table.page,
    "conf/pipelines/pipeline.schema.json": pipeline_schema,
}


def main() -> None:
    """Write every page, and the files that pages show."""
    for name, render in PAGES.items():
        (ROOT / name).write_text(render())
    for page in (ROOT / "docs").rglob("*.md"):
        page.write_text(with_files(page.read_text()))


if __name__ == "__main__":
    main()
