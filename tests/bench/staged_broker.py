"""A broker process that adds up the time of each stage of its requests.

    python -m tests.bench.staged_broker OUTPUT ... broker --config FILE

Named functions are replaced by ones that read the thread's CPU clock when they start and end, and
count the time in between, without that of the named functions they call. The cost of the two
readings is measured first and taken off. The table is written to OUTPUT when the broker stops; a
SIGUSR1 starts it from nothing, once a client is ready.
"""

import importlib
import json
import resource
import signal
import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from threading import get_ident
from time import thread_time_ns
from typing import Any

from josefine_broker.records.structure import FOLDER

CALIBRATION_CALLS = 20_000
NATIVE = f"josefine_broker.records.native.{FOLDER}.plain_produce"
NATIVE_FETCH = f"josefine_broker.records.native.{FOLDER}.plain_fetch"
REST = "event loop and system calls"

STAGES = (
    # Stage, module, function or class.function. A module that imports a function by name has its
    # own reference to it, so it is replaced there, and before the table of handlers is built.
    ("read", "josefine_broker.wire.frames", "FrameBuffer.get_buffer"),
    ("read", "josefine_broker.wire.frames", "FrameBuffer.buffer_updated"),
    ("connection", "josefine_broker.host.net.connection", "Connection.get_buffer"),
    ("connection", "josefine_broker.host.net.connection", "Connection.buffer_updated"),
    ("parse", "josefine_broker.host.net.dispatch", "parse_request_header"),
    ("parse", "josefine_broker.host.net.dispatch", "decode_request"),
    ("admission", "josefine_broker.host.net.dispatch", "Dispatcher.serve"),
    ("quota", "josefine_broker.host.net.throttling", "Throttle.is_needed"),
    ("handle", "josefine_broker.api.produce", "handle"),
    ("validate", "josefine_broker.api.produce", "validate_batch"),
    ("append", "josefine_broker.api.produce", "append_batch"),
    ("append", "josefine_broker.host.log.log", "PartitionLog.append"),
    ("pwrite", "josefine_broker.host.disk.open_files", "RealFile.write_at_end"),
    ("watermark", "josefine_broker.engine.partition.partition", "Partition.appended"),
    ("complete", "josefine_broker.engine.purgatory.purgatory", "ParkedRequests.wake"),
    ("encode", "josefine_broker.host.net.dispatch", "encode_response"),
    ("write", "josefine_broker.host.net.connection", "Connection._send"),
    # Requests served together.
    ("parse", NATIVE, "parse"),
    ("parse", NATIVE, "parse_parts"),
    ("admission", "josefine_broker.host.net.produce_turn", "ProduceTurn.stage"),
    ("quota", "josefine_broker.compose.routes", "is_open"),
    ("handle", "josefine_broker.host.net.produce_turn", "ProduceTurn.run"),
    ("handle", "josefine_broker.host.net.produce_turn", "ProduceTurn.serve_alone"),
    ("handle", "josefine_broker.compose.routes", "append_alone"),
    ("handle", "josefine_broker.compose.routes", "append_groups"),
    ("handle", "josefine_broker.compose.routes", "append_parts"),
    ("handle", "josefine_broker.compose.routes", "fetch_plain"),
    ("append", "josefine_broker.host.log.log", "PartitionLog.append_plain"),
    ("append", NATIVE, "assemble"),
    ("watermark", "josefine_broker.engine.partition.partition", "Partition.appended_together"),
    ("encode", NATIVE, "answers"),
    ("encode", NATIVE, "answer_parts"),
    ("write", "josefine_broker.host.net.connection", "Connection.answer_staged"),
    # Fetches, heartbeats and offset commits.
    ("parse", NATIVE_FETCH, "parse"),
    ("encode", NATIVE_FETCH, "answer"),
    ("handle", "josefine_broker.api.fetch", "handle"),
    ("handle", "josefine_broker.api.heartbeat", "handle"),
    ("handle", "josefine_broker.api.offset_commit", "handle"),
    ("append", "josefine_broker.api.offset_commit", "store_offsets"),
    ("read log", "josefine_broker.host.log.log", "PartitionLog.read"),
    ("pread", "josefine_broker.host.disk.open_files", "RealFile.read_at"),
    ("park", "josefine_broker.engine.purgatory.purgatory", "ParkedRequests.park"),
    ("complete", "josefine_broker.engine.purgatory.purgatory", "ParkedRequests.run_completed"),
    ("encode", "josefine_broker.host.net.dispatch", "Dispatcher.finish"),
    # Replication, the leader: a follower's waiting fetch is answered, and its next one read.
    (
        "wake followers",
        "josefine_broker.engine.purgatory.purgatory",
        "ParkedRequests.wake_follower",
    ),
    ("follower's request", "josefine_broker.compose.routes", "fetch_again"),
    ("follower's request", "josefine_broker.compose.routes", "fetch_for_follower"),
    ("admission", "josefine_broker.host.net.dispatch", "Dispatcher.serve_again"),
    ("write", "josefine_broker.host.net.connection", "Connection.send_now"),
    ("complete", "josefine_broker.host.net.late_answers", "LateGroup._send_now"),
    ("progress", "josefine_broker.engine.partition.partition", "Partition.follower_fetched"),
    ("read for follower", "josefine_broker.api.fetch", "read_for_follower"),
    ("session", "josefine_broker.engine.partition.fetch_session", "FetchSessions.begin"),
    ("session", "josefine_broker.api.fetch", "select_answers"),
    ("complete", "josefine_broker.host.net.late_answers", "LateGroup._answer"),
    ("encode", "josefine_broker.api.plain_replica_fetch", "encode_replica_response"),
    ("parse", "josefine_broker.api.plain_replica_fetch", "decode_replica_request"),
    # Replication, the follower.
    ("read", "josefine_broker.client.io_asyncio_protocol", "ProtocolConnection.get_buffer"),
    ("link", "josefine_broker.client.io_asyncio_protocol", "ProtocolConnection.buffer_updated"),
    ("link", "josefine_broker.host.peers.replicator", "_Link.answered"),
    ("link", "josefine_broker.host.peers.replicator", "_Link.pump"),
    ("link", "josefine_broker.host.peers.replicator", "_Link.goes_on"),
    ("follow", "josefine_broker.engine.replicas.following_next", "NextBatches.take"),
    ("follow, after", "josefine_broker.engine.replicas.following_next", "NextBatches.finish"),
    ("timer", "josefine_broker.host.alarm", "Alarm.set"),
    ("parse", "josefine_broker.wire.codec", "decode_response"),
    ("parse", "josefine_broker.host.peers.replicator", "decode_replica_response"),
    ("follow", "josefine_broker.node", "hear"),
    ("append copies", "josefine_broker.engine.replicas.following", "append_fetched"),
    ("append", "josefine_broker.host.log.log", "PartitionLog.append_copies"),
    ("watermark", "josefine_broker.engine.partition.partition", "Partition.copied"),
    ("next request", "josefine_broker.engine.partition.replica_fetch", "ReplicaFetcher.request"),
    ("encode", "josefine_broker.wire.codec", "encode_request"),
    ("encode", "josefine_broker.host.peers.replicator", "encode_replica_request"),
    ("write", "josefine_broker.client.io_asyncio_protocol", "ProtocolConnection.send"),
    ("write", "josefine_broker.client.io_asyncio_protocol", "ProtocolConnection.ask"),
)

Function = Callable[..., Any]


class Stopwatch:
    """The time of each stage, and how often it was entered, on the thread that made it."""

    def __init__(self) -> None:
        self.spent_ns: dict[str, int] = {REST: 0}
        self.entered: dict[str, int] = {REST: 0}
        self.left: dict[str, int] = {REST: 0}
        """How often each stage continued after a function that it called."""
        self._stage, self._since_ns, self._thread = REST, thread_time_ns(), get_ident()

    def timed(self, stage: str, function: Function) -> Function:
        """`function`, whose own time counts for `stage`."""
        self.spent_ns.setdefault(stage, 0)
        self.entered.setdefault(stage, 0)
        self.left.setdefault(stage, 0)

        def run(*args: Any, **kwargs: Any) -> Any:
            # Another thread's clock is another one: of a sync, say, or of metadata.
            if get_ident() != self._thread:
                return function(*args, **kwargs)
            outer = self._stage
            self._turn(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self._turn(outer)
                self.entered[stage] += 1
                self.left[outer] += 1

        return update_wrapper(run, function)

    def restart(self) -> None:
        """Forget what was counted."""
        for counted in (self.spent_ns, self.entered, self.left):
            counted.update(dict.fromkeys(counted, 0))

    def _turn(self, stage: str) -> None:
        now_ns = thread_time_ns()
        self.spent_ns[self._stage] += now_ns - self._since_ns
        self._stage, self._since_ns = stage, now_ns


def calibrate() -> tuple[float, float]:
    """What timing a call adds to its own stage and to the caller's, in nanoseconds."""
    watch = Stopwatch()
    plain: Function = list
    nothing = watch.timed("inner", plain)

    def call() -> None:
        for _ in range(CALIBRATION_CALLS):
            nothing()

    watch.timed("outer", call)()
    started_ns = thread_time_ns()
    for _ in range(CALIBRATION_CALLS):
        plain()
    plain_ns = (thread_time_ns() - started_ns) / CALIBRATION_CALLS
    inner = watch.spent_ns["inner"] / CALIBRATION_CALLS
    outer = watch.spent_ns["outer"] / CALIBRATION_CALLS
    return inner - plain_ns / 2, outer - plain_ns / 2


def install(watch: Stopwatch) -> None:
    """Replace every function of `STAGES` that this checkout has."""
    for stage, module_name, path in STAGES:
        try:
            owner: Any = importlib.import_module(module_name)
        except ModuleNotFoundError:
            continue  # an older checkout
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        found = vars(owner).get(name)
        if isinstance(found, property):
            assert found.fget is not None
            setattr(owner, name, property(watch.timed(stage, found.fget)))
        elif found is not None:
            setattr(owner, name, watch.timed(stage, found))


def table(watch: Stopwatch, cost: tuple[float, float]) -> dict[str, dict[str, float]]:
    """Stage → its calls and its seconds, without the cost of the measurement."""
    inside, outside = cost
    return {
        stage: {
            "calls": watch.entered[stage],
            "seconds": max(
                0.0,
                (spent_ns - watch.entered[stage] * inside - watch.left[stage] * outside) / 1e9,
            ),
        }
        for stage, spent_ns in watch.spent_ns.items()
    }


def main() -> None:
    output, arguments = Path(sys.argv[1]), sys.argv[sys.argv.index("broker") :]
    cost = calibrate()
    watch = Stopwatch()
    install(watch)
    signal.signal(signal.SIGUSR1, lambda *_: watch.restart())
    sys.argv = ["josefine", *arguments]
    from josefine_cli.main import main as run  # its imports bind what `install` has replaced

    try:
        run()
    finally:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        found = {
            "stages": table(watch, cost),
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "measuring_s": sum(watch.entered.values()) * sum(cost) / 1e9,
        }
        output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
