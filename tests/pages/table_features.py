"""docs/reference/pipelines/table-features.md: features of Delta tables, from the table of them."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.model.table_features import FEATURES, LOG_DAYS_MIN, PLAIN, Feature
from tests.pages.markdown import cell, table

HEAD = """\
# Features of a Delta table

What a Delta sink asks of its table besides its columns. Written by `./build.sh docs` from
`pipelines/model/table_features.py`, by which a file is read, linted and run.

```yaml
sinks:
  lake:
    type: delta
    inputs: [clean]
    path: /data/lake
    mode: upsert
    keys: [id]
    order_by: _offset
    partition_by: [country]
    features: { change_data_feed: true, deletion_vectors: true }
    properties: { delta.deletedFileRetentionDuration: interval 14 days, team: shop }
    optimize: { every: 100 batches, zorder_by: [id], file_size: 128MiB }
```

A new table is created with all of it, in its first commit. Of a table that exists:

- A feature or property of which no other program has to know is set at the next start, also back to
  `false`; one that the file does not name stays as it is.
- A feature that readers would have to know, or that rewrites the table, is refused before the first
  batch, with the `ALTER TABLE` for a person who knows the readers.
- `partition_by` has to be the table's own: partitions of a table never change.

The dry write of a first commit has the same features, so what Delta refuses of them together (such
as `uniform` with `deletion_vectors`) is one sentence, and no table is there afterwards.
"""

REST = """\
## Where rows lie

| keyword | what it does | refused |
|---|---|---|
| `partition_by` | a folder for each value, for columns of few values; an empty text becomes null, \
as Delta has it | with `cluster_by`; all of the columns |
| `cluster_by` | liquid clustering by up to four columns, from the next OPTIMIZE on | with \
`partition_by`; `auto`, which is Databricks' alone |
| `optimize.zorder_by` | each OPTIMIZE lays rows by these columns, and writes files again for it | \
with `cluster_by`; columns of `partition_by` |
| `optimize.file_size` | up to which size OPTIMIZE joins files (Delta's default: 1 GiB) | \
`delta.targetFileSize`, which is Databricks' alone |

## Properties

`properties` takes names of your own, and these of Delta:

"""

END = f"""\
Refused are properties that a keyword has (`features`, `constraints`), `delta.feature.*` and the
protocol's versions, which follow from `features`; `delta.setTransactionRetentionDuration`, by which
Delta would forget the batches that a table has; `delta.logRetentionDuration` below
{LOG_DAYS_MIN} days, because a sink finds its end offsets in the log; `delta.appendOnly` where the
mode changes rows; and names that Delta for Spark has not.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    """The rules, the table of features, the layout, the properties."""
    yield HEAD
    head = ("`features`", "what it does", "protocol", "Delta", "delta-rs 1.6", "existing table")
    yield from table(head, map(row, FEATURES))
    yield ""
    yield REST.rstrip("\n")
    yield ""
    yield from table(("property", "what it sets"), ((f"`{k}`", v) for k, v in PLAIN.items()))
    yield ""
    yield END.rstrip("\n")


def row(of: Feature) -> tuple[str, ...]:
    """A feature's row."""
    values = f": {' or '.join(f'`{each}`' for each in of.choices)}" if of.choices else ""
    jar = f"; needs the jar `{of.jar}`" if of.jar else ""
    there = f"refused: {of.why_new}" if of.why_new else "set"
    what = f"{of.what} (`{of.key}`){jar}"
    cells = (what, of.needs or "none", f"{of.since}", of.readers, there)
    return (f"`{of.keyword}`{values}", *map(cell, cells))
