"""The I/O of the preflight check: it queries brokers, registries, folders and tables. It uses no
Spark and writes nothing; `preflight.py` judges the facts.

The right to read a topic is proven by a fetch at its end, which brokers authorize as any other.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.base.install_commands import install_command, not_installed
from pipelines.base.errors import SetupError, first_line
from pipelines.base.finding import TROUBLES, reason_of
from pipelines.exactly_once.start_offsets import ends, named
from pipelines.inspect.preflight import Facts, FolderFacts, LookupFacts, SourceFacts
from pipelines.inspect.writable_folders import Folder, folders, table_folder
from pipelines.lint.sql_columns import columns_of_ddl
from pipelines.model.lookup import Lookup
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import PipelinePlan, compile_plan
from pipelines.model.security import security_of
from pipelines.sinks.targets import target_of
from pipelines.sources.josefine import LOOK_TIMEOUT_MS
from pipelines.sources.kinds import ANY_KIND
from pipelines.storage.folders import TableFolder, why_left
from pipelines.storage.location import StorageError

if TYPE_CHECKING:
    from josefine_broker.client.cluster import TopicMetadata
    from josefine_broker.client.io_blocking import BlockingClient

CLIENT_ID = "josefine-pipeline-check"
ABSENT_TIMEOUT_MS, UNKNOWN_TIMEOUT_MS = 2_000, 500
"""Short, because a person waits; long enough for a broker or topic that is just starting."""


def inquire(pipeline: Pipeline, env: Mapping[str, str]) -> Facts:
    """Gather all facts, even if some are bad."""
    plan = compile_plan(pipeline)
    return Facts(
        machine=_machine(),
        sources={
            s.name: replace(_source(plan, s), registries=_registries(s))
            for s in pipeline.sources.values()
        },
        lookups={each.name: _lookup(pipeline, each, env) for each in pipeline.lookups.values()},
        folders=tuple(_folder(pipeline, each, env) for each in folders(pipeline, env)),
        targets={
            sink.name: trouble
            for sink in pipeline.sinks.values()
            if (trouble := target_of(sink).probe(_client)) is not None
        },
    )


def _machine() -> str:
    from josefine_spark.sessions.session import SessionError, check_java, spark_version

    for package in ("pyspark", "delta", "pyarrow"):
        if importlib.util.find_spec(package) is None:
            return not_installed(package)
    try:
        spark_version()
        check_java()
    except SessionError as error:
        return str(error)
    return ""


def _source(plan: PipelinePlan, source: Source) -> SourceFacts:
    if source.local is not None:
        try:
            found = ANY_KIND.look(source).latest.ends
        except SetupError as error:
            return SourceFacts(unreachable=str(error).removeprefix(f"source `{source.name}`: "))
        return SourceFacts(partitions=_counted(found))
    try:
        with _client(source.bootstrap, source.security) as client:
            return _topics(client, plan, source)
    except (KafkaError, OSError, ValueError) as error:
        return SourceFacts(unreachable=f"{source.bootstrap}: {reason_of(error)}")


def _client(bootstrap: str, settings: Mapping[str, str]) -> BlockingClient:
    """Raises ValueError if a password of the settings cannot be read."""
    from josefine_broker.client.io_blocking import BlockingClient, Policy

    policy = Policy(
        request_timeout_ms=LOOK_TIMEOUT_MS,
        bootstrap_timeout_ms=ABSENT_TIMEOUT_MS,
        unknown_topic_timeout_ms=UNKNOWN_TIMEOUT_MS,
    )
    security = security_of(settings)
    return BlockingClient(bootstrap, client_id=CLIENT_ID, policy=policy, security=security)


def _registries(source: Source) -> dict[str, str]:
    """Address → why it returns no schemas; the request is for a schema id that does not exist."""
    from josefine_arrow.formats.confluent.schema_references import NoSchemaError
    from josefine_arrow.formats.confluent.schema_registry import (
        RegistryError,
        address_of,
        schema_in,
        unreached,
    )
    from josefine_arrow.formats.confluent.schema_registry_http import ask

    found = {}
    texts = [how.registry for how in (source.decode, source.decode_key) if how and how.registry]
    for registry in map(address_of, [] if source.is_in_file else dict.fromkeys(texts)):
        why = ""
        try:
            schema_in(ask(registry, "/schemas/ids/0"), registry, "schema 0")
        except OSError as error:
            why = unreached(registry, error)
        except RegistryError as error:
            why = str(error)
        except NoSchemaError:
            pass  # the expected answer of a registry
        found[registry.url] = why
    return found


def _topics(client: BlockingClient, plan: PipelinePlan, source: Source) -> SourceFacts:
    """The facts about a source's topics and groups. Raises KafkaError if no broker answers."""
    topics = _matching(client, source)
    troubles: dict[str, str] = {}
    leaderless: list[TopicPartition] = []
    readable: dict[str, int] = {}
    for name, topic in topics.items():
        if topic.error_code is not ErrorCode.none or not topic.partitions:
            troubles[name] = TROUBLES.get(topic.error_code, topic.error_code.name)
            continue
        assigned = [tp for tp in source.assigned if tp.topic == name]
        absent = [str(tp) for tp in assigned if tp.partition not in topic.partitions]
        if absent:
            troubles[name] = f"no partition {', '.join(absent)}"
            continue
        partitions = _read(source, topic)
        # A partition without a leader is an outage, not an error of the file: it is reported apart,
        # and its topic is not probed, because that would only wait.
        unled = [tp for tp in partitions if topic.partitions[tp.partition].leader < 0]
        leaderless += unled
        why = "" if unled else _why_unread(client, partitions)
        if why:
            troubles[name] = why
        else:
            readable[name] = len(_read(source, topic))
    return SourceFacts(
        partitions=readable,
        troubles=troubles,
        leaderless=tuple(leaderless),
        group_trouble=_groups(client, plan, source),
        unfit={} if troubles or leaderless else _unfit(source),
    )


def _unfit(source: Source) -> dict[str, str]:
    """The error that a run would report for a `start` or `stop` by a group or by offsets."""
    start, stop = source.start, source.stop
    ends_by_name = stop is not None and (stop.group is not None or stop.is_by_offsets)
    if not (start.is_by_offsets or ends_by_name):
        return {}
    found = {}
    try:
        topics = ANY_KIND.look(source)
        bounds = topics.bounds()
        if start.is_by_offsets:
            group = start.group
            found["start"] = named(
                start, ANY_KIND.committed(source, group, topics) if group else {}, bounds
            )
        if stop is not None and ends_by_name:
            group = stop.group
            found["stop"] = ends(
                stop, ANY_KIND.committed(source, group, topics) if group else {}, bounds
            )
    except SetupError as error:
        return {"stop": str(error).removeprefix(f"source `{source.name}`: ")}
    return {word: said for word, said in found.items() if isinstance(said, str)}


def _lookup(pipeline: Pipeline, lookup: Lookup, env: Mapping[str, str]) -> LookupFacts:
    """Inspect a lookup table. Only Spark's catalog resolves a name; only a run compares types."""
    if lookup.path is None:
        return LookupFacts(not_opened="only Spark's catalog knows where it is")
    try:
        folder = table_folder(pipeline, lookup.path, env)
        if folder is None:
            return LookupFacts(not_opened=f"only Spark reaches {why_left(lookup.path)}")
        version, trouble, not_opened = _table(folder)
    except StorageError as error:
        return LookupFacts(trouble=str(error))
    if trouble or not_opened:
        return LookupFacts(trouble=trouble, not_opened=not_opened)
    if version is None:
        return LookupFacts(trouble="there is no Delta table")
    from deltalake import DeltaTable

    table = DeltaTable(folder.path, storage_options=dict(folder.options))
    have = {each.name.lower() for each in table.schema().fields}
    missing = [f"`{name}`" for name in columns_of_ddl(lookup.schema).names if name not in have]
    return LookupFacts(
        version=version, trouble=f"no column {', '.join(missing)}" if missing else ""
    )


def _matching(client: BlockingClient, source: Source) -> dict[str, TopicMetadata]:
    topics = client.metadata(source.topics or None).topics
    if source.pattern is None:
        return {name: topics[name] for name in source.topics}
    pattern = re.compile(source.pattern)
    named = {n: t for n, t in sorted(topics.items()) if pattern.fullmatch(n)}
    return {name: topic for name, topic in named.items() if not topic.is_internal}


def _read(source: Source, topic: TopicMetadata) -> list[TopicPartition]:
    """The partitions of a topic that a source reads."""
    there = [TopicPartition(topic.name, number) for number in topic.partitions]
    return [tp for tp in there if not source.assigned or tp in source.assigned]


def _why_unread(client: BlockingClient, partitions: Sequence[TopicPartition]) -> str:
    """ "" if this user may fetch from every partition."""
    from josefine_spark.read.discovery import latest_offsets

    try:
        ends = latest_offsets(client, partitions, read_committed=False)
        fetched = client.fetch(ends, partition_bytes_max=1, min_bytes=0, max_wait_ms=0)
    except KafkaError as error:
        return TROUBLES.get(error.code, reason_of(error))
    codes = [one.error_code for one in fetched.values() if one.error_code is not ErrorCode.none]
    return TROUBLES.get(codes[0], codes[0].name) if codes else ""


def _groups(client: BlockingClient, plan: PipelinePlan, source: Source) -> dict[str, str]:
    """Group → why this user may not use it; other errors are ignored, its offsets are advice."""
    troubles = {}
    sinks = (plan.sinks[name] for name in plan.sources[source.name].sinks)
    for group in dict.fromkeys(sink.groups[source.name] for sink in sinks):
        try:
            client.committed_offsets(group, ())
        except KafkaError as error:
            if error.code is ErrorCode.group_authorization_failed:
                troubles[group] = "no right to read it"
    return troubles


def _counted(partitions: Mapping[TopicPartition, int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for tp in sorted(partitions):
        counts[tp.topic] = counts.get(tp.topic, 0) + 1
    return counts


def _folder(pipeline: Pipeline, folder: Folder, env: Mapping[str, str]) -> FolderFacts:
    version, trouble, not_opened, unreached = None, "", "", ""
    opened = None
    try:
        if not folder.cause:
            opened = table_folder(pipeline, folder.path, env)
            not_opened = why_left(folder.path) if opened is None else ""
        if opened is not None and folder.is_table:
            version, trouble, not_opened = _table(opened)
        elif opened is not None:
            opened.files.names(opened.path)
    except StorageError as error:
        unreached = str(error)
    return FolderFacts(
        key=folder.key,
        path=folder.path,
        is_local=folder.local is not None,
        in_store=opened is not None and opened.at is not None,
        unreached=unreached,
        cause=folder.cause,
        is_table=folder.is_table,
        version=version,
        table_trouble=trouble,
        not_opened=not_opened,
    )


def _table(folder: TableFolder) -> tuple[int | None, str, str]:
    """(version of the Delta table, why it cannot be read, what to install to open it). Raises
    StorageError."""
    names = folder.files.names(folder.path)
    if "_delta_log" not in names:
        # Spark creates no table in a folder with other files; Delta itself ignores hidden ones.
        others = [each for each in names if not each.startswith(("_", "."))]
        return None, f"it has files ({min(others)}) and no Delta log" if others else "", ""
    log = folder.files.names(f"{folder.path}/_delta_log")
    if not any(each.endswith(".json") for each in log):
        return None, "", ""  # a run was killed before its first commit; the next one continues
    if importlib.util.find_spec("deltalake") is None:
        return None, "", install_command("journal")
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(folder.path, storage_options=dict(folder.options)).version(), "", ""
    except (DeltaError, OSError) as error:
        said = first_line(error)
        if "not supported" in said:
            return None, "", f"delta-rs does not read it, Spark may: {said}"
        return None, said, ""
