"""The host of the engine's `Broker` on asyncio: passes it bytes and time, stores, sends, reports.
Decides nothing.

Rules: all work of the broker runs on the event loop, soon after its cause, once for all inputs that
arrived by then. Every write and fsync of the chain runs on one thread, in order, so that the loop
never waits for a disk. A failed write or a broken invariant ends the host for good: `failure` holds
the reason.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter_ns

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.ports import Clock
from josefine_broker.engine import events as e
from josefine_broker.engine.broker import Broker, EngineConfig
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.frames import Frame, FrameError, Hello
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import decode_said, encode_said
from josefine_broker.engine.metadata.changes import RegisterBroker
from josefine_broker.engine.ports import LogsPort
from josefine_broker.host.alarm import Alarm
from josefine_broker.host.damaged_metadata import (
    OpenedMetadata,
    after_damage,
    let_in,
    open_metadata,
)
from josefine_broker.host.latencies import Latencies
from josefine_broker.host.net.server import Bound
from josefine_broker.host.peers.raft_connection import PeerError
from josefine_broker.host.peers.raft_tls import RaftTls
from josefine_broker.host.peers.raft_transport import RaftTransport, Reply
from raft import BlockFile, CorruptStore, InvariantBroken, StoreFailed, StoreFull

log = logging.getLogger(__name__)

BOOK_FILE = "raft.peers.json"
CATCH_UP_SECONDS = 30.0
"""At a start the committed blocks are applied within this time; only a full disk takes longer."""
WAIT_NOTICE_SECONDS = 3.0
"""A start that waits this long for other brokers logs it, again when it waits for others."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Callbacks into the rest of the process."""

    on_image: Callable[[], None] = lambda: None
    """The metadata image changed."""
    on_parked: Callable[[], None] = lambda: None
    """Requests may have been parked."""
    on_failed: Callable[[BaseException], None] = lambda _: None
    """This broker must stop; the argument is the reason."""


class EngineHost:
    """`open`, `start`, `enrol`; `leave`, `stop`. One per process, on one event loop."""

    def __init__(
        self,
        config: EngineConfig,
        *,
        data_dir: Path,
        metadata_dir: Path,
        clock: Clock,
        rng: Random,
        logs: LogsPort,
        peer_timeout_ms: int,
        peer_queue_bytes_max: int,
        book: AddressBook | None = None,
        on_belongs: Callable[[str], None] = lambda _: None,
        raft_tls: RaftTls | None = None,
    ) -> None:
        """`book` has the configured addresses; those stored in `data_dir` are added. `on_belongs`
        stores the cluster's id permanently; its errors end the broker. Without `raft_tls` the
        brokers' Raft is plaintext."""
        self.failure: BaseException | None = None
        """The reason why the host stopped by itself."""
        self.broker: Broker
        """Set by `open`."""
        self._config = config
        self._metadata_dir = metadata_dir
        self._book_path = data_dir / BOOK_FILE
        self._book = book or AddressBook()
        self._clock = clock
        self._rng = rng
        self._logs = logs
        self._on_belongs = on_belongs
        self._hooks = Hooks()
        self._say: Say | None = None
        """Shows the progress of a start to the user."""
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft-disk")
        self._store: BlockFile | None = None
        self._storing: asyncio.Task[None] | None = None
        self.stores = Latencies()
        """Latency of synced writes of the chain."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(clock, self._pump)
        self._moved = asyncio.Event()
        """Set after each round of work."""
        self._is_due = False
        self._stopped = False
        # The lambdas read `self.broker` when they are called: only `open` sets it, and the broker
        # needs this transport.
        self.transport = RaftTransport(
            hello=lambda to: self.broker.hello(to),
            book=self._book,
            rng=rng,
            take=self._take,
            timeout_ms=peer_timeout_ms,
            queue_bytes_max=peer_queue_bytes_max,
            admit=lambda peer: self.broker.why_not_admitted(
                peer, self.transport.address_of(peer.node_id)
            ),
            is_known=lambda peer: self.broker.peers.knows(peer),
            on_greeted=lambda peer, was_dialed: self._step(e.Greeted(peer, was_dialed)),
            tls=raft_tls,
        )
        self.transport.on_refused = lambda _peer, reason: self._step(e.TurnedAway(reason))
        self.transport.on_gone = lambda: self._step(e.PeersGone(self.transport.gone()))

    # -- start and stop

    async def open(self) -> OpenedMetadata:
        """Read the chain and the address book, and create the broker, which does nothing yet.

        Raises CorruptData, DataDirError, OSError.
        """
        # The book comes first: whether a damaged chain can be repaired depends on other brokers.
        self._load_book()
        loop, config = asyncio.get_running_loop(), self._config
        own = config.raft.node_id
        opens = partial(
            open_metadata,
            self._metadata_dir,
            own,
            cluster_id=config.cluster_id,
            has_others=bool(config.seeds or self._book.newest().keys() - {own}),
        )
        try:
            opened = await loop.run_in_executor(self._disk, opens)
            self._store = opened.store
            self.broker = Broker(
                after_damage(config, opened) if opened.needs_others else config,
                recovered=opened.recovered,
                book=self._book,
                clock=self._clock,
                rng=self._rng,
                logs=self._logs,
                reach=self.transport,
                on_work=self._soon,
            )
        except CorruptStore as error:
            raise CorruptData(f"metadata: {error}") from error
        return opened

    async def start(self, hooks: Hooks, bound: Bound | None = None) -> None:
        """Run, apply the recovered blocks, and accept other brokers at `bound`.

        Raises DismissedError, OSError, TimeoutError, and Fatal for any other failure.
        """
        self._hooks = hooks
        self._pump()
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self._until(lambda: self.broker.quorum.has_caught_up)
        except TimeoutError as error:
            lacks_room = self.broker.quorum.lacks_room
            why = f": {lacks_room}" if lacks_room else ""
            raise TimeoutError(
                f"the recovered chain was not applied in {CATCH_UP_SECONDS:g} s{why}"
            ) from error
        self._check()
        self.broker.check_cluster()
        if bound is not None and not self._stopped:
            await self.transport.start(bound)

    async def rebuild(self, say: Say) -> None:
        """Wait until the other voters have sent what a damaged chain had; without damage this is
        over at once. Raises as `enrol`."""
        await self._until_so(lambda: self.broker.quorum.is_rebuilt, say)

    async def enrol(
        self,
        registration: RegisterBroker,
        say: Say,
        registered: Callable[[], None],
        started: tuple[str, ...] = (),
    ) -> None:
        """Register this process and wait until the controller has unfenced it. `registered` is
        called as soon as the image shows the broker, fenced or not. `started`: see events.Enrol.

        Raises DismissedError, Fatal for any other failure, and the errors of `registered`.
        """
        self._say = say
        try:
            self._step(e.Enrol(registration, started))
            await self._until_placed((Place.FENCED, Place.SERVING), say)
            registered()
            await self._until_placed((Place.SERVING,), say)
        finally:
            self._say = None

    async def _until_placed(self, places: Sequence[Place], say: Say) -> None:
        await self._until_so(lambda: self.broker.place in places, say)

    async def _until_so(self, is_so: Callable[[], bool], say: Say) -> None:
        """Wait for the condition, and report from time to time what this broker waits for."""
        loop = asyncio.get_running_loop()
        notice_at = loop.time() + WAIT_NOTICE_SECONDS
        said: set[str] = set()
        while True:
            try:
                async with asyncio.timeout_at(notice_at):
                    await self._until(is_so)
            except TimeoutError:
                notice_at += WAIT_NOTICE_SECONDS
                waits = self.broker.describe_wait()
                kind = re.sub("[0-9]+", "", waits)  # log again only if more than numbers changed
                if kind not in said:
                    said.add(kind)
                    say(waits)
                continue
            self._check()
            return

    async def leave(self, timeout_s: float) -> None:
        """Hand over partition leaderships, and Raft's to another voter, as far as time allows."""
        ctx = self.broker.ctx
        if self.broker.enrolment is None or ctx.image.live_brokers() <= {ctx.broker_id}:
            return
        self._step(e.Leave())
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: self.broker.has_left)
        except TimeoutError:
            log.warning("stopping before all leaderships were handed over")

    async def stop(self) -> None:
        """Finish the write in progress, close every connection, release the files."""
        self._stopped = True
        self._moved.set()
        self._alarm.set(None)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._storing is not None:
            await self._storing
        await self.transport.stop()
        if self._store is not None:
            store, self._store = self._store, None
            await asyncio.get_running_loop().run_in_executor(self._disk, store.close)
            self._store_book()
        self._disk.shutdown(wait=False)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Wait until the condition holds or this host has ended."""
        while not (self._stopped or self.failure is not None or is_so()):
            self._moved.clear()
            await self._moved.wait()

    def _check(self) -> None:
        """Raises the host's failure, if it has ended; errors of Raft internals are raised as
        Fatal."""
        failure = self.failure
        if isinstance(failure, StoreFailed | InvariantBroken):
            raise Fatal(str(failure)) from failure
        if failure is not None:
            raise failure

    # -- input

    def _step(self, event: e.Event) -> None:
        """Raises FrameError."""
        try:
            self.broker.step(event)
        except FrameError:
            raise
        except (Exception, Fatal, InvariantBroken) as error:
            self._fail(error)  # half a step is done: the caller, a connection, cannot handle that
        finally:
            self._soon()

    def _take(self, peer: Hello, frame: Frame, reply: Reply) -> None:
        try:
            said = decode_said(frame)
        except FrameError as error:
            raise FrameError(f"broker {peer.node_id} sent {error}") from error
        self._step(e.Heard(peer, said, reply))

    def _soon(self) -> None:
        """Pump in this turn of the loop or the next: once for all inputs until then."""
        if not self._is_due and not self._stopped:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    # -- output

    def _pump(self) -> None:
        self._is_due = False
        if self._stopped or self.failure is not None:
            return
        broker = self.broker
        try:
            broker.tick(self._clock.monotonic_ms())
            self._do(broker.ready())
        except (Exception, Fatal, InvariantBroken) as error:
            self._fail(error)
        if broker.failure is not None:
            self._fail(broker.failure)
        self._moved.set()
        if self.failure is None:
            self._hooks.on_parked()
            self._alarm.set(broker.wake_at_ms())

    def _do(self, ready: e.Ready) -> None:
        if ready.belongs_to:
            self._on_belongs(ready.belongs_to)
            let_in(self._metadata_dir)
        if ready.store is not None:
            self._storing = asyncio.get_running_loop().create_task(self._write(ready.store))
        for send in ready.sends:
            self.transport.send(send.to, *encode_said(send.said))
        for reply in ready.replies:
            assert callable(reply.reply_to)
            reply.reply_to(*encode_said(reply.said))
        for ask in ready.asks:
            self._spawn(self._ask(ask))
        if ready.image_changed:
            self._hooks.on_image()
        if ready.book_changed:
            self._store_book()
        for notice in ready.notices:
            level = logging.WARNING if notice.is_warning else logging.INFO
            log.log(level, notice.message, extra=notice.fields)
            if notice.is_warning and self._say is not None:
                self._say(f"warning: {notice.fields['reason']}")

    async def _write(self, work: e.Store) -> None:
        loop, store = asyncio.get_running_loop(), self._store
        assert store is not None
        began_ns = perf_counter_ns()
        try:
            try:
                write = store.append if work.sync_apart else store.persist
                await loop.run_in_executor(self._disk, write, work.batch)
            except StoreFull as error:
                self._step(e.FoundNoRoom(str(error)))
                return
            self._step(e.Appended())
            if work.sync_apart and work.batch.must_sync:
                await loop.run_in_executor(self._disk, store.sync)
            if work.batch.must_sync:
                self.stores.record(perf_counter_ns() - began_ns)
            self._step(e.Synced())
        except (Exception, Fatal, InvariantBroken) as error:
            self._fail(error)

    async def _ask(self, ask: Ask) -> None:
        kind, body = encode_said(ask.said)
        try:
            frame = await self.transport.ask(
                ask.address, kind, body, ask.timeout_ms / 1_000, ask.to
            )
            self._step(e.Answered(ask.number, decode_said(frame)))
        except (PeerError, FrameError) as error:
            self._step(e.Unanswered(ask.number, str(error)))

    def _fail(self, error: BaseException) -> None:
        """Only the first error counts; later ones are its consequences."""
        if self.failure is None:
            self.failure = error
            self.broker.end(error)
            self._moved.set()
            self._alarm.set(None)
            self._hooks.on_failed(error)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the address book file

    def _load_book(self) -> None:
        """An unreadable book is logged and ignored."""
        try:
            self._book.take(self._book_path.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            extra = {"path": self._book_path, "reason": error}
            log.warning("address book ignored", extra=extra)

    def _store_book(self) -> None:
        """A failed write only means that the next start knows fewer addresses."""
        temporary = self._book_path.with_name(self._book_path.name + ".tmp")
        try:
            temporary.write_bytes(self._book.to_bytes())
            temporary.replace(self._book_path)
        except OSError as error:
            log.warning("address book not stored", extra={"reason": error})
