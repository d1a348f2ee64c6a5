"""Errors in the sinks of a pipeline file, as a table: what is written → the exact words."""

MERGE = """\
  lake:
    type: delta
    inputs: [clean]
    path: /lake
    mode: merge
    keys: [id]
    aggregate: { n: count(*), top: max(id) }
"""
UPSERT = """\
  lake:
    type: delta
    inputs: [clean]
    path: /lake
    mode: upsert
    keys: [id]
    order_by: [at, _offset]
    delete_when: op = 'd'
    on_delete: mark
"""
SINK = "  lake: { type: delta, inputs: [clean], path: /lake, mode: append }\n"
VALUE = '{ format: json, schema: "id INT", on_error: fail }'

SINK_WORDS = (
    "type, inputs, path, max_tables, table, catalog, topic, bootstrap, security, key, "
    "tombstone_when, "
    "delivery, mode, keys, aggregate, order_by, delete_when, on_delete, unavailable, placeholder, "
    "on_error, deduplicate, schema_evolution, constraints, cluster_by, partition_by, features, "
    "properties, optimize, fresh, file, vacuum"
)

SINK_CASES = {
    "metrics in a sink's table": (
        (
            "/lake, mode: append }\ntrigger:",
            "/m/lake, mode: append }\nmetrics: { table: /m/ }\ntrigger:",
        ),
        "f.yaml:14:47: sinks.lake.path: this lies in the table of the metrics, where VACUUM would "
        "delete it",
    ),
    "columns that come to a merged table": (
        (
            "mode: append",
            "mode: merge, keys: [id], aggregate: {n: count(*)}, schema_evolution: add",
        ),
        "f.yaml:14:123: sinks.lake.schema_evolution: an aggregate that comes later would miss what "
        "was folded before: expected none or widen with mode merge",
    ),
    "unknown word below": (
        ("mode: append", "mod: append, mode: append"),
        "f.yaml:14:54: sinks.lake.mod: unknown key `mod`; did you mean `mode`? expected one of: "
        + SINK_WORDS,
    ),
    "key twice in a flow": (
        ("mode: append", "mode: append, mode: append"),
        "f.yaml:14:68: sinks.lake.mode: duplicate key, first used at line 14",
    ),
    "unknown input": (
        ("inputs: [clean]", "inputs: [claen]"),
        "f.yaml:14:33: sinks.lake.inputs[0]: no source or transform `claen`; did you mean `clean`?",
    ),
    "two inputs": (
        ("inputs: [clean]", "inputs: [clean, raw]"),
        "f.yaml:14:32: sinks.lake.inputs: a sink has one input: join several with UNION in a "
        "transform",
    ),
    "every in other words": (
        ("mode: append }", "mode: append, optimize: { every: 5s } }"),
        "f.yaml:14:87: sinks.lake.optimize.every: expected a number of batches such as 100 batches;"
        " found `5s`",
    ),
    "optimize without every": (
        ("mode: append }", "mode: append, optimize: { within: 5s } }"),
        "f.yaml:14:68: sinks.lake.optimize: `every` is missing; expected a number of batches such "
        "as 100 batches",
    ),
    "vacuum that is too early": (
        ("mode: append }", "mode: append, vacuum: { every: 9 batches, keep: 167h } }"),
        "f.yaml:14:102: sinks.lake.vacuum.keep: expected 168h at least: a reader may still use "
        "those files, and Delta refuses it",
    ),
    "five columns of clustering": (
        ("mode: append }", "mode: append, cluster_by: [a, b, c, d, e] }"),
        "f.yaml:14:80: sinks.lake.cluster_by: Delta lays rows together by 4 columns at most; here "
        "are 5",
    ),
    "no bucket": (
        ("path: /lake", "path: 's3a://'"),
        "f.yaml:14:47: sinks.lake.path: `s3a://` names no bucket: expected s3a://BUCKET/FOLDER",
    ),
    "user in a path": (
        ("path: /lake", "path: 's3a://KEY:se/cret@lake/t'"),
        "f.yaml:14:47: sinks.lake.path: `s3a://***@lake/t` has a user, whose keys belong into "
        "settings: expected s3a://BUCKET/FOLDER",
    ),
    "path and table": (
        ("path: /lake", "path: /lake, table: lake"),
        "f.yaml:14:3: sinks.lake: expected exactly one of `path` and `table`",
    ),
    "mode": (
        ("mode: append", "mode: scd"),
        "f.yaml:14:60: sinks.lake.mode: expected append, merge, upsert or scd2; "
        "of a topic append or update; found `scd`; did "
        "you mean `scd2`?",
    ),
    "keys of an append": (
        ("mode: append", "mode: append, keys: [id]"),
        "f.yaml:14:74: sinks.lake.keys: `keys` is for mode merge or upsert or scd2; this sink's "
        "mode is append",
    ),
    "upsert without an order": (
        (SINK, UPSERT.replace("    order_by: [at, _offset]\n", "")),
        "f.yaml:14:3: sinks.lake: `order_by` is missing; expected the column, or a list of "
        "columns, that order the rows of a key, latest last",
    ),
    "upsert ordered by its key": (
        (SINK, UPSERT.replace("[at, _offset]", "id")),
        "f.yaml:20:15: sinks.lake.order_by: `id` is a key: it does not order the rows of one",
    ),
    "marks of nothing": (
        (SINK, UPSERT.replace("    delete_when: op = 'd'\n", "")),
        "f.yaml:21:16: sinks.lake.on_delete: `delete_when` is missing, which selects the "
        "deleting rows",
    ),
    "aggregate of an upsert": (
        (SINK, UPSERT + "    aggregate: { n: count(*) }\n"),
        "f.yaml:23:5: sinks.lake.aggregate: `aggregate` is for mode merge; this sink's mode is "
        "upsert",
    ),
    "average": (
        (SINK, MERGE.replace("max(id)", "avg(id)")),
        "f.yaml:20:36: sinks.lake.aggregate.top: expected count(*), count(x), sum(x), min(x) or "
        "max(x); found `avg(id)`: averages cannot be added up, keep a sum and a count",
    ),
    "sum of everything": (
        (SINK, MERGE.replace("max(id)", "sum(*)")),
        "f.yaml:20:36: sinks.lake.aggregate.top: expected count(*), count(x), sum(x), min(x) or "
        "max(x); found `sum(*)`",
    ),
    "aggregate named like a key": (
        (SINK, MERGE.replace("top:", "id:")),
        "f.yaml:20:35: sinks.lake.aggregate.id: `id` is a key already",
    ),
    "merge without keys": (
        (SINK, MERGE.replace("    keys: [id]\n", "")),
        "f.yaml:14:3: sinks.lake: `keys` is missing; expected a list of columns",
    ),
    "two sinks, one folder": (
        (SINK, SINK + SINK.replace("lake:", "pond:")),
        "f.yaml:15:47: sinks.pond.path: the rows of sink `lake` are written there already",
    ),
    "no mode": (
        (", mode: append", ""),
        "f.yaml:14:3: sinks.lake: `mode` is missing; expected append, merge, upsert or scd2; "
        "of a topic append or update",
    ),
    "a table where a sink's checkpoint is": (
        ("path: /lake", "path: /ck/lake"),
        "f.yaml:14:47: sinks.lake.path: the checkpoint of sink `lake` is in /ck/lake: expected "
        "another folder",
    ),
    "a sink's table is that of the dead letters": (
        (
            SINK + "trigger:",
            SINK.replace("path: /lake", "table: db.t")
            + "dead_letter: { type: delta, table: DB.t }\ntrigger:",
        ),
        "f.yaml:14:48: sinks.lake.table: the dead letters are written there already",
    ),
    "two sinks, one folder in two spellings": (
        (SINK, SINK + SINK.replace("lake:", "pond:").replace("/lake", "file:///x/../lake/")),
        "f.yaml:15:47: sinks.pond.path: the rows of sink `lake` are written there already",
    ),
    "two sinks, one name in the catalog": (
        (
            SINK,
            SINK.replace("path: /lake", "table: db.t")
            + SINK.replace("lake:", "pond:").replace("path: /lake", "table: DB.t"),
        ),
        "f.yaml:15:48: sinks.pond.table: the rows of sink `lake` are written there already",
    ),
    "a table in a table": (
        (SINK, SINK + SINK.replace("lake:", "pond:").replace("/lake", "/lake/pond")),
        "f.yaml:15:47: sinks.pond.path: this lies in the table of sink `lake`, where VACUUM would "
        "delete it",
    ),
    "a table around a table": (
        (
            SINK,
            SINK.replace("/lake", "/a/b") + SINK.replace("lake:", "pond:").replace("/lake", "/a"),
        ),
        "f.yaml:15:47: sinks.pond.path: the table of sink `lake` lies in it, where VACUUM would "
        "delete it",
    ),
    "an aggregate with a slip": (
        (SINK, MERGE.replace("max(id)", "mx(id)")),
        "f.yaml:20:36: sinks.lake.aggregate.top: expected count(*), count(x), sum(x), min(x) or "
        "max(x); found `mx(id)`; did you mean `max(id)`?",
    ),
    "an aggregate of a name without backticks": (
        (SINK, MERGE.replace("max(id)", "max(total amount)")),
        "f.yaml:20:36: sinks.lake.aggregate.top: expected count(*), count(x), sum(x), min(x) or "
        "max(x); found `max(total amount)`; did you mean `max(`total amount`)`, a name in "
        "backticks?",
    ),
    "a variable without its end": (
        ("path: /lake", 'path: "${LAKE:-/lake"'),
        "f.yaml:14:48: sinks.lake.path: ${LAKE:-/lake: no } ends it; $${ is a literal ${",
    ),
    "a variable in a default": (
        ("path: /lake", 'path: "${LAKE:-${HOME}}/lake"'),
        "f.yaml:14:48: sinks.lake.path: ${LAKE:-${HOME}: a default is plain text: name what it "
        "refers to in `vars`",
    ),
    "a home in a path": (
        ("path: /lake", "path: ~/lake"),
        "f.yaml:14:47: sinks.lake.path: `~` is not expanded: expected a path, such as ${HOME}/lake",
    ),
}
