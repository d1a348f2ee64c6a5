"""Preflight check of a pipeline: facts in, findings out.

No I/O: `preflight_probe.py` gathers the facts about brokers, folders and tables. A finding is one
line, with a fix if there is a problem. What only Spark can inspect is `skipped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from josefine_broker.base.ids import TopicPartition
from pipelines.base.finding import ABSENT, ERROR, FORBIDDEN, OK, SKIPPED, WARNING, Finding
from pipelines.base.plurals import counted
from pipelines.lint.catalogs import catalog_notices
from pipelines.lint.object_stores import store_notices
from pipelines.model.lookup import Lookup
from pipelines.model.pipeline import Pipeline, Source
from pipelines.sinks.targets import target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """The facts about a source's brokers or files, as this user sees them.

    `partitions`: topic → count; `troubles`: topic → ABSENT, FORBIDDEN or a reason; `leaderless`:
    partitions without a leader; `unreachable`: why the brokers did not answer. `group_trouble`:
    group → why its offsets cannot be committed for lag tools. `registries`: the address of a
    schema registry → why it returns no schemas, "" if it does. `unfit`: `start` or `stop` → why its
    group or offsets do not match the topics.
    """

    unreachable: str = ""
    partitions: Mapping[str, int] = field(default_factory=dict)
    troubles: Mapping[str, str] = field(default_factory=dict)
    leaderless: tuple[TopicPartition, ...] = ()
    group_trouble: Mapping[str, str] = field(default_factory=dict)
    registries: Mapping[str, str] = field(default_factory=dict)
    unfit: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupFacts:
    """A table that a stream is joined with, and its `version`. `trouble`: why it cannot be read;
    `not_opened`: why it was not opened."""

    version: int | None = None
    trouble: str = ""
    not_opened: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """A folder that a run writes. `key`: its keys in the file; `cause`: why it cannot be written.

    `is_local`: on this machine, so it was inspected; `in_store`: in a store, where it was read, and
    no write was tried; `unreached`: why the store did not answer. `version`: of its Delta table,
    None if there is none yet; `table_trouble`: why that table cannot be read. `not_opened`: why
    only Spark reaches it, or what to install.
    """

    key: str
    path: str
    is_local: bool = True
    in_store: bool = False
    unreached: str = ""
    cause: str = ""
    is_table: bool = False
    version: int | None = None
    table_trouble: str = ""
    not_opened: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts. `machine`: why Spark would not start here, "" if it would. `targets`: sink → why
    its target cannot be written, as far as that is known without a write, or ""."""

    machine: str = ""
    sources: Mapping[str, SourceFacts]
    folders: tuple[FolderFacts, ...]
    lookups: Mapping[str, LookupFacts] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)


def findings(pipeline: Pipeline, facts: Facts) -> list[Finding]:
    """The findings, in the order in which a run would meet them."""
    found = [_machine(facts.machine)]
    for name, seen in facts.sources.items():
        found += _source(pipeline.sources[name], seen)
        found += _registries(pipeline.sources[name], seen)
    found += [_lookup(pipeline.lookups[name], seen) for name, seen in facts.lookups.items()]
    found += [_folder(pipeline, each) for each in facts.folders]
    missing = (*store_notices(pipeline), *catalog_notices(pipeline))
    found += [Finding(WARNING, str(each)) for each in missing]
    for sink in pipeline.sinks.values():
        found += target_of(sink).findings(facts.targets.get(sink.name))
    if pipeline.dead_letter_table:
        what = f"dead_letter.table: {pipeline.dead_letter_table}: only Spark's catalog knows where"
        found.append(Finding(SKIPPED, f"{what} it is"))
    return found


def _machine(trouble: str) -> Finding:
    if trouble:
        return Finding(ERROR, trouble)
    return Finding(OK, "this machine has PySpark, Delta and a Java that Spark takes")


def _source(source: Source, seen: SourceFacts) -> list[Finding]:
    name = f"source `{source.name}`"
    if seen.unreachable:
        mend = f"fix it at {source.place}"
        if source.local is None:
            mend = f"start the brokers, or fix `bootstrap` at {source.place}"
        return [Finding(ERROR, f"{name}: {seen.unreachable}", mend)]
    found = [_topic(source, topic, why) for topic, why in seen.troubles.items()]
    if seen.leaderless:
        told = ", ".join(f"{tp.topic}-{tp.partition}" for tp in seen.leaderless)
        mend = "start a broker that has a replica"
        found.append(Finding(ERROR, f"{name}: no broker leads {told}", mend))
    if not seen.partitions and not found:
        what = f"{name}: {source.told}: nothing to read there"
        mend = f"create it, or fix the source at {source.place}"
        found.append(Finding(ERROR, what, mend))
    if not found:
        many = ", ".join(f"{t} ({counted(n, 'partition')})" for t, n in seen.partitions.items())
        found.append(Finding(OK, f"{name}: {many} can be read"))
    if "start" in seen.unfit:
        what = f"{name}: a sink without a commit cannot start: {seen.unfit['start']}"
        found.append(Finding(WARNING, what))
    if "stop" in seen.unfit:
        found.append(Finding(ERROR, f"{name}: {seen.unfit['stop']}"))
    for group, why in seen.group_trouble.items():
        what = f"{name}: lag tools will not see group {group}: {why}"
        mend = f"josefine acls add --user USER --operation read --group {group}"
        found.append(Finding(WARNING, what, mend))
    return found


def _lookup(lookup: Lookup, seen: LookupFacts) -> Finding:
    what = f"source `{lookup.name}`: {lookup.told}"
    if seen.trouble:
        return Finding(ERROR, f"{what}: {seen.trouble}", f"fix it, or the source at {lookup.place}")
    if seen.not_opened:
        return Finding(SKIPPED, f"{what} was not opened: {seen.not_opened}")
    return Finding(OK, f"{what} can be read, at version {seen.version}")


def _registries(source: Source, seen: SourceFacts) -> list[Finding]:
    name = f"source `{source.name}`"
    mend = f"start it, or fix `registry` below {source.place}"
    return [
        Finding(ERROR, f"{name}: {why}", mend)
        if why
        else Finding(OK, f"{name}: the schema registry {url} answers")
        for url, why in seen.registries.items()
    ]


def _topic(source: Source, topic: str, why: str) -> Finding:
    where = f"-b {source.bootstrap}"
    if why == ABSENT:
        mend = f"josefine topics create {topic} {where}"
        return Finding(ERROR, f"source `{source.name}`: topic {topic} does not exist", mend)
    if why == FORBIDDEN:
        mend = f"josefine acls add --user USER --operation read --topic {topic} {where}"
        return Finding(ERROR, f"source `{source.name}`: no right to read topic {topic}", mend)
    return Finding(ERROR, f"source `{source.name}`: topic {topic}: {why}")


def _folder(pipeline: Pipeline, seen: FolderFacts) -> Finding:
    what = f"{seen.key}: {seen.path}"
    if seen.unreached:
        return Finding(ERROR, f"{seen.key}: {seen.unreached}")
    if not seen.is_local and not seen.in_store:
        return Finding(SKIPPED, f"{seen.key}: only Spark reaches {seen.not_opened or seen.path}")
    # A write into a store would leave an object, so only a run shows whether it may write.
    can = "can be reached" if seen.in_store else "can be written"
    if seen.cause:
        mend = f"let this user write there, or choose another folder in {pipeline.file}"
        return Finding(ERROR, f"{what} cannot be written: {seen.cause}", mend)
    if seen.table_trouble:
        mend = f"restore the table, or choose another folder in {pipeline.file}"
        return Finding(ERROR, f"{what} cannot be read: {seen.table_trouble}", mend)
    if seen.not_opened:
        return Finding(SKIPPED, f"{what} {can}, its table was not opened", seen.not_opened)
    if not seen.is_table:
        return Finding(OK, f"{what} {can}")
    if seen.version is None:
        return Finding(OK, f"{what} {can}; the run makes the table")
    return Finding(OK, f"{what} {can}, its table read, at version {seen.version}")
