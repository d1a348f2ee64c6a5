"""The table writer's process: one thread per table, and a member of the writers' group.

Rules: a table's thread has its own client, so a slow table delays no other; an error of the world
lets the thread try again after a pause, a verdict stops that table until a person has resolved it,
which the thread looks for now and then; the main thread discovers table topics, sends heartbeats
and commits the group's offsets. A table whose lease went to another process is left without a
commit: that process continues at the chain's end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import membership
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.membership import MemberSettings, Membership
from josefine_lake.config.leases import GROUP, LEASES, leased
from josefine_lake.config.table_topic import TableTopic, table_topic
from josefine_lake.report.table_stats import ProcessStats, TableStats
from josefine_lake.writer.discovery import Discovered, Parse, discover
from josefine_lake.writer.once import FAILURES
from josefine_lake.writer.table_writer import TableWriter
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import monotonic_ms, world_of
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import Verdict

LOOK_MS = 1_000
"""How often new table topics and new partitions are looked for."""
CONFIGS_MS = 3_000
"""How often the configs of all topics are read."""
LOOK_SHARE = 20
"""A look is followed by a pause of at least so many times its duration: a cluster with many topics
is looked at less often."""
BEAT_S = 0.25
"""How often the main thread looks at its duties."""
PAUSES_MS = (500, 30_000)
"""The first and the longest pause before a table is tried again; each is twice the one before."""
STOP_S = 3.0
"""How long a thread is waited for before its client is closed, which ends any wait for brokers."""
LEAVE_MS_MAX = 2_000
JOIN_MS_MAX = 60_000
HEARTBEATS = 4
"""In a session timeout."""
AGAIN = {Verdict.LOST_RACE, Verdict.TOPIC_SHORTER}
"""Verdicts that a lease that moved, or brokers that recover, resolve without a person."""

Report = Callable[[str], None]


class Offsets:
    """The offsets that tables have reached, for the group. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[TopicPartition, int] = {}

    def reached(self, offsets: ByPartition) -> None:
        """A table has committed up to these offsets."""
        with self._lock:
            self._waiting.update(offsets)

    def returned(self, offsets: ByPartition) -> None:
        """Offsets that could not be stored, unless a table has gone further meanwhile."""
        with self._lock:
            self._waiting = {**offsets, **self._waiting}

    def take(self) -> dict[TopicPartition, int]:
        """Those since the last call."""
        with self._lock:
            found, self._waiting = self._waiting, {}
        return found


class TableThread:
    """The thread of one table. Mutable."""

    def __init__(
        self,
        table: TableTopic,
        open_client: Callable[[], BlockingClient],
        env: Mapping[str, str],
        offsets: Offsets,
        report: Report,
        stats: TableStats,
        pauses_ms: tuple[int, int] = PAUSES_MS,
    ) -> None:
        self.table = table
        self._stats = stats
        self._pauses_ms = pauses_ms
        self._open_client = open_client
        self._env = env
        self._offsets = offsets
        self._report = report
        self._stopping = threading.Event()
        self._client: BlockingClient | None = None
        self._thread = threading.Thread(target=self._run, name=f"table {table.topic}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask it to end; a fetch under way is cut off."""
        self._stopping.set()

    def join(self, until_ms: int) -> None:
        """Wait until it has ended, from a time on with its client closed."""
        self._thread.join(timeout=max(0, until_ms - monotonic_ms()) / 1000)
        if self._thread.is_alive() and self._client is not None:
            self._client.close()
            self._thread.join(timeout=STOP_S)

    def _write(self, client: BlockingClient) -> None:
        """Until the end. Raises what a TableWriter raises."""
        world = world_of(self.table, client, self._env, self._offsets.reached, self._stats)
        TableWriter(self.table, world).run(self._stopping.is_set)

    def _run(self) -> None:
        """Write; after a failure of the world or a verdict pause and start again."""
        pause_ms, failed = self._pauses_ms[0], ""
        while not self._stopping.is_set():
            began_ms, what_next = monotonic_ms(), "; the writer tries again"
            try:
                with self._open_client() as self._client:
                    self._write(self._client)
                return
            except StoppedTable as error:
                why = str(error)
                if error.stopped.verdict not in AGAIN:
                    # A person decides. A start writes nothing until then, and continues after it.
                    pause_ms, what_next = self._pauses_ms[1], ""
            except (KafkaError, CorruptData, *FAILURES) as error:
                why = f"table of topic `{self.table.topic}`: {error}"
            except Exception as error:
                # A thread that ended here would keep its lease, and no process would write.
                why = f"table of topic `{self.table.topic}`: {type(error).__name__}: {error}"
            if not self._stopping.is_set():
                self._stats.failed(why, is_stopped=not what_next)
                # The same reason is reported once, not at every attempt.
                if why != failed:
                    self._report(why + what_next)
            failed = why
            if what_next and monotonic_ms() - began_ms > self._pauses_ms[1]:
                pause_ms = self._pauses_ms[0]
            self._stopping.wait(pause_ms / 1000)
            pause_ms = min(2 * pause_ms, self._pauses_ms[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the tables of a process are. `leases`: the group whose members are the processes;
    `parse`: a topic's table by its configs; `thread`: the class of its threads."""

    leases: str = LEASES
    parse: Parse = table_topic
    thread: type[TableThread] = TableThread


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`topics`: only these; empty: all table topics."""

    topics: tuple[str, ...]
    env: Mapping[str, str]
    session_timeout_ms: int = 10_000
    service: Service = field(default_factory=Service)

    @property
    def member(self) -> MemberSettings:
        """The settings of this process in the writers' group."""
        return MemberSettings(
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=2 * self.session_timeout_ms,
            heartbeat_ms=self.session_timeout_ms // HEARTBEATS,
        )


class Process:
    """All tables of this process. Mutable; one thread uses it."""

    def __init__(
        self,
        wanted: Wanted,
        open_client: Callable[[], BlockingClient],
        report: Report,
        stats: ProcessStats | None = None,
    ) -> None:
        self._wanted = wanted
        self._stats = stats or ProcessStats()
        self._open_client = open_client
        self._report = report
        self._client = open_client()
        self._member = Membership(wanted.service.leases, (), wanted.member)
        self._found = Discovered()
        self._joined: dict[str, int] = {}
        """Table topic → number of partitions when the group was last joined."""
        self._owned: frozenset[str] = frozenset()
        self._threads: dict[str, TableThread] = {}
        self._offsets = Offsets()
        self._due_ms = dict.fromkeys(("look", "configs", "heartbeat"), 0)

    def run(self, stopping: threading.Event) -> None:
        """Until `stopping`. Brokers that do not answer are waited for."""
        left = threading.Event()
        # Brokers that do not answer must not delay the end.
        threading.Thread(target=self._cut_off, args=(stopping, left), daemon=True).start()
        try:
            while not stopping.is_set():
                with suppress(KafkaError):
                    self._beat(monotonic_ms())
                stopping.wait(BEAT_S)
        finally:
            left.set()
            self._end(list(self._threads))
            with suppress(KafkaError):
                self._commit(LEAVE_MS_MAX)
                self._client.run(
                    lambda s, t, d: membership.leave(s, self._member, t, d),
                    timeout_ms=LEAVE_MS_MAX,
                )
            self._client.close()

    def _cut_off(self, stopping: threading.Event, left: threading.Event) -> None:
        """Once `stopping`, close the client if its wait lasts too long."""
        stopping.wait()
        if not left.wait(STOP_S):
            self._client.close()

    def _beat(self, now_ms: int) -> None:
        if now_ms >= self._due_ms["look"]:
            self._due_ms["look"] = now_ms + LOOK_MS
            self._look(now_ms)
            spent_ms = monotonic_ms() - now_ms
            self._due_ms["look"] = now_ms + max(LOOK_MS, LOOK_SHARE * spent_ms)
        self._follow()
        if self._member.is_of_a_generation and now_ms >= self._due_ms["heartbeat"]:
            self._due_ms["heartbeat"] = now_ms + self._member.settings.heartbeat_ms
            if not self._client.run(lambda s, t, d: membership.heartbeat(s, self._member, t, d)):
                self._join()
        self._commit()

    def _look(self, now_ms: int) -> None:
        """Discover table topics."""
        reads_all = now_ms >= self._due_ms["configs"]
        known = None if reads_all else self._found
        found = discover(self._client, self._wanted.topics, known, self._wanted.service.parse)
        if reads_all:
            self._due_ms["configs"] = now_ms + CONFIGS_MS
        for topic, what in found.wrong.items():
            if self._found.wrong.get(topic) != what:
                self._report(f"topic `{topic}`: {what}")
        self._found = found
        self._stats.refused, self._stats.connected_ms = found.wrong, monotonic_ms()
        self._settle()

    def _follow(self) -> None:
        """Join the group again if the table topics or their partitions are not those of the last
        join, or if there is no generation; until that succeeds, at every beat."""
        counts = self._found.counts
        self._member.topics = tuple(sorted(counts))
        if not counts:
            self._joined, self._owned = {}, frozenset()
            self._settle()
        elif counts != self._joined or not self._member.is_of_a_generation:
            # Another count moves the lease to another partition: the leader has to assign again.
            self._join()

    def _join(self) -> None:
        """Join the group's next generation and take the leases of its assignment."""
        given = self._client.run(
            lambda s, t, d: membership.join(s, self._member, t, d), timeout_ms=JOIN_MS_MAX
        )
        self._joined = dict(self._found.counts)
        self._owned = leased(given, self._joined)
        self._settle()

    def _settle(self) -> None:
        """Threads for exactly the owned tables, with their current configs."""
        wanted = {t: self._found.tables[t] for t in self._owned if t in self._found.tables}
        old = [t for t, each in self._threads.items() if wanted.get(t) != each.table]
        self._end(old)
        for topic in old:
            if topic not in wanted:
                self._stats.remove(topic)
        for topic, table in wanted.items():
            if topic not in self._threads:
                self._threads[topic] = self._wanted.service.thread(
                    table,
                    self._open_client,
                    self._wanted.env,
                    self._offsets,
                    self._report,
                    self._stats.table(topic, table.target_lag_ms),
                )

    def _end(self, topics: Iterable[str]) -> None:
        ended = [self._threads[topic] for topic in topics]
        for each in ended:
            each.end()
        until_ms = monotonic_ms() + int(STOP_S * 1000)
        for each in ended:
            each.join(until_ms)
            del self._threads[each.table.topic]

    def _commit(self, timeout_ms: int | None = None) -> None:
        """Store the offsets that tables have reached; after a failure, at the next beat."""
        offsets = self._offsets.take()
        if not offsets:
            return
        try:
            self._client.commit_offsets(GROUP, offsets, timeout_ms=timeout_ms)
        except KafkaError:
            self._offsets.returned(offsets)
            raise
