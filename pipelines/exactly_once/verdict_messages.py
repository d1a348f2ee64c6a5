"""What a stopped run tells its user: both offset maps and the commands that settle it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.exactly_once.offset_chain import Batch, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName, OtherChain, rename_options
from pipelines.exactly_once.reconcile import Checkpoint, Unreadable
from pipelines.exactly_once.state_chain import ways_out

_TRUST_TABLE = "set the checkpoint aside and continue at the table's offsets"
_TRUST_CHECKPOINT = "keep the table's rows and continue at the checkpoint's offsets"
_RECREATED = "keep the old topic's rows and read the new topic from its beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Losing:
    """What the ways out of lost records are told with."""

    table: str
    topics: Sequence[str]
    bootstrap: str


def _of(place: str, text: str) -> str:
    """The same for a sink whose chain is no table's: a `topic NAME`, and no path has a blank there.

    Where it got is in the brokers' record of the sink, so that takes the table's place."""
    if not place.startswith("topic "):
        return text
    text = text.replace(f"table {place}", place)
    return text.replace("the table", "the sink").replace("table and", "sink and")


def offsets(ends: ByPartition | None) -> str:
    """The map as JSON, or the word for none."""
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
    """For a sink that was not started because table, checkpoint and topics do not fit together.
    `stateful`: the transform with the state that its rows come through, if there is one."""
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
    if stop.verdict is Verdict.TOPIC_SHORTER:
        return _of(table, "\n".join([*lines, "Run again when the brokers are well."]))
    if stateful:
        return "\n".join(lines + ways_out(file, stateful, sink))
    if stop.verdict is Verdict.RECORDS_LOST and losing is not None:
        return _of(table, "\n".join(lines + _ways_out_of_loss(file, losing)))
    readable = not isinstance(tip, Unreadable)
    return _of(table, "\n".join(lines + _commands(file, stop, readable, committed is not None)))


def dead_letters_gone(file: str, sink: str, table: str, stop: Stop) -> str:
    """For a sink whose dead letters' table was deleted under it."""
    return "\n".join(
        [
            _headline(sink, stop),
            f"  table {table}",
            "Bring the table back (a copy, RESTORE) and run again, or go on without its letters:",
            f"  josefine pipeline run {file} --trust table  # {_TRUST_TABLE}",
        ]
    )


def letters_left_out(table: str) -> str:
    """For a run that goes on without them, by `--trust`."""
    return (
        f"the dead letters' table {table} lacks letters that it had: they stay away "
        "(`--trust` passes over them)"
    )


def unnamed_checkpoint(
    file: str, sink: str, old_folder: str, folder: str, checkpoint: Checkpoint
) -> str:
    """For a checkpoint of before pipelines had folders of their own, that may be another's."""
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
            f"  josefine pipeline run {file} --trust table  # another's: leave it, begin anew",
        ]
    )


def stopped_for_others(
    file: str, own: ChainName, table: str, stop: Stop, others: Sequence[OtherChain]
) -> str:
    """For a sink that found only chains of other names in its table."""
    lines = [_headline(own.sink, stop)]
    if stop.verdict is not Verdict.OTHER_CHAIN:
        return _of(table, "\n".join([*lines, f"  table {table}"]))
    commands = []
    for other in others:
        if str(other.name) in stop.detail:
            ends = offsets(other.reached.ends) if other.reached else "what nobody can read"
            lines.append(f"  table {table}: {other.name} ends at {ends}")
            options = rename_options(own, other.name)
            does = f"{own.sink} is {other.name} under a new name: go on at its offsets"
            commands.append((options, does))
    does = f"{own.sink} has other rows of these topics: write them beside those that are there"
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
    """For a batch that was planned but does not continue the table. `stateful`: as above."""
    start = {p: s for p in batch.end.ends if (s := batch.starts.get(p)) is not None}
    lines = [
        _headline(sink, stop),
        f"  table {table} ends at {offsets(tip.reached.ends if tip else None)}",
        f"  batch {batch_id} reads from {offsets(start)} to {offsets(batch.end.ends)}",
    ]
    if stop.verdict is Verdict.LOST_RACE:
        lines.append("Let one run go on and end the other; a new run continues where the table is.")
        return _of(table, "\n".join(lines))
    ways = ways_out(file, stateful, sink) if stateful else _commands(file, stop, True, True)
    return _of(table, "\n".join(lines + ways))


def _headline(sink: str, stop: Stop) -> str:
    where = ", ".join(f"{topic}-{number}" for topic, number in stop.partitions)
    text = f"sink `{sink}` stopped, nothing was written: {stop.verdict.value}"
    text += f" ({where})" if where else ""
    return text + (f"; {stop.detail}" if stop.detail else "")


def _ways_out_of_loss(file: str, losing: Losing) -> list[str]:
    keep = [
        f"  josefine topics alter {topic} -b {losing.bootstrap} --config retention.ms=-1"
        "  # until you have decided, keep what is still there"
        for topic in losing.topics
    ]
    does = f"record these ranges in {losing.table} and go on behind them"
    return [
        "Decide whether to go on without them (always: `on_data_loss: skip_and_record`):",
        f"  josefine pipeline run {file} --on-data-loss skip_and_record  # {does}",
        *keep,
    ]


def _commands(file: str, stop: Stop, table_readable: bool, checkpoint_usable: bool) -> list[str]:
    recreated = stop.verdict is Verdict.TOPIC_RECREATED
    commands = []
    if table_readable:
        does = _RECREATED if recreated else _TRUST_TABLE
        commands.append(f"  josefine pipeline run {file} --trust table       # {does}")
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
    """One line out of Spark's pages: the innermost Python error, else Java's, else the first."""
    text = str(error)
    found = [m for m in _PYTHON_ERROR.findall(text) if m[0] not in ("PythonException",)]
    if found:
        said = str(found[-1][1]).strip()
        return said.replace(_OPTION_OF_SOURCE, "; the next run tells the ways to go on")
    java = _innermost_java(error) or next(iter(_JAVA_CAUSE.findall(text)[::-1]), "")
    lines = (line.strip() for line in (java or text).splitlines())
    first = next((line for line in lines if line), type(error).__name__)
    return _PACKAGE.sub("", first) if java else first


def _innermost_java(error: BaseException) -> str:
    """What Java says at the bottom of Py4J's error; nothing when Java cannot be asked any more."""
    java: Any = getattr(error, "java_exception", None)
    try:
        while java is not None and (below := java.getCause()) is not None:
            java = below
        return "" if java is None else str(java.toString())
    except Exception:
        return ""
