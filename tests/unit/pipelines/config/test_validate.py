"""Bad files, as a table: what is written → the exact words that a user reads."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ConfigError
from pipelines.base.variables import Variables
from pipelines.config.validate import examine
from tests.unit.pipelines.config.bad_sinks import SINK, SINK_CASES

GOOD = """\
version: 1
name: orders
spark: { checkpoint: /ck }
sources:
  raw:
    type: josefine
    bootstrap: localhost:9092
    topics: [orders]
    decode:
      value: { format: json, schema: "id INT", on_error: fail }
transforms:
  clean: { inputs: [raw], sql: select value.* from raw }
sinks:
  lake: { type: delta, inputs: [clean], path: /lake, mode: append }
trigger: { available_now: true }
"""

TOP_WORDS = (
    "version, name, vars, params, spark, environments, sources, transforms, checks, sinks, "
    "dead_letter, trigger, restart, metrics, tests"
)

CASES = {
    **SINK_CASES,
    "unknown top word": (
        ("trigger:", "triger:"),
        "f.yaml:15:1: triger: unknown key `triger`; did you mean `trigger`? expected one of: "
        f"{TOP_WORDS}",
    ),
    "protobuf without its message": (
        ('format: json, schema: "id INT"', "format: protobuf, schema: none.desc"),
        "f.yaml:10:7: sources.raw.decode.value: `message` is missing; expected the full name of a "
        "message, such as shop.Order\n"
        "f.yaml:10:42: sources.raw.decode.value.schema: none.desc: No such file or directory",
    ),
    "metrics in a table of the catalog": (
        ("trigger:", "metrics: { table: lake._progress }\ntrigger:"),
        "f.yaml:15:19: metrics.table: expected a folder such as /data/progress or "
        "s3a://BUCKET/progress; `lake._progress` is in a catalog",
    ),
    "log in another language": (
        ("trigger:", "metrics: { log: xml }\ntrigger:"),
        "f.yaml:15:17: metrics.log: expected json; found `xml`",
    ),
    "metrics at no address": (
        ("trigger:", "metrics: { prometheus: 9404 }\ntrigger:"),
        "f.yaml:15:24: metrics.prometheus: must be host:port, got '9404'",
    ),
    "metrics at any port": (
        ("trigger:", "metrics: { prometheus: '127.0.0.1:0' }\ntrigger:"),
        "f.yaml:15:24: metrics.prometheus: port 0 cannot be scraped: expected a port from "
        "1 to 65535",
    ),
    "losses neither failed nor skipped": (
        ("topics: [orders]", "topics: [orders]\n    on_data_loss: skip"),
        "f.yaml:9:19: sources.raw.on_data_loss: expected fail or skip_and_record; found `skip`",
    ),
    "word in the wrong place": (
        ("trigger:", "checkpoint: /ck\ntrigger:"),
        "f.yaml:15:1: checkpoint: unknown key `checkpoint`; expected one of: "
        f"{TOP_WORDS} (`checkpoint` belongs below `spark`)",
    ),
    "key twice": (
        ("name: orders", "name: orders\nname: again"),
        "f.yaml:3:1: name: duplicate key, first used at line 2",
    ),
    "not YAML": (
        ("name: orders", "name: [orders"),
        "f.yaml:3:6: not YAML: expected ',' or ']', but got ':' (while parsing a flow sequence "
        "that starts at line 2)",
    ),
    "a variable in braces": (
        ("{ checkpoint: /ck }", "{ checkpoint: /ck/${X} }"),
        "f.yaml:3:27: not YAML: expected ',' or '}', but got '{' (while parsing a flow mapping "
        'that starts at line 3); inside { } write "${NAME}" with quotes',
    ),
    "a tab": (
        ("name: orders", "\tname: orders"),
        "f.yaml:2:1: not YAML: found character '\\t' that cannot start any token",
    ),
    "version": (("version: 1", "version: 2"), "f.yaml:1:10: version: expected 1; found `2`"),
    "version as text": (
        ("version: 1", "version: one"),
        "f.yaml:1:10: version: expected 1; found `one`",
    ),
    "no version": (
        ("version: 1\n", ""),
        "f.yaml:1:1: `version` is missing; expected 1",
    ),
    "name": (
        ("name: orders", "name: Orders 2"),
        "f.yaml:2:7: name: `Orders 2` is not a name: expected a-z, 0-9 and _",
    ),
    "no checkpoint": (
        ("{ checkpoint: /ck }", "{}"),
        "f.yaml:3:1: spark: `checkpoint` is missing; expected a folder; each sink has its "
        "checkpoint in a subfolder",
    ),
    "source type with a slip": (
        ("type: josefine", "type: josephine"),
        "f.yaml:6:11: sources.raw.type: expected josefine, kafka, file, rate, memory or "
        "delta; found `josephine`; did you mean `josefine`?",
    ),
    "bootstrap": (
        ("localhost:9092", "localhost"),
        "f.yaml:7:16: sources.raw.bootstrap: expected host:port[,host:port]; found `localhost`",
    ),
    "type in a schema": (
        ('"id INT"', '"id BIGIN"'),
        "f.yaml:10:38: sources.raw.decode.value.schema: no type `BIGIN`; did you mean `BIGINT`?",
    ),
    "columns that differ by large letters": (
        ('"id INT"', '"id INT, k STRING, `ID` BIGINT"'),
        "f.yaml:10:38: sources.raw.decode.value.schema: `id` and `ID` are one column for Spark, "
        "which ignores letter case",
    ),
    "a column twice": (
        ('"id INT"', '"a INT, a INT"'),
        "f.yaml:10:38: sources.raw.decode.value.schema: column `a` is listed twice",
    ),
    "more rows than there are numbers": (
        ("topics: [orders]", "topics: [orders]\n    limit: { rows: 100000000000000000000000 }"),
        "f.yaml:9:20: sources.raw.limit.rows: expected the number of records of a batch, "
        "at most; found `100000000000000000000000`, which is more than 9223372036854775807",
    ),
    "more bytes than there are numbers": (
        ("topics: [orders]", "topics: [orders]\n    limit: { bytes: 999999999999999g }"),
        "f.yaml:9:21: sources.raw.limit.bytes: expected the size of a batch, at most, such as "
        "64MiB; found `999999999999999g`",
    ),
    "a longer time than there are numbers": (
        ("topics: [orders]", "topics: [orders]\n    start: { ago: 9999999999999999h }"),
        "f.yaml:9:19: sources.raw.start.ago: expected a duration such as 10m; found "
        "`9999999999999999h`, which is more than 9223372036854775807",
    ),
    "topics as text": (
        ("topics: [orders]", "topics: orders"),
        "f.yaml:8:13: sources.raw.topics: expected a list of topic names; found `orders`",
    ),
    "topic twice": (
        ("topics: [orders]", "topics: [orders, orders]"),
        "f.yaml:8:22: sources.raw.topics[1]: `orders` is listed twice",
    ),
    "topics and pattern": (
        ("topics: [orders]", "topics: [orders]\n    pattern: o.*"),
        "f.yaml:5:3: sources.raw: expected exactly one of `topics`, `pattern` and `assign`",
    ),
    "limit not a number": (
        ("topics: [orders]", "topics: [orders]\n    limit: { rows: many }"),
        "f.yaml:9:20: sources.raw.limit.rows: expected the number of records of a batch, at most; "
        "found `many`; it must be a whole number above 0",
    ),
    "a whole number in quotes": (
        ("topics: [orders]", 'topics: [orders]\n    limit: { rows: "5" }'),
        "f.yaml:9:20: sources.raw.limit.rows: expected the number of records of a batch, at most; "
        "found `5`, which is a text because of its quotes: leave them out",
    ),
    "a flag in quotes": (
        ("topics: [orders]", "topics: [orders]\n    headers: 'true'"),
        "f.yaml:9:14: sources.raw.headers: expected true or false; found `true`, which is a text "
        "because of its quotes: leave them out",
    ),
    "a word for a number from a variable": (
        ("topics: [orders]", 'topics: [orders]\n    limit: { rows: "${N:-many}" }'),
        "f.yaml:9:20: sources.raw.limit.rows: expected the number of records of a batch, at most; "
        "found `many`; it must be a whole number above 0",
    ),
    "nothing for a number from a variable": (
        ("topics: [orders]", 'topics: [orders]\n    limit: { rows: "${N:-}" }'),
        "f.yaml:9:20: sources.raw.limit.rows: expected the number of records of a batch, at most; "
        "found nothing; it must be a whole number above 0",
    ),
    "limit of bytes": (
        ("topics: [orders]", "topics: [orders]\n    limit: { bytes: much }"),
        "f.yaml:9:21: sources.raw.limit.bytes: expected the size of a batch, at most, such as "
        "64MiB; found `much`",
    ),
    "a batch that waits for more than it may have": (
        ("topics: [orders]", "topics: [orders]\n    limit: { rows: 5, min_rows: 6 }"),
        "f.yaml:9:33: sources.raw.limit.min_rows: 6 is more than `rows`, 5: no batch can "
        "satisfy both",
    ),
    "a delay of nothing": (
        ("topics: [orders]", "topics: [orders]\n    limit: { max_delay: 5m }"),
        "f.yaml:9:25: sources.raw.limit.max_delay: `min_rows` is missing, which it ends the "
        "waiting for",
    ),
    "two starts": (
        ("topics: [orders]", "topics: [orders]\n    start: { ago: 5m, last: 1 }"),
        "f.yaml:9:5: sources.raw.start: expected exactly one of timestamp, ago, last, group, "
        "offsets",
    ),
    "a start that is no time": (
        ("topics: [orders]", "topics: [orders]\n    start: { timestamp: noon }"),
        "f.yaml:9:25: sources.raw.start.timestamp: expected a time such as 2026-01-01T00:00:00Z; "
        "found `noon`",
    ),
    "a start in a table of nobody": (
        ("topics: [orders]", "topics: [orders]\n    start: tabel"),
        "f.yaml:9:12: sources.raw.start: expected earliest, latest, table, or a mapping with one "
        "of timestamp, ago, last, group, offsets; found `tabel`; did you mean `table`?",
    ),
    "a start at offsets of other topics": (
        ("topics: [orders]", "topics: [orders]\n    start: { offsets: { ordres: { 0: 5 } } }"),
        "f.yaml:9:14: sources.raw.start.offsets: expected the offsets of each topic; missing: "
        "orders\n"
        "f.yaml:9:25: sources.raw.start.offsets.ordres: this source does not read topic `ordres`; "
        "did you mean `orders`?",
    ),
    "a start at offsets of nothing": (
        (
            "topics: [orders]",
            "topics: [orders]\n    start: { offsets: { orders: { a: 1, 1: -1 } } }",
        ),
        "f.yaml:9:35: sources.raw.start.offsets.orders.a: expected a partition's number, from 0 "
        "on; found `a`\n"
        "f.yaml:9:44: sources.raw.start.offsets.orders.1: expected an offset, a whole number from "
        "0 on; found `-1`",
    ),
    "a start at one offset for all": (
        ("topics: [orders]", "topics: [orders]\n    start: { offsets: { orders: 5 } }"),
        "f.yaml:9:33: sources.raw.start.offsets.orders: expected a mapping of partition: offset; "
        "found `5`",
    ),
    "a start at offsets out of the pattern": (
        (
            "topics: [orders]",
            "pattern: o.*\n    start: { offsets: { other: { 0: 1 }, new: { 0: 1 } } }",
        ),
        "f.yaml:9:42: sources.raw.start.offsets.new: topic `new` is not of the pattern `o.*`",
    ),
    "a stop before everything": (
        ("topics: [orders]", "topics: [orders]\n    stop: earliest"),
        "f.yaml:9:11: sources.raw.stop: expected latest, null, or a mapping with one of timestamp, "
        "ago, group, offsets; found `earliest`",
    ),
    "two stops": (
        ("topics: [orders]", "topics: [orders]\n    stop: { ago: 5m, group: g }"),
        "f.yaml:9:5: sources.raw.stop: expected exactly one of timestamp, ago, group, offsets",
    ),
    "a stop so many records before the end": (
        ("topics: [orders]", "topics: [orders]\n    stop: { last: 5 }"),
        "f.yaml:9:13: sources.raw.stop.last: unknown key `last`; expected one of: timestamp, ago, "
        "group, offsets\n"
        "f.yaml:9:5: sources.raw.stop: expected exactly one of timestamp, ago, group, offsets",
    ),
    "topics and assign": (
        ("topics: [orders]", "topics: [orders]\n    assign: { orders: [0] }"),
        "f.yaml:5:3: sources.raw: expected exactly one of `topics`, `pattern` and `assign`",
    ),
    "partitions that are none": (
        ("topics: [orders]", "assign: { orders: [0, -1, 0, x], more: 3 }"),
        "f.yaml:8:27: sources.raw.assign.orders[1]: expected a partition's number, from 0 on; "
        "found `-1`\n"
        "f.yaml:8:31: sources.raw.assign.orders[2]: `0` is listed twice\n"
        "f.yaml:8:34: sources.raw.assign.orders[3]: expected a partition's number, from 0 on; "
        "found `x`\n"
        "f.yaml:8:44: sources.raw.assign.more: expected a list of partitions such as [0, 2]; found "
        "`3`",
    ),
    "no partitions": (
        ("topics: [orders]", "assign: {}"),
        "f.yaml:8:5: sources.raw.assign: expected a mapping of topic: a list of its partitions "
        "that are read, such as [0, 2]",
    ),
    "a start at offsets of other partitions": (
        (
            "topics: [orders]",
            "assign: { orders: [0, 2] }\n    start: { offsets: { orders: { 0: 5, 1: 5 } } }",
        ),
        "f.yaml:9:41: sources.raw.start.offsets.orders.1: this source does not read orders-1: it "
        "is not in `assign`\n"
        "f.yaml:9:14: sources.raw.start.offsets: expected the offsets of each topic; missing: "
        "orders-2",
    ),
    "files of partitions": (
        (
            "    type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]",
            "    type: file\n    path: /in\n    assign: { orders: [0] }",
        ),
        "f.yaml:8:5: sources.raw.assign: `assign` is for type josefine or kafka; this source's "
        "type is file",
    ),
    "files from a table on": (
        (
            "    type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]",
            "    type: file\n    path: /in\n    start: table",
        ),
        "f.yaml:8:12: sources.raw.start: no `table` with type file; expected one of: earliest, "
        "latest",
    ),
    "a group of two sources": (
        (
            "topics: [orders]",
            "topics: [orders]\n    commit_group: g\n  other:\n    type: josefine\n"
            "    bootstrap: localhost:9092\n    topics: [more]\n    commit_group: g",
        ),
        "f.yaml:14:19: sources.other.commit_group: `g` is the group of source `raw`: a group each",
    ),
    "a group of files": (
        (
            "    type: josefine\n    bootstrap: localhost:9092\n    topics: [orders]",
            "    type: file\n    path: /in\n    commit_group: g",
        ),
        "f.yaml:8:19: sources.raw.commit_group: `commit_group` is for type josefine or kafka; "
        "this source's type is file",
    ),
    "headers": (
        ("topics: [orders]", "topics: [orders]\n    headers: 1"),
        "f.yaml:9:14: sources.raw.headers: expected true or false; found `1`",
    ),
    "schema file": (
        ('schema: "id INT"', "schema: none.ddl"),
        "f.yaml:10:38: sources.raw.decode.value.schema: none.ddl: No such file or directory",
    ),
    "dead letters without a table": (
        ("on_error: fail", "on_error: dead_letter"),
        "f.yaml:5:3: sources.raw: `dead_letter`, where this source sends bad records, is missing "
        "at the top; expected a mapping with type, path or table",
    ),
    "on_error": (
        ("on_error: fail", "on_error: drop"),
        "f.yaml:10:58: sources.raw.decode.value.on_error: expected dead_letter, fail or null; "
        "found `drop`",
    ),
    "a circle": (
        ("inputs: [raw]", "inputs: [raw, clean]"),
        "f.yaml:12:20: transforms.clean.inputs: `clean` is its own input, directly or through "
        "others",
    ),
    "transform in Python": (
        ("sql: select value.* from raw", "sql: select 1, python: x.py"),
        "f.yaml:12:3: transforms.clean: expected exactly one of `sql` and `python`\n"
        "f.yaml:12:50: transforms.clean.python: expected FILE.py:FUNCTION, the file "
        "relative to this one; found `x.py`",
    ),
    "backoff that shrinks": (
        ("trigger:", "restart: { attempts: 2, backoff: 9s..1s }\ntrigger:"),
        "f.yaml:15:34: restart.backoff: expected a pause such as 5s, or 1s..60s: each pause is "
        "twice the previous one; found `9s..1s`",
    ),
    "restart without attempts": (
        ("trigger:", "restart: {}\ntrigger:"),
        "f.yaml:15:1: restart: `attempts` is missing; expected how often a failed run is "
        "started again without a batch in between",
    ),
    "threshold without window": (
        ("trigger:", "dead_letter: { type: delta, path: /d, threshold: { ratio: 2 } }\ntrigger:"),
        "f.yaml:15:59: dead_letter.threshold.ratio: expected the part of the records that may be "
        "dead letters, from 0 to 1; found `2`\n"
        "f.yaml:15:39: dead_letter.threshold: `window` is missing; expected of the last so many "
        "batches, such as 10 batches",
    ),
    "once that is no": (
        ("{ available_now: true }", "{ once: false }"),
        "f.yaml:15:18: trigger.once: expected true; leave the key out and write `every`",
    ),
    "no sinks": (
        (f"sinks:\n{SINK}", "sinks: {}\n"),
        "f.yaml:13:1: sinks: expected at least one",
    ),
    "a list for a table": (
        ("trigger: { available_now: true }", "trigger: [now]"),
        "f.yaml:15:10: trigger: expected a mapping with one of available_now: true, once: "
        "true, every: 5s; "
        "found a list",
    ),
    "both triggers": (
        ("available_now: true", "available_now: true, every: 5s"),
        "f.yaml:15:1: trigger: expected a mapping with one of available_now: true, once: "
        "true, every: 5s",
    ),
    "never": (
        ("available_now: true", "available_now: false"),
        "f.yaml:15:27: trigger.available_now: expected true; leave the key out and write `every`",
    ),
    "duration": (
        ("available_now: true", "every: soon"),
        "f.yaml:15:19: trigger.every: expected a duration such as 500ms, 5s, 2m; found `soon`",
    ),
    "variable without a value": (
        ("localhost:9092", "${HOST}:9092"),
        "f.yaml:7:16: sources.raw.bootstrap: ${HOST}: neither in `vars` nor in the environment, "
        "and without a default (${HOST:-…})",
    ),
    "variable further right": (
        ("localhost:9092", '"localhost:${PORT}"'),
        "f.yaml:7:27: sources.raw.bootstrap: ${PORT}: neither in `vars` nor in the environment, "
        "and without a default (${PORT:-…})",
    ),
    "secret": (
        ("localhost:9092", "${secret:env:HOST}"),
        "f.yaml:7:16: sources.raw.bootstrap: ${secret:env:HOST}: `HOST` is not in the environment",
    ),
    "secret of another form": (
        ("localhost:9092", "${secret:vault:HOST}"),
        "f.yaml:7:16: sources.raw.bootstrap: ${secret:vault:HOST}: expected ${secret:env:NAME}, "
        "${secret:file:/path} or ${secret:file:/path#key}",
    ),
    "secret in a file that is not there": (
        ("localhost:9092", '"${secret:file:/none/such#key}"'),
        "f.yaml:7:17: sources.raw.bootstrap: ${secret:file:/none/such#key}: No such file or "
        "directory",
    ),
    "a checkpoint in a table": (
        ("/ck }", "/lake/ck }"),
        "f.yaml:3:22: spark.checkpoint: the checkpoint lies in the table of sink `lake`, where "
        "VACUUM would delete it; expected a folder next to the tables",
    ),
    "a hidden checkpoint in a table": (
        ("/ck }", "/lake/_ck }"),
        "f.yaml:3:22: spark.checkpoint: the checkpoint lies in the table of sink `lake`, and goes "
        "when somebody deletes the table; expected a folder next to the tables",
    ),
    "dead letters nowhere": (
        ("trigger:", "dead_letter: { type: delta }\ntrigger:"),
        "f.yaml:15:1: dead_letter: expected exactly one of `path` and `table`",
    ),
    "dead letters in two places": (
        ("trigger:", "dead_letter: { type: delta, path: /d, table: db.d }\ntrigger:"),
        "f.yaml:15:1: dead_letter: expected exactly one of `path` and `table`",
    ),
    "an environment that is no table": (
        ("trigger:", "environments: { prod: 5 }\ntrigger:"),
        "f.yaml:15:23: environments.prod: expected a mapping with what differs there; found `5`",
    ),
    "an environment twice": (
        ("trigger:", "environments: { dev: {}, dev: {} }\ntrigger:"),
        "f.yaml:15:26: environments.dev: duplicate key, first used at line 15",
    ),
    "an environment's name": (
        ("trigger:", "environments: { Prod: {} }\ntrigger:"),
        "f.yaml:15:17: environments.Prod: `Prod` is not a name: expected a-z, 0-9 and _",
    ),
    "a tag": (
        ("name: orders", "name: !!python/name:os.system orders"),
        "f.yaml:2:7: name: the tag !!python/name:os.system is not supported: leave it out",
    ),
    "a port beyond all": (
        ("localhost:9092", "localhost:99092"),
        "f.yaml:7:16: sources.raw.bootstrap: expected host:port[,host:port]; found "
        "`localhost:99092`",
    ),
    "no topic's name": (
        ("topics: [orders]", 'topics: ["or ders"]'),
        "f.yaml:8:13: sources.raw.topics: `or ders` is not a valid topic name: expected 1 to 249 "
        "of a-z A-Z 0-9 . _ -",
    ),
    "no pattern": (
        ("topics: [orders]", 'pattern: "orders("'),
        "f.yaml:8:14: sources.raw.pattern: `orders(` is not a valid regular expression: missing ), "
        "unterminated subpattern at position 6",
    ),
    "a misspelt input alone": (
        ("inputs: [raw]", "inputs: [row]"),
        "f.yaml:12:21: transforms.clean.inputs[0]: no source or transform `row`; "
        "did you mean `raw`?",
    ),
    "not a variable": (
        ("localhost:9092", '"${1:2}"'),
        "f.yaml:7:17: sources.raw.bootstrap: ${1:2}: expected ${NAME} or ${NAME:-default}",
    ),
}


def complaint(text: str, env: dict[str, str] | None = None) -> str:
    """Every problem of a file, as the commands print them."""
    with pytest.raises(ConfigError) as refused:
        raise ConfigError(examine(text, "f.yaml", Variables(env=env or {})).problems)
    assert refused.value.exit_code == 78
    return str(refused.value)


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_told_with_its_place_and_what_was_expected(name):
    (old, new), expected = CASES[name]
    assert old in GOOD

    assert sorted(complaint(GOOD.replace(old, new, 1)).splitlines()) == sorted(
        expected.splitlines()
    )


def test_every_problem_is_told_at_once_in_file_order():
    """References without a value and keys that are there twice hide no other problem."""
    text = GOOD.replace("version: 1", "version: 3").replace("mode: append", "mode: scd")
    text = text.replace("localhost:9092", "${HOST}").replace("name: orders", "name: a\nname: b")

    lines = complaint(text).splitlines()

    assert [line.split(": ")[1] for line in lines] == [
        "version", "name", "sources.raw.bootstrap", "sinks.lake.mode",
    ]  # fmt: skip


def test_nothing_but_the_reference_is_told_of_a_value_that_is_not_known():
    text = GOOD.replace("[orders]", "[orders, '${T}']\n    limit: { rows: '${N}' }")
    text = text.replace("available_now: true", "every: '${EVERY}'").replace("append", "'${MODE}'")
    text = text.replace("{ checkpoint: /ck }", "{ checkpoint: /ck, conf: { a: '${C}' } }")

    lines = complaint(text).splitlines()

    assert [line.split(": ")[1] for line in lines] == [
        "spark.conf.a", "sources.raw.topics[1]", "sources.raw.limit.rows", "sinks.lake.mode",
        "trigger.every",
    ]  # fmt: skip
    assert all("neither in `vars` nor in the environment" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yaml:1:1: empty: expected keys such as version, name, sources, sinks, trigger"),
        (
            "- a\n",
            "f.yaml:1:1: expected keys such as version, name, sources, sinks, trigger at the top",
        ),
        pytest.param("a: " + "[" * 5000 + "]" * 5000, "f.yaml:1:1: nested too deeply", id="deep"),
        ("a: &x [*x]", "f.yaml:1:4: a[0]"),
        ("a: b\n---\nc: d\n", "f.yaml:2:1: not YAML: but found another document"),
    ],
)
def test_a_file_that_is_no_table_is_refused(text, expected):
    assert complaint(text).startswith(expected)


def test_aliases_of_aliases_do_not_blow_up():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 9):
        again = ", ".join([f"*a{n - 1}"] * 10)
        lines.append(f"a{n}: &a{n} [{again}]")

    assert "too many values" in complaint("\n".join(lines))
