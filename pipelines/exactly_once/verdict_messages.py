"""Messages of a stopped run: both offset maps and the commands that resolve the conflict."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.exactly_once.checkpoint_start import Checkpoint, Unreadable
from pipelines.exactly_once.offset_chain import Batch, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName, OtherChain, rename_options
from pipelines.exactly_once.state_chain import ways_out

_TRUST_TABLE = "set the checkpoint aside and continue at the table's offsets"
_TRUST_CHECKPOINT = "keep the table's rows and continue at the checkpoint's offsets"
_RECREATED = "keep the old topic's rows and read the new topic from its beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Losing:
    """The names in the message about lost records."""

    table: str
    topics: Sequence[str]
    bootstrap: str


def _of(place: str, text: str) -> str:
    """The text adapted to a sink that is a topic: `place` is `topic NAME`, which no path can be.

    The brokers hold the offsets of such a sink, so its text names the sink, not a table."""
    if not _is_topic(place):
        return text
    text = text.replace(f"table {place}", place).replace("its table", "its topic")
    return text.replace("the table", "the sink").replace("table and", "sink and")


def _is_topic(place: str) -> bool:
    return place.startswith("topic ")


def offsets(ends: ByPartition | None) -> str:
    """The map as JSON, or `nothing`."""
    return "nothing" if not ends else json.dumps(nested(ends))


def stopped_at_start(
    file: str,
    sink: str,
    table: str,
    folder: str,
    stop: Stop,
    checkpoint: Checkpoint | None,
    tip: Tip | Unreadable | None,
    losing: Losing | None = None,
    stateful: str = "",
) -> str:
    """For a sink that was not started because table, checkpoint and topics contradict each other.
    `stateful`: the name of the sink's transform with a state, if there is one."""
    lines = [_headline(sink, stop)]
    if isinstance(tip, Unreadable):
        lines.append(f"  table {table}: transaction {tip.txn_version}, its offsets are unreadable")
    else:
        lines.append(f"  table {table} ends at {offsets(tip.reached.ends if tip else None)}")
    committed = checkpoint.committed if checkpoint else None
    planned = checkpoint.planned if checkpoint else None
    said = f"committed {offsets(committed.end.ends if committed else None)}"
    said += f", planned {offsets(planned.end.ends if planned else None)}"
    lines.append(f"  checkpoint {folder}: {said if checkpoint else 'there is none'}")
    # The way out that comes first is the only one offered: a shorter topic is mostly a broker that
    # has not recovered, and skipping records for it could lose them. A state has no second copy, so
    # the general ways out would destroy it.
    if stop.verdict is Verdict.TOPIC_SHORTER:
        return _of(table, "\n".join([*lines, "Run again when the brokers are well."]))
    if stateful:
        ways = ways_out(file, stateful, sink, is_topic=_is_topic(table))
        return "\n".join([_of(table, "\n".join(lines)), *ways])
    if stop.verdict is Verdict.RECORDS_LOST and losing is not None:
        return _of(table, "\n".join(lines + _ways_out_of_loss(file, losing)))
    readable = not isinstance(tip, Unreadable)
    return _of(table, "\n".join(lines + _commands(file, stop, readable, committed is not None)))


def dead_letters_gone(file: str, sink: str, table: str, stop: Stop) -> str:
    """For a sink whose dead-letter table was deleted or restored between two runs."""
    return "\n".join(
        [
            _headline(sink, stop),
            f"  table {table}",
            "Bring the table back (a copy, RESTORE) and run again, or continue without it:",
            f"  josefine pipeline run {file} --trust table  # {_TRUST_TABLE}",
        ]
    )


def letters_left_out(table: str) -> str:
    """For a run that continues without the lost dead letters, by `--trust`."""
    return (
        f"the dead letters' table {table} lacks dead letters that it had: they stay missing "
        "(`--trust` passes over them)"
    )


def unnamed_checkpoint(
    file: str, sink: str, old_folder: str, folder: str, checkpoint: Checkpoint
) -> str:
    """For a checkpoint in the old layout, without a pipeline's name: it may be another one's."""
    committed = checkpoint.committed
    width = len(f"josefine pipeline run {file} --trust table")
    move = f"mv {old_folder} {folder}"
    return "\n".join(
        [
            _headline(sink, Stop(verdict=Verdict.CHECKPOINT_UNNAMED)),
            f"  checkpoint {old_folder}: committed "
            f"{offsets(committed.end.ends if committed else None)}",
            "Decide whose it is:",
            f"  {move:<{width}}  # of this pipeline: its table was deleted or is another one",
            f"  josefine pipeline run {file} --trust table  # another's: leave it, start a new one",
        ]
    )


def stopped_for_others(
    file: str, own: ChainName, table: str, stop: Stop, others: Sequence[OtherChain]
) -> str:
    """For a sink whose table has only chains of other names."""
    lines = [_headline(own.sink, stop)]
    if stop.verdict is not Verdict.OTHER_CHAIN:
        return _of(table, "\n".join([*lines, f"  table {table}"]))
    commands = []
    for other in others:
        if str(other.name) in stop.detail:
            ends = offsets(other.reached.ends) if other.reached else "unreadable offsets"
            lines.append(f"  table {table}: {other.name} ends at {ends}")
            options = rename_options(own, other.name)
            does = f"{own.sink} is {other.name} under a new name: continue at its offsets"
            commands.append((options, does))
    does = f"{own.sink} has other rows of these topics: add them to those that are there"
    commands.append((f"--new-chain {own.sink}", does))
    width = max(len(options) for options, _ in commands)
    said = (f"  josefine pipeline run {file} {o:<{width}}  # {does}" for o, does in commands)
    return _of(table, "\n".join([*lines, "Decide what it is:", *said]))


def stopped_in_batch(
    file: str,
    sink: str,
    table: str,
    stop: Stop,
    batch_id: int,
    batch: Batch,
    tip: Tip | None,
    stateful: str = "",
) -> str:
    """For a planned batch that does not continue the table. `stateful`: as above."""
    start = {p: s for p in batch.end.ends if (s := batch.starts.get(p)) is not None}
    lines = [
        _headline(sink, stop),
        f"  table {table} ends at {offsets(tip.reached.ends if tip else None)}",
        f"  batch {batch_id} reads from {offsets(start)} to {offsets(batch.end.ends)}",
    ]
    if stop.verdict is Verdict.LOST_RACE:
        lines.append("Let one run continue and stop the other; a new run follows the table.")
        return _of(table, "\n".join(lines))
    if stateful:
        ways = ways_out(file, stateful, sink, is_topic=_is_topic(table))
        return "\n".join([_of(table, "\n".join(lines)), *ways])
    return _of(table, "\n".join(lines + _commands(file, stop, True, True)))


def _headline(sink: str, stop: Stop) -> str:
    """The first line: sink, verdict, partitions, detail."""
    where = ", ".join(f"{topic}-{number}" for topic, number in stop.partitions)
    text = f"sink `{sink}` stopped, nothing was written: {stop.verdict.value}"
    text += f" ({where})" if where else ""
    return text + (f"; {stop.detail}" if stop.detail else "")


def _ways_out_of_loss(file: str, losing: Losing) -> list[str]:
    """Retention is among them, because more is deleted while the user decides."""
    keep = [
        f"  josefine topics alter {topic} -b {losing.bootstrap} --config retention.ms=-1"
        "  # until you have decided, keep what is still there"
        for topic in losing.topics
    ]
    does = f"record these ranges in {losing.table} and continue after them"
    return [
        "Decide whether to continue without them (always: `on_data_loss: skip_and_record`):",
        f"  josefine pipeline run {file} --on-data-loss skip_and_record  # {does}",
        *keep,
    ]


def _commands(file: str, stop: Stop, table_readable: bool, checkpoint_usable: bool) -> list[str]:
    """The sides that can be trusted at all; one that is unreadable or damaged is not offered."""
    recreated = stop.verdict is Verdict.TOPIC_RECREATED
    commands = []
    if table_readable:
        does = _RECREATED if recreated else _TRUST_TABLE
        commands.append(f"  josefine pipeline run {file} --trust table       # {does}")
    # A recreated topic has none of the checkpoint's offsets.
    if checkpoint_usable and not recreated and stop.verdict is not Verdict.CHECKPOINT_DAMAGED:
        commands.append(f"  josefine pipeline run {file} --trust checkpoint  # {_TRUST_CHECKPOINT}")
    if not commands:
        return ["Neither side can be followed: restore the table's log or write to a new path."]
    return ["Decide which side is right:", *commands]


_OPTION_OF_SOURCE = ". Set failOnDataLoss=false to continue with the records that are left"
_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)


_JAVA_CAUSE = re.compile(r"^(?:Caused by)?: ((?:[\w$]+\.)+[\w$]+(?:: .+)?)$", re.MULTILINE)
_PACKAGE = re.compile(r"^(?:[\w$]+\.)+(?=[A-Z])")


def clear_reason(error: BaseException) -> str:
    """One line of Spark's long error: the innermost Python error, else Java's, else the first."""
    text = str(error)
    # The last one is the innermost: Spark appends what caused an error after it.
    found = [m for m in _PYTHON_ERROR.findall(text) if m[0] not in ("PythonException",)]
    if found:
        # The connector's own hint names an option that pipelines do not have.
        said = str(found[-1][1]).strip()
        return said.replace(_OPTION_OF_SOURCE, "; the next run lists the ways to continue")
    java = _innermost_java(error) or next(iter(_JAVA_CAUSE.findall(text)[::-1]), "")
    lines = (line.strip() for line in (java or text).splitlines())
    first = next((line for line in lines if line), type(error).__name__)
    return _PACKAGE.sub("", first) if java else first


def _innermost_java(error: BaseException) -> str:
    """The innermost Java cause of a Py4J error; "" when the JVM does not answer any more."""
    java: Any = getattr(error, "java_exception", None)
    try:
        while java is not None and (below := java.getCause()) is not None:
            java = below
        return "" if java is None else str(java.toString())
    except Exception:
        return ""
