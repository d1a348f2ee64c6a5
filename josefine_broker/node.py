"""The composition root: the only file that knows every side of a broker, and the order of its life.

Start: lock the data directory, bind the addresses, recover metadata (Raft) and logs, register this
broker, and only then accept clients. Stop goes the other way round: no new requests, answers for
those begun, sync and clean mark, unlock. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import random
import socket
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from josefine_broker.base.errors import CorruptData, ErrorCode, Fatal, KafkaError
from josefine_broker.compose import (
    broker_settings,
    connection_limits,
    registration,
    routes,
)
from josefine_broker.config import BrokerConfig, HostPort
from josefine_broker.core.changes import At, Change
from josefine_broker.core.controller import Controller, ControllerConfig, Heartbeat
from josefine_broker.core.image import MetadataImage
from josefine_broker.core.parked import Parked
from josefine_broker.handlers.blocks import apply_block
from josefine_broker.handlers.context import Context, new_context
from josefine_broker.handlers.errors import error_response
from josefine_broker.handlers.replication import check_isrs, isr_check_ms
from josefine_broker.handlers.table import API_VERSIONS, APIS
from josefine_broker.hosting import Hosting
from josefine_broker.observe import health_checks, register_metrics
from josefine_broker.shell.admin_http import AdminServer
from josefine_broker.shell.clock import RealClock
from josefine_broker.shell.connection import Host
from josefine_broker.shell.data_dir import DataDirLock, claim, remove_addresses, write_addresses
from josefine_broker.shell.dispatch import Dispatcher
from josefine_broker.shell.files import RealFiles
from josefine_broker.shell.flusher import Flusher
from josefine_broker.shell.log_manager import LogManager
from josefine_broker.shell.metrics import Metrics
from josefine_broker.shell.raft_host import RaftHost, RaftTimings
from josefine_broker.shell.server import Bound, Server, bind
from josefine_broker.shell.ticker import Duty, Ticker
from raft import Block, CorruptStore, Refused

log = logging.getLogger(__name__)

FLUSH_CHECK_MS = 100
IDLE_CHECKS_PER_TIMEOUT = 8
HIGH_WATERMARK_CHECK_MS = 5_000
PRODUCER_EXPIRY_CHECK_MS = 600_000
Say = Callable[[str], None]


class Node:
    """One broker. `start` once, then `stop` (graceful) or `abandon` (after a failure)."""

    def __init__(self, config: BrokerConfig, on_fatal: Callable[[], None]) -> None:
        """`on_fatal` is called when the broker must be stopped; `fatal` then says why."""
        self.config = config
        self.fatal: BaseException | None = None
        self._on_fatal = on_fatal
        self._clock = RealClock()
        self._metrics = Metrics()
        self._undo = AsyncExitStack()
        """What was started, to be stopped in reverse order."""
        self._server: Server | None = None
        self._stops_cleanly = False

    async def start(self, say: Say) -> None:
        """Recover and serve; `say` gets each line for the user. Raises BindError, DataDirError,
        CorruptData, OSError, Fatal: then `abandon` what was begun."""
        directory = self.config.broker.data_dir
        self._undo.callback(DataDirLock(directory).release)
        remove_addresses(directory)
        identity = claim(directory, self.config.broker.id, _new_cluster_id())
        bound = [self._bind(*listener) for listener in self.config.broker.listeners]
        admin = self.config.admin.address
        admin_bound = None if admin is None else self._bind("admin", *admin)
        manager, hosting = self._open_logs()
        raft_port = _RaftPort()
        ctx = self._context(hosting, raft_port, identity.cluster_id)
        raft_host = await self._start_raft(ctx, identity.cluster_id, say)
        raft_port.host = raft_host
        await self._register(ctx, raft_host, bound, clean=manager.clean_shutdown)
        _say_recovered(manager, say)
        for (topic, index), reason in ctx.unopened.items():
            say(f"offline: {topic}-{index}: {reason}")
        await self._serve(ctx, hosting, bound)
        await self._start_admin(ctx, manager, raft_host, admin_bound)
        self._announce(bound, admin_bound, say)

    async def stop(self) -> None:
        """Answer what is in flight, then sync and mark the shutdown clean. Raises OSError."""
        assert self._server is not None, "start() first"
        unanswered = await self._server.stop(self.config.network.shutdown_timeout_ms / 1_000)
        if unanswered:
            log.warning("requests left unanswered", extra={"connections": unanswered})
        self._stops_cleanly = True
        await self._undo.aclose()

    async def abandon(self) -> None:
        """Let go of everything without a clean mark: the next start checks the data."""
        await self._undo.aclose()

    # Steps of the start, in order. Each leaves in `_undo` how it is taken back.

    def _bind(self, name: str, host: str, port: int) -> Bound:
        bound = bind(name, host, port)
        self._undo.callback(bound.socket.close)
        return bound

    def _open_logs(self) -> tuple[LogManager, Hosting]:
        loop = asyncio.get_running_loop()

        def failed(error: BaseException) -> None:  # on the flusher's thread
            loop.call_soon_threadsafe(_disk_job_failed, error)

        flusher = Flusher(failed)
        files = RealFiles(self.config.broker.data_dir)
        manager = LogManager(files, schedule=flusher.submit)
        hosting = Hosting(manager, self._clock)
        self._undo.push_async_callback(self._close_logs, flusher, hosting)
        return manager, hosting

    async def _close_logs(self, flusher: Flusher, hosting: Hosting) -> None:
        await asyncio.to_thread(flusher.stop)
        if self._stops_cleanly:
            hosting.close(-1)

    def _context(self, hosting: Hosting, raft_port: _RaftPort, cluster_id: str) -> Context:
        return new_context(
            broker_id=self.config.broker.id,
            image=MetadataImage(cluster_id=cluster_id),
            clock=self._clock,
            rng=random.SystemRandom(),
            raft=raft_port,
            logs=hosting,
            settings=broker_settings(self.config),
            data_directory=str(self.config.broker.data_dir.absolute()),
        )

    async def _start_raft(self, ctx: Context, cluster_id: str, say: Say) -> RaftHost:
        config = self.config.raft
        raft_host = RaftHost(
            self.config.broker.data_dir / "raft",
            node_id=self.config.broker.id,
            voters=[self.config.broker.id],
            cluster_id=cluster_id,
            clock=self._clock,
            rng=random.Random(),
            on_block=lambda block: self._apply(ctx, block),
            timings=RaftTimings(
                heartbeat_ms=config.heartbeat_timeout_ms,
                election_timeout_ms=config.election_timeout_ms,
            ),
        )
        raft_host.on_failure = self._failed
        self._undo.push_async_callback(raft_host.stop)
        try:
            await raft_host.start()
        except CorruptStore as error:
            raise CorruptData(f"metadata: {error}") from error
        if raft_host.recovered is not None:
            say(f"metadata: {raft_host.recovered.report()}")
        return raft_host

    def _apply(self, ctx: Context, block: Block) -> None:
        try:
            apply_block(ctx, block.payload, At(*block.id))
        except Fatal as error:  # the task that calls us would only keep it for whoever awaits it
            self._failed(error)
            raise

    async def _register(
        self, ctx: Context, raft_host: RaftHost, bound: Sequence[Bound], *, clean: bool
    ) -> None:
        """Register this incarnation; as the sole voter, unfence it too."""
        config = self.config.broker
        known = ctx.image.brokers.get(config.id)
        register = registration(config.id, bound, config.advertised_listeners, socket.gethostname())
        register = replace(
            register,
            incarnation=uuid.uuid4().hex,
            clean=clean,
            previous_epoch=-1 if known is None else known.epoch,
        )
        ctx.incarnation = register.incarnation
        await self._commit(ctx, register)
        controller = Controller(config.id, ControllerConfig())
        status = raft_host.status()
        controller.lead(status.term, ctx.image, self._clock.monotonic_ms())
        while not ctx.image.is_live(config.id):
            now_ms = self._clock.monotonic_ms()
            epoch = ctx.image.brokers[config.id].epoch
            beat = Heartbeat(broker_id=config.id, broker_epoch=epoch, applied_height=epoch)
            controller.heartbeat(beat, ctx.image, now_ms)
            decision = controller.decide(ctx.image, now_ms)
            assert decision is not None, "a fenced broker that is heard is unfenced"
            await self._commit(ctx, decision)

    async def _commit(self, ctx: Context, change: Change) -> None:
        """Propose and wait. Raises OSError."""
        timeout_ms = self.config.raft.proposal_timeout_ms
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        proposal = ctx.propose(change, deadline_ms)
        waiting = ctx.answer_when_settled([proposal], deadline_ms, lambda: None)
        if isinstance(waiting, Parked):
            settled = asyncio.Event()
            waiting.on_done = lambda _: settled.set()
            try:
                await asyncio.wait_for(settled.wait(), timeout_ms / 1_000)
            except TimeoutError as error:
                raise OSError(f"this broker was not registered within {timeout_ms} ms") from error
        if proposal.error is not None:
            raise OSError(f"this broker was not registered: {proposal.error}")

    async def _serve(self, ctx: Context, hosting: Hosting, bound: Sequence[Bound]) -> None:
        network = self.config.network
        ticker = Ticker(self._clock, ctx.parked, self._duties(ctx, hosting), self._failed)
        dispatcher = Dispatcher(
            routes(ctx, APIS, self._metrics),
            lambda header, body, error: error_response(
                header.api_key, header.api_version, body, error
            ),
            API_VERSIONS.unsupported_version,
            self._metrics.connections,
        )
        host = Host(
            dispatcher=dispatcher,
            limits=connection_limits(self.config),
            stats=self._metrics.connections,
            on_parked=ticker.arm,
            forget=ctx.parked.forget,
            on_fatal=self._failed,
            monotonic_ms=self._clock.monotonic_ms,
        )
        self._server = Server(
            host,
            connections_max=network.connections_max,
            idle_timeout_ms=network.idle_timeout_ms,
        )
        self._undo.push_async_callback(self._server.stop, 0)
        await self._server.start(bound)
        self._undo.callback(ticker.stop)
        ticker.start()

    def _duties(self, ctx: Context, hosting: Hosting) -> tuple[Duty, ...]:
        idle_ms = max(1, self.config.network.idle_timeout_ms // IDLE_CHECKS_PER_TIMEOUT)
        return (
            Duty("flush", FLUSH_CHECK_MS, hosting.flush_due),
            Duty("retention", self.config.log.retention_check_interval_ms, hosting.apply_retention),
            Duty("high watermarks", HIGH_WATERMARK_CHECK_MS, hosting.checkpoint_high_watermarks),
            Duty("in-sync replicas", isr_check_ms(ctx), lambda: check_isrs(ctx)),
            Duty("producers", PRODUCER_EXPIRY_CHECK_MS, hosting.expire_producers),
            Duty("idle connections", idle_ms, self._close_idle),
        )

    def _close_idle(self) -> None:
        assert self._server is not None
        self._server.close_idle(self._clock.monotonic_ms())

    async def _start_admin(
        self, ctx: Context, manager: LogManager, raft_host: RaftHost, bound: Bound | None
    ) -> None:
        assert self._server is not None
        register_metrics(self._metrics, ctx, manager, self._server)
        if bound is None:
            return
        checks = health_checks(ctx, raft_host, self._server, self.config.broker.data_dir)
        identity = {"broker_id": ctx.broker_id, "cluster_id": ctx.image.cluster_id}
        admin = AdminServer(self._metrics, checks, identity)
        self._undo.push_async_callback(admin.stop)
        await admin.start(bound.socket)

    def _announce(self, bound: Sequence[Bound], admin_bound: Bound | None, say: Say) -> None:
        directory = self.config.broker.data_dir
        listeners = {each.name: str(HostPort(each.host, each.port)) for each in bound}
        admin_url = None
        if admin_bound is not None:
            admin_url = f"http://{HostPort(admin_bound.host, admin_bound.port)}"
            say(f"health and metrics on {admin_url}")
        for address in listeners.values():
            say(f"listening on {address}")
        self._undo.callback(remove_addresses, directory)
        write_addresses(directory, {"pid": os.getpid(), "listeners": listeners, "admin": admin_url})

    def _failed(self, error: BaseException) -> None:
        """A broken invariant: stop serving from state that is not what it says it is."""
        if self.fatal is None:
            self.fatal = error
            log.error("broken invariant", exc_info=error)
            self._on_fatal()


class _RaftPort:
    """`handlers.context.RaftPort` over the host, which comes after the context it applies to."""

    host: RaftHost

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        try:
            return self.host.propose(payload, deadline_ms)
        except Refused as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error


def _new_cluster_id() -> str:
    """22 characters, in the form of Kafka's own cluster ids."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")


def _say_recovered(manager: LogManager, say: Say) -> None:
    if not manager.clean_shutdown:
        say(f"unclean shutdown: {len(manager)} partitions checked")
    for line in manager.recovery_lines:
        say(f"recovered {line}")


def _disk_job_failed(error: BaseException) -> None:
    """The log it belongs to knows and refuses further writes; here it is only told."""
    log.error("disk job failed", exc_info=error)
