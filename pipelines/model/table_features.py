"""Features and properties of a sink's Delta table: what each needs, and what a table gets. Pure.

`FEATURES` is the one list of them: the keywords, their refusals, the run and a table in the docs
are made from it. A new table gets what the file has. An existing one gets what no other program has
to know; for the rest a refusal names the ALTER TABLE, which a person runs who knows the readers.

Each row was tried with Spark 4.2 and Delta 4.4, `readers` with delta-rs 1.6, and is tried again by
`tests/spark/pipelines/test_table_features.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.base.errors import Place

Settings = tuple[tuple[str, str], ...]
"""(property, value)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A keyword of a sink's `features`. `on`, `off`: the values of the property for true and false;
    `choices`: instead of a flag. `with_it`: properties that Delta wants set, too. `needs`: what
    the table's protocol then asks of other programs. `why_new`: why an existing table does not get
    it; "": it does. `jar`: without it, and its `jar_class`, the property does nothing."""

    keyword: str
    key: str
    what: str
    needs: str
    since: str
    readers: str
    on: str = "true"
    off: str = "false"
    choices: tuple[str, ...] = ()
    with_it: Settings = ()
    why_new: str = ""
    jar: str = ""
    jar_class: str = ""


_READERS = "every program that reads the table would have to know it"

FEATURES: tuple[Feature, ...] = (
    Feature(
        keyword="change_data_feed",
        key="delta.enableChangeDataFeed",
        what="each change of a row is kept as a row, for sources with `changes: true`",
        needs="writers: changeDataFeed",
        since="2.0",
        readers="reads it",
    ),
    Feature(
        keyword="deletion_vectors",
        key="delta.enableDeletionVectors",
        what="a changed or deleted row is marked, and its file is not written again",
        needs="readers and writers: deletionVectors",
        since="2.4",
        readers="reads it",
        why_new=_READERS,
    ),
    Feature(
        keyword="row_tracking",
        key="delta.enableRowTracking",
        what="each row has an id and the version that changed it last",
        needs="writers: rowTracking, domainMetadata",
        since="3.2",
        readers="reads it",
        why_new="Delta would first give all of its rows ids, in commits over all of its files",
    ),
    Feature(
        keyword="column_mapping",
        key="delta.columnMapping.mode",
        what="columns have names of their own in the files, so that they are renamed and dropped "
        "without writing them again",
        needs="readers and writers: columnMapping",
        since="1.2",
        readers="reads it",
        choices=("name", "id"),
        off="none",
        why_new=_READERS,
    ),
    Feature(
        keyword="type_widening",
        key="delta.enableTypeWidening",
        what="types may grow; `schema_evolution: widen` asks for it by itself",
        needs="readers and writers: typeWidening",
        since="4.0",
        readers="refuses it",
        why_new=_READERS,
    ),
    Feature(
        keyword="in_commit_timestamps",
        key="delta.enableInCommitTimestamps",
        what="a commit's time is in the commit, not that of a file, which a copy changes",
        needs="writers: inCommitTimestamp",
        since="4.0",
        readers="reads it",
    ),
    Feature(
        keyword="v2_checkpoints",
        key="delta.checkpointPolicy",
        what="checkpoints of Delta's log in several files",
        needs="readers and writers: v2Checkpoint",
        since="3.0",
        readers="reads it",
        on="v2",
        off="classic",
        why_new=_READERS,
    ),
    Feature(
        keyword="optimize_write",
        key="delta.autoOptimize.optimizeWrite",
        what="rows are gathered before they are written, into fewer files (a shuffle per batch)",
        needs="",
        since="3.1",
        readers="reads it",
    ),
    Feature(
        keyword="auto_compact",
        key="delta.autoOptimize.autoCompact",
        what="after a commit that leaves many small files, they become large ones, before the next "
        "batch",
        needs="",
        since="3.1",
        readers="reads it",
    ),
    Feature(
        keyword="uniform",
        key="delta.universalFormat.enabledFormats",
        what="metadata of the other format is written, too, by which its readers read the table",
        needs="readers and writers: columnMapping, icebergCompatV2",
        since="3.0",
        readers="reads it",
        choices=("iceberg",),
        off="",
        with_it=(("delta.enableIcebergCompatV2", "true"), ("delta.columnMapping.mode", "name")),
        why_new=_READERS,
        jar="delta-iceberg",
        jar_class="org.apache.spark.sql.delta.icebergShaded.IcebergConverter",
    ),
)
"""In the order of the docs. `since`: the first version of Delta for Spark that writes it."""

_OF_FEATURES = {
    **{key: feature for feature in FEATURES for key, _ in feature.with_it},
    **{feature.key: feature for feature in FEATURES},
}
"""Property → the feature that sets it, its own before those that it only brings along."""

PLAIN: Mapping[str, str] = {
    "delta.appendOnly": "no program changes or deletes rows",
    "delta.checkpoint.writeStatsAsJson": "statistics in checkpoints, as JSON",
    "delta.checkpoint.writeStatsAsStruct": "statistics in checkpoints, as columns",
    "delta.checkpointInterval": "commits between two checkpoints of Delta's log",
    "delta.checkpointRetentionDuration": "how long checkpoints stay",
    "delta.dataSkippingNumIndexedCols": "of how many columns, the first ones, there are statistics",
    "delta.dataSkippingStatsColumns": "of which columns there are statistics",
    "delta.deletedFileRetentionDuration": "how long VACUUM keeps files that left the table",
    "delta.enableExpiredLogCleanup": "whether old files of Delta's log are deleted",
    "delta.enableFullRetentionRollback": "whether the log of all kept files stays",
    "delta.isolationLevel": "Serializable, which Delta has alone",
    "delta.logRetentionDuration": "how long files of Delta's log stay",
    "delta.randomPrefixLength": "the length of random folders",
    "delta.randomizeFilePrefixes": "whether files are in random folders",
}
"""Delta's properties that ask nothing of other programs; names without `delta.` are the user's."""

_REFUSED: Mapping[str, str] = {
    "delta.setTransactionRetentionDuration": "Delta would forget which batches the table has, and "
    "a batch could be written twice: leave it out",
    "delta.minReaderVersion": "Delta chooses the protocol by the table's features: use `features`",
    "delta.minWriterVersion": "Delta chooses the protocol by the table's features: use `features`",
    "delta.targetFileSize": "Delta for Spark has no such property, it is Databricks': use "
    "`file_size` of `optimize`",
    "delta.tuneFileSizesForRewrites": "Delta for Spark has no such property, it is Databricks'",
}
_PREFIXES: Mapping[str, str] = {
    "delta.constraints.": "use `constraints`, which a run also checks",
    "delta.feature.": "a feature alone changes nothing but who may read the table: use `features`",
}
LOG_RETENTION = "delta.logRetentionDuration"
LOG_DAYS_MIN = 7
"""A sink finds its end offsets in its last commit, which has to be in the log still."""
_INTERVAL = re.compile(
    r"(?:interval\s+)?(\d{1,9})\s+(second|minute|hour|day|week)s?", re.IGNORECASE
)
_PER_DAY = {"second": 86_400, "minute": 1440, "hour": 24, "day": 1, "week": 1 / 7}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A property of the file. `word`: its keyword, such as `features.row_tracking`."""

    key: str
    value: str
    word: str
    place: Place
    why_new: str = ""


def wishes_of(feature: Feature, value: str, place: Place) -> Iterator[Wish]:
    """The properties of a feature. `value`: that of its first property."""
    word = f"features.{feature.keyword}"
    settings = [(feature.key, value), *(feature.with_it if value != feature.off else ())]
    for key, said in settings:
        yield Wish(key=key, value=said, word=word, place=place, why_new=feature.why_new)


def feature_of(wish: Wish) -> Feature | None:
    """The feature whose first property a wish is, if it is on."""
    feature = _OF_FEATURES.get(wish.key)
    is_first = feature is not None and wish.word == f"features.{feature.keyword}"
    if feature is None or not is_first or wish.key != feature.key or wish.value == feature.off:
        return None
    return feature


def why_refused(key: str, value: str, nearest: str) -> str:
    """Why a file cannot set this property itself; "" if it can. `nearest`: a hint for a name that
    Delta does not have."""
    if not key.lower().startswith("delta."):
        return ""
    if key in _OF_FEATURES:
        return f"use `features: {{ {_OF_FEATURES[key].keyword}: ... }}`"
    why = _REFUSED.get(key) or next((w for p, w in _PREFIXES.items() if key.startswith(p)), "")
    if why:
        return why
    if key not in PLAIN:
        return f"Delta for Spark has no property `{key}`, or it is not for a file{nearest}"
    days = _days(value) if key == LOG_RETENTION else None
    if days is not None and days < LOG_DAYS_MIN:
        return (
            f"a sink finds its end offsets in Delta's log: expected interval {LOG_DAYS_MIN} days, "
            "or more"
        )
    return ""


def created_with(run: Iterable[tuple[str, str]], wishes: Sequence[Wish]) -> Settings:
    """The properties of a new table. `run`: those of the run, which give way to the file's."""
    file = {wish.key: wish.value for wish in wishes if wish.value}
    return tuple({**dict(run), **file}.items())


def due(have: Mapping[str, str], wishes: Sequence[Wish], table: str) -> Settings | str:
    """The properties to set on a table with the properties `have`, or why it cannot get them.
    `table`: as SQL writes it."""
    missing = [wish for wish in wishes if not _is_there(have, wish)]
    refused = [wish for wish in missing if wish.why_new]
    if not refused:
        return tuple((wish.key, wish.value) for wish in missing)
    first = refused[0]
    same = [wish for wish in refused if wish.word == first.word]
    settings = ", ".join(f"'{wish.key}' = '{wish.value}'" for wish in same)
    had = ", ".join(f"{wish.key} is {have.get(wish.key, 'not set')}" for wish in same)
    return (
        f"has not the `{first.word}` of the file ({had}), and an existing table does not get it: "
        f"{first.why_new}. If that is right: ALTER TABLE {table} SET TBLPROPERTIES ({settings}); "
        "otherwise leave the keyword out, or write to a new table"
    )


def _is_there(have: Mapping[str, str], wish: Wish) -> bool:
    """Whether a table has a property. One that it lacks is off, which Delta's defaults are."""
    said = have.get(wish.key)
    feature = _OF_FEATURES.get(wish.key)
    if said is None:
        return feature is not None and wish.value == feature.off
    return said.lower() == wish.value.lower()


def other_partitions(have: Sequence[str], wants: Sequence[str]) -> str:
    """Why a table's partitions are not those of the file; "" if they are, or the file has none."""
    if not wants or [name.lower() for name in have] == [name.lower() for name in wants]:
        return ""
    had = f"is partitioned by {', '.join(have)}" if have else "has no partitions"
    return (
        f"{had}, the file has `partition_by` {', '.join(wants)}: a table's partitions never "
        "change; write to a new table, or take the table's"
    )


def _days(value: str) -> float | None:
    """An interval in days; None for another text, which Delta judges."""
    found = _INTERVAL.fullmatch(value.strip())
    return int(found[1]) / _PER_DAY[found[2].lower()] if found else None
