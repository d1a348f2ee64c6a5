"""The composition root: creates the parts of a broker, starts and stops them in order.

Start: lock the data directory, bind the addresses, recover metadata (Raft) and logs, register this
broker, and only then accept clients. Stop is the reverse: no new requests, answers for started
ones, sync and clean mark, unlock. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from josefine_broker.api.shared.forwarding import FORWARDED_CLIENT_ID
from josefine_broker.api.table import API_VERSIONS
from josefine_broker.base.addresses import HostPort
from josefine_broker.compose.admin import Observed, admin_server, register_all
from josefine_broker.compose.log_storage import LogStorage
from josefine_broker.compose.routes import produce_turn, routes, shortcuts
from josefine_broker.compose.security import Securing
from josefine_broker.compose.settings import (
    configured_book,
    connection_limits,
    engine_config,
    initial_voters,
    named_but_loopback,
    registration,
    slow_validation,
    sweep_ms,
    text_settings,
)
from josefine_broker.compose.tracing import Tracing
from josefine_broker.compose.upkeep import Upkeep
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.config.sections import TEXT_LISTENER
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.groups_host import expire_offsets
from josefine_broker.engine.coordinators.transactions_host import (
    expire_transactions,
    tick_transactions,
)
from josefine_broker.engine.limits.descriptors import Shares
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims
from josefine_broker.engine.metadata_quorum.apply_committed import retry_unopened, to_be_hosted
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.following_next import next_batches
from josefine_broker.engine.replicas.leading import isr_check_ms, isr_steps
from josefine_broker.engine.replicas.synced import log_synced
from josefine_broker.host import log_lines
from josefine_broker.host.clock import RealClock
from josefine_broker.host.disk.data_dir import (
    METADATA_DIR,
    DataDirLock,
    Identity,
    belong,
    claim,
    new_cluster_id,
    remove_addresses,
    write_addresses,
)
from josefine_broker.host.engine_host import EngineHost, Hooks
from josefine_broker.host.escaped_errors import FirstFailure, stop_on_broken_invariants
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.connection_host import Host
from josefine_broker.host.net.server import Bound, Server, bind
from josefine_broker.host.net.text_connection import TextHost
from josefine_broker.host.net.throttling import Throttle
from josefine_broker.host.peers.forwarder import Forwarder
from josefine_broker.host.peers.replicator import Replicator
from josefine_broker.host.peers.text_forwarder import TextForwarder
from josefine_broker.host.replica_manager import Hosting
from josefine_broker.host.slow_start_notice import tell_meanwhile
from josefine_broker.host.ticker import Duty, Ticker
from josefine_broker.host.worker import Worker
from josefine_broker.observe.storage import FailedLogs, look_at_storage
from josefine_broker.text.front import new_front
from josefine_broker.text.session import Session

log = logging.getLogger(__name__)

FLUSH_CHECK_MS = 100
STORAGE_CHECK_MS = 200
"""A fast disk fills the reserve in about this time."""
RETRY_UNOPENED_MS = 1_000
HIGH_WATERMARK_CHECK_MS = 5_000
PRODUCER_EXPIRY_CHECK_MS = 600_000
TRANSACTION_CHECK_MS = 250
"""Delay of transaction timeouts, and of repeated markers."""
Say = Callable[[str], None]


class Node:
    """One broker. `start` once, then `stop` (graceful) or `abandon` (after a failure)."""

    def __init__(
        self, config: BrokerConfig, descriptors: Shares, on_fatal: Callable[[], None]
    ) -> None:
        """`descriptors` are the limits per kind of use; `on_fatal` is called when the broker must
        stop: `fatal` then has the reason. Raises the errors of Securing and Tracing."""
        self.config = config
        self.descriptors = descriptors
        self._failure = FirstFailure(on_fatal)
        self._clock = RealClock()
        self._metrics = Metrics()
        self._undo = AsyncExitStack()
        """Started parts, to be stopped in reverse order."""
        self._server: Server | None = None
        """Set while clients are served."""
        self._engine: EngineHost | None = None
        self._identity: Identity | None = None
        self._securing = Securing(config, os.environ)
        self._tracing = Tracing(config, self._clock)
        self._clean_epoch: int | None = None
        """The broker epoch that a clean stop stores; None: it does not stop cleanly."""

    async def start(self, say: Say) -> None:
        """Recover and serve, with a line for the user at each step. Raises BindError,
        DataDirError, CorruptData, OSError, Fatal: then call `abandon`."""
        stop_on_broken_invariants(asyncio.get_running_loop(), self._failure.note)
        directory = self.config.broker.data_dir
        self._undo.callback(DataDirLock(directory).release)
        remove_addresses(directory)
        self._identity = claim(directory, self.config.broker.id)
        if not self._identity.cluster_id and initial_voters(self.config) == [self.config.broker.id]:
            say(f"{directory} holds nothing yet: a new cluster begins there")
        # Before the recovery, which may take long: an address in use ends the start at once.
        bound = [self._bind(*listener) for listener in self.config.broker.listeners]
        text, text_bound = self.config.text, None
        if text.port is not None:
            text_bound = self._bind(TEXT_LISTENER, text.host, text.port)
        clients = (*bound, *([] if text_bound is None else [text_bound]))
        raft_bound = self._bind("raft", *self.config.raft.listener)
        doubts = [*slow_validation(self.config), *self._securing.warnings(self._clock.now_ms())]
        for warning in (*named_but_loopback((*clients, raft_bound), self.config), *doubts):
            say(f"warning: {warning}")
        admin = self.config.admin.address
        admin_bound = None if admin is None else self._bind("admin", *admin)
        storage = self._open_logs()
        manager, hosting = storage.manager, storage.hosting
        engine = await self._open_engine(hosting, raft_bound, say)
        ctx = engine.broker.ctx
        ctx.ports.tell = log_lines.tell
        self._start_worker(ctx)
        upkeep = self._start_upkeep(ctx, manager, hosting)
        ticker = self._start_ticker(ctx, hosting, upkeep)
        replicator = self._start_replicator(ctx, upkeep)
        self._follow_syncs(storage, ctx, replicator, ticker)
        await engine.start(
            Hooks(
                on_image=replicator.image_changed,
                on_parked=ticker.arm,
                on_failed=self._failure.note,
            ),
            raft_bound,
        )
        server = self._server_of(ctx, ticker)
        seen = Observed(
            *(self.config.broker, engine, manager, upkeep, server, ticker, replicator),
            *(self._securing, self._tracing),
        )
        await self._start_admin(seen, admin_bound)
        await engine.rebuild(say)
        incarnation, this_host = uuid.uuid4().hex, socket.gethostname()
        admin_url = self._admin_url(admin_bound)
        register = registration(self.config, clients, this_host, admin_url, incarnation)
        claims = await _recover_logs(ctx, hosting, say)
        register = replace(
            register,
            clean=manager.has_everything and claims.are_complete,
            logs=claims,
            previous_epoch=manager.previous_epoch,
        )
        marks = manager.marks
        marks.starting(incarnation)
        await engine.enrol(register, say, lambda: marks.running(ctx.broker_epoch), marks.started)
        _say_recovered(manager, say)
        for (topic, index), unopened in ctx.hosted.unopened.items():
            say(f"offline: {topic}-{index}: {unopened.reason}")
        self._securing.follow(ctx)
        await self._serve(server, bound)
        if text_bound is not None:
            await self._serve_text(server, text_bound, ctx, ticker, replicator)
        self._announce(bound, text_bound, admin_bound, say)

    async def stop(self) -> None:
        """Hand over, answer what is in flight, then sync and mark the shutdown clean.

        Raises OSError.
        """
        if self._server is None:  # it never started to serve
            await self.abandon()
            return
        assert self._engine is not None
        await self._engine.leave(self.config.broker.controlled_shutdown_timeout_ms / 1_000)
        unanswered = await self._server.stop(self.config.network.shutdown_timeout_ms / 1_000)
        if unanswered:
            log.warning("requests left unanswered", extra={"connections": unanswered})
        self._clean_epoch = self._engine.broker.ctx.broker_epoch
        await self._undo.aclose()

    async def abandon(self) -> None:
        """Release everything without a clean mark: the next start checks the data."""
        await self._undo.aclose()

    # Steps of the start, in order. Each adds its undo action to `_undo`.

    def _bind(self, name: str, host: str, port: int) -> Bound:
        bound = bind(name, host, port)
        self._undo.callback(bound.socket.close)
        return bound

    def _open_logs(self) -> LogStorage:
        storage = LogStorage(self.config.broker.data_dir, self.descriptors.files, self._clock)
        self._metrics.histogram("fsync_seconds", storage.syncs)
        self._undo.push_async_callback(self._close_logs, storage)
        return storage

    async def _close_logs(self, storage: LogStorage) -> None:
        await storage.stop()
        if self._clean_epoch is not None:
            storage.hosting.close(self._clean_epoch)

    async def _open_engine(self, hosting: Hosting, bound: Bound, say: Say) -> EngineHost:
        config = self.config
        assert self._identity is not None
        engine = self._engine = EngineHost(
            engine_config(
                config, self._identity.cluster_id, new_cluster_id(), bound, socket.gethostname()
            ),
            data_dir=config.broker.data_dir,
            metadata_dir=config.broker.data_dir / METADATA_DIR,
            clock=self._clock,
            rng=random.SystemRandom(),
            logs=hosting,
            peer_timeout_ms=max(2 * config.raft.election_timeout_ms, 1_000),
            peer_queue_bytes_max=config.cluster.peer_queue_bytes_max,
            book=configured_book(config),
            on_belongs=self._belongs,
            raft_tls=self._securing.raft,
        )
        self._undo.push_async_callback(engine.stop)
        opened = await engine.open()
        for line in filter(None, (self._identity.damage, *opened.report())):
            say(line)
        return engine

    def _belongs(self, cluster_id: str) -> None:
        assert self._identity is not None
        self._identity = belong(self.config.broker.data_dir, self._identity, cluster_id)

    def _start_worker(self, ctx: Context) -> None:
        worker, validation = Worker(self._failure.note), Worker(self._failure.note, "validation")
        self._undo.push_async_callback(worker.stop)
        self._undo.push_async_callback(validation.stop)
        self._undo.push_async_callback(self._securing.begin(self._failure.note, self._clock))
        self._undo.push_async_callback(self._tracing.begin(self._failure.note))
        ctx.ports.work, ctx.ports.validation = worker.submit, validation.submit

    def _start_upkeep(self, ctx: Context, manager: LogManager, hosting: Hosting) -> Upkeep:
        upkeep = Upkeep(ctx, manager, hosting, self.config, self._clock, self._failure.note)
        self._undo.push_async_callback(upkeep.stop)
        return upkeep

    def _start_ticker(self, ctx: Context, hosting: Hosting, upkeep: Upkeep) -> Ticker:
        duties = self._duties(ctx, hosting, upkeep)
        ticker = Ticker(self._clock, ctx.parked, duties, self._failure.note)
        self._undo.callback(ticker.stop)
        ticker.start()
        return ticker

    def _start_replicator(self, ctx: Context, upkeep: Upkeep) -> Replicator:
        replicator = Replicator(
            ctx,
            partial(hear, ctx),
            self._clock,
            random.Random(),
            ctx.settings.replica_fetch,
            self.config.inter_broker_listener,
            self._failure.note,
            self._securing.to_peers,
            partial(next_batches, ctx),
        )
        self._undo.push_async_callback(replicator.stop)
        upkeep.on_role = replicator.image_changed
        forwarder = Forwarder(
            replicator.address_of, FORWARDED_CLIENT_ID, self._clock, self._securing.to_peers
        )
        self._undo.push_async_callback(forwarder.stop)
        ctx.ports.forward = forwarder.ask
        return replicator

    def _follow_syncs(
        self, storage: LogStorage, ctx: Context, replicator: Replicator, ticker: Ticker
    ) -> None:
        def within(hear: Callable[[], None]) -> None:
            ticker.answering(hear)
            replicator.image_changed()  # a follower has something to acknowledge
            ticker.arm()

        storage.when_synced(partial(log_synced, ctx), within, self._failure.note)

    def _server_of(self, ctx: Context, ticker: Ticker) -> Server:
        network = self.config.network
        dispatcher = self._tracing.dispatcher(
            routes(ctx, self._metrics),
            API_VERSIONS.unsupported_version,
            self._metrics.connections,
            Throttle(lambda: ctx.image.quotas, self._clock.monotonic_ms, self._metrics.throttles),
            **shortcuts(ctx, self._metrics, self._tracing),
        )
        host = Host(
            dispatcher=dispatcher,
            limits=connection_limits(self.config),
            stats=self._metrics.connections,
            on_parked=ticker.arm,
            forget=ctx.parked.cancel,
            on_fatal=self._failure.note,
            monotonic_ms=self._clock.monotonic_ms,
            turn=produce_turn(
                ctx, self._metrics, self._tracing, self._failure.note, ticker.answering
            ),
        )
        return Server(
            host,
            connections_max=self.descriptors.connections,
            per_address_max=network.connections_per_address_max,
            idle_timeout_ms=network.idle_timeout_ms,
        )

    async def _serve(self, server: Server, bound: Sequence[Bound]) -> None:
        self._server = server
        self._undo.push_async_callback(server.stop, 0)
        await server.start(
            bound,
            self._securing.by_listener,
            self._securing.authentication,
            self._securing.nameless,
        )

    async def _serve_text(
        self, server: Server, bound: Bound, ctx: Context, ticker: Ticker, replicator: Replicator
    ) -> None:
        forwarder = TextForwarder(
            partial(replicator.address_of, listener=TEXT_LISTENER),
            self._clock,
            self._securing.to_text,
        )
        self._undo.push_async_callback(forwarder.stop)
        front = new_front(ctx, text_settings(self.config), forwarder.say)
        host = TextHost(
            new_session=lambda: Session(front),
            stats=self._metrics.connections,
            write_buffer_bytes=self.config.network.write_buffer_bytes,
            on_parked=ticker.arm,
            forget=ctx.parked.cancel,
            on_fatal=self._failure.note,
        )
        await server.start_text(bound, host, self._securing.text)

    def _duties(self, ctx: Context, hosting: Hosting, upkeep: Upkeep) -> tuple[Duty, ...]:
        broker, failed = self.config.broker, FailedLogs(hosting.files)
        return (
            Duty("flush", FLUSH_CHECK_MS, hosting.flush_due),
            *upkeep.duties(),
            Duty("high watermarks", HIGH_WATERMARK_CHECK_MS, hosting.checkpoint_high_watermarks),
            Duty("storage", STORAGE_CHECK_MS, lambda: look_at_storage(ctx, broker, failed)),
            Duty("unopened", RETRY_UNOPENED_MS, lambda: retry_unopened(ctx)),
            Duty("in-sync replicas", isr_check_ms(ctx), lambda: isr_steps(ctx)),
            Duty(
                "offsets retention",
                self.config.offsets.retention_check_interval_ms,
                lambda: expire_offsets(ctx),
            ),
            Duty("producers", PRODUCER_EXPIRY_CHECK_MS, hosting.expire_producers),
            Duty("transactions", TRANSACTION_CHECK_MS, lambda: tick_transactions(ctx)),
            Duty(
                "transactional ids",
                PRODUCER_EXPIRY_CHECK_MS,
                lambda: expire_transactions(ctx),
            ),
            Duty("idle connections", sweep_ms(self.config), self._close_idle),
            Duty("TLS files", self.config.tls.reload_check_ms, self._securing.reload_changed),
            *self._tracing.duties(),
        )

    def _close_idle(self) -> None:
        if self._server is not None:
            self._server.close_idle(self._clock.monotonic_ms())

    async def _start_admin(self, seen: Observed, bound: Bound | None) -> None:
        register_all(self._metrics, seen)
        if bound is None:
            return
        admin = admin_server(self._metrics, seen)
        self._undo.push_async_callback(admin.stop)
        await admin.start(
            bound.socket, self._securing.admin, partial(seen.server.handshake_failed, "admin")
        )

    def _announce(
        self, bound: Sequence[Bound], text: Bound | None, admin_bound: Bound | None, say: Say
    ) -> None:
        directory = self.config.broker.data_dir
        listeners = {each.name: str(HostPort(each.host, each.port)) for each in bound}
        admin_url = self._admin_url(admin_bound)
        if admin_url is not None:
            say(f"health and metrics on {admin_url}")
        for address in listeners.values():
            say(f"listening on {address}")
        addresses = {"pid": os.getpid(), "listeners": listeners, "admin": admin_url}
        if text is not None:
            addresses["text"] = str(HostPort(text.host, text.port))
            say(f"text protocol on {addresses['text']}")
        self._undo.callback(remove_addresses, directory)
        write_addresses(directory, addresses)

    def _admin_url(self, bound: Bound | None) -> str | None:
        scheme = "https" if self.config.admin.tls else "http"
        return None if bound is None else f"{scheme}://{HostPort(bound.host, bound.port)}"

    @property
    def fatal(self) -> BaseException | None:
        """Why the broker must stop, once `on_fatal` was called."""
        return self._failure.error


async def _recover_logs(ctx: Context, hosting: Hosting, say: Say) -> LogClaims:
    """Open the logs of this broker's replicas; returns what they lack."""
    # In a thread: the loop must answer other brokers, and after a crash this reads all data.
    wanted = list(to_be_hosted(ctx))
    claims = await tell_meanwhile(
        asyncio.to_thread(hosting.prepare, wanted),
        say,
        lambda: f"recovering logs: {hosting.prepared} of {len(wanted)} partitions read",
    )
    _say_doubts(ctx, claims, say)
    return claims


def _say_recovered(manager: LogManager, say: Say) -> None:
    if not manager.clean_shutdown:
        say(f"unclean shutdown: {len(manager)} partitions checked")
    for line in manager.recovery_lines:
        say(f"recovered {line}")


def _say_doubts(ctx: Context, claims: LogClaims, say: Say) -> None:
    """Report the logs of this broker that are in doubt."""
    for tp, topic_id, *_ in to_be_hosted(ctx):
        found = claims.of((topic_id, tp.partition))
        if found is not Completeness.COMPLETE:
            say(f"in doubt: {tp} is {found.value}: it counts again once it has copied its leader")
