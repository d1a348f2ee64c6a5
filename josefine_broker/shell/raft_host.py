"""Hosts a Raft node in asyncio: passes time, persists, applies, tells outcomes. Decides nothing.

Rules (the order is that of raft/README.md): one task owns the node's work; every write and fsync
runs in one thread, in order, so that the event loop never waits for a disk; a committed block is
applied on the event loop, in order, once; a proposal's token ends after its block is applied; a
message leaves after the batch it depends on is durable. On a full disk all of it waits for room,
as for a slow disk. When the store fails, or a rule of Raft is broken, the host stops for good:
every open token ends UNKNOWN and `failure` says why.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from josefine_broker.base.errors import Fatal
from josefine_broker.base.ports import Clock
from josefine_broker.shell.lasting import Lasting
from raft import (
    GENESIS,
    Batch,
    Block,
    BlockFile,
    BlockId,
    BlockKind,
    Config,
    CorruptBlock,
    DiskFiles,
    Follower,
    InvariantBroken,
    Members,
    Message,
    Node,
    NodeId,
    Ready,
    Recovered,
    Result,
    Role,
    Status,
    StoreFull,
)
from raft.codec import decode, encode
from raft.messages import Propose

log = logging.getLogger(__name__)

__all__ = ["KnownBlock", "ProposalToken", "RaftHost", "RaftTimings", "Result"]

WhyNot = Callable[[int, bytes | None], str | None]

ROOM_CHECK_MS = 100
"""How often a write is made again that found no room."""

DEAD_KEPT = 200
"""Blocks of dead branches that are remembered for people after the chain has let go of them."""


class KnownBlock(NamedTuple):
    """A block as people look at it."""

    block: Block
    committed: bool
    dead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftTimings:
    """Milliseconds; the election timeout is a lower bound, drawn up to twice it."""

    heartbeat_ms: int = 100
    election_timeout_ms: int = 1000


class ProposalToken:
    """One proposal on its way. Set `on_done` right after `propose`, which never calls it itself."""

    __slots__ = ("block_id", "on_done", "result")

    def __init__(self) -> None:
        self.result: Result | None = None
        """COMMITTED (and applied here), DEAD (safe to propose again) or UNKNOWN; None: open."""
        self.block_id: BlockId | None = None
        self.on_done: Callable[[ProposalToken], None] | None = None

    @property
    def done(self) -> bool:
        return self.result is not None

    def end(self, result: Result, block_id: BlockId | None) -> None:
        assert self.result is None, "a proposal ends once"
        self.result, self.block_id = result, block_id
        if self.on_done is not None:
            self.on_done(self)


class RaftHost:
    """`start`, then `propose`; `status` at any time; `stop`. All on one event loop."""

    def __init__(
        self,
        data_dir: Path,
        *,
        node_id: int,
        voters: Sequence[int],
        cluster_id: str,
        clock: Clock,
        rng: Random,
        on_block: Callable[[Block], None],
        on_snapshot: Callable[[bytes], None] | None = None,
        take_snapshot: Callable[[], bytes] | None = None,
        snapshot_blocks: int = 10_000,
        snapshot_bytes: int = 64 * 1024 * 1024,
        send: Callable[[int, bytes], None] | None = None,
        on_birth: Callable[[str], None] | None = None,
        on_progress: Callable[[], None] | None = None,
        timings: RaftTimings | None = None,
    ) -> None:
        """`cluster_id` is what a new cluster will be called; an old one keeps its own.

        `on_block` gets every committed DATA block, `on_snapshot` the state machine to start from;
        `take_snapshot` is asked for it (never, if None) when so many blocks were applied since the
        last, or so many bytes of payload: a restart applies no more than that again.
        `send` takes a message to a node; it may be lost. `on_birth` gets the cluster id when the
        block that carries it, or a snapshot that has it, is applied; `on_progress` comes after each
        round of work, when role, term, members or applied may be others.
        """
        timings = timings or RaftTimings()
        self._data_dir = data_dir
        self._config = Config(
            node_id=NodeId(node_id),
            initial_voters=tuple(NodeId(voter) for voter in voters),
            cluster_id=cluster_id,
            format=1,
            heartbeat_ms=timings.heartbeat_ms,
            election_timeout_ms=timings.election_timeout_ms,
        )
        self._clock = clock
        self._rng = rng
        self._on_block = on_block
        self._on_snapshot = on_snapshot
        self._take_snapshot = take_snapshot
        self._snapshot_blocks = snapshot_blocks
        self._snapshot_bytes = snapshot_bytes
        self._send = send
        self._on_birth = on_birth
        self._on_progress = on_progress
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raft-disk")
        self._store: BlockFile | None = None
        self._node: Node | None = None
        self._applied = GENESIS
        self._tokens: dict[int, ProposalToken] = {}
        self._wake = asyncio.Event()
        self._progressed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.failure: BaseException | None = None
        """Why the host stopped by itself."""
        self.lacks_room = ""
        """Why nothing can be written just now; empty while all is well."""
        self.on_failure: Callable[[BaseException], None] | None = None
        self.terms_seen = 0
        """Elections that this node took part in or heard of, for the metrics."""
        self.dead_blocks = 0
        self._dead: deque[Block] = deque(maxlen=DEAD_KEPT)
        self._term = 0
        self.recovered: Recovered | None = None
        """What the last start found; `recovered.report()` is a line for the log."""

    async def start(self, timeout_ms: int = 30_000) -> None:
        """Recover and run; return when the recovered chain is applied.

        A sole voter applies its whole chain, having won its election; with other voters it is the
        chain up to the recovered commit. Raises what recovery raises, or TimeoutError.
        """
        loop = asyncio.get_running_loop()
        store, self.recovered = await loop.run_in_executor(self._disk, self._open_store)
        self._store = store
        self._node = Node(
            self._config, self.recovered, now_ms=self._clock.monotonic_ms(), rng=self._rng
        )
        self._task = loop.create_task(self._run(self._node, store), name="raft")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not self._has_caught_up():
                    self._progressed.clear()
                    await self._progressed.wait()
        except TimeoutError as error:
            await self.stop()
            why = f": {self.lacks_room}" if self.lacks_room else ""
            raise TimeoutError(
                f"the recovered chain was not applied in {timeout_ms} ms{why}"
            ) from error
        if self.failure is not None:
            await self.stop()
            raise self.failure

    def _open_store(self) -> tuple[BlockFile, Recovered]:
        files = DiskFiles(self._data_dir)
        try:
            return BlockFile.open(files, self._config.node_id)
        except BaseException:
            files.close()
            raise

    def _has_caught_up(self) -> bool:
        if self.failure is not None:
            return True
        assert self.recovered is not None
        status = self.status()
        if status.members.voters == {status.node_id}:
            return status.role is Role.LEADER and status.applied == status.head
        return status.applied.height >= self.recovered.state.commit.height

    def propose(self, payload: bytes, deadline_ms: int) -> ProposalToken:
        """Ask for a block; the token ends by `deadline_ms` (of `clock.monotonic_ms`) at the latest.

        Raises raft.Refused when the payload is too large or too many proposals are open.
        """
        assert self._node is not None, "start() first"
        token = ProposalToken()
        if self._stopping or self.failure is not None:
            asyncio.get_running_loop().call_soon(token.end, Result.DEAD, None)
            return token
        proposal = self._node.propose(payload, self._clock.monotonic_ms(), deadline_ms)
        self._tokens[proposal.number] = token
        self._wake.set()
        return token

    def change_members(self, members: Members, deadline_ms: int) -> ProposalToken:
        """Propose other members. Raises raft.Refused when this node does not lead, or not now."""
        assert self._node is not None, "start() first"
        proposal = self._node.change_members(members, self._clock.monotonic_ms(), deadline_ms)
        token = self._tokens[proposal.number] = ProposalToken()
        self._wake.set()
        return token

    def forget_progress(self, learner: int) -> None:
        """It came back without its data. Raises raft.Refused."""
        assert self._node is not None, "start() first"
        self._node.forget_progress(NodeId(learner))
        self._wake.set()

    def speak(self, format_: int) -> None:
        """Every node understands messages of this format; before, the first one is sent."""
        if self._node is not None:
            self._node.speak(format_)

    def peer_gone(self, peer: int) -> None:
        """Nobody listens at its port any more: if it leads, another one is elected at once."""
        if self._node is not None and not self._must_end():
            self._node.peer_gone(NodeId(peer), self._clock.monotonic_ms())
            self._wake.set()

    def transfer_leadership(self, to: int) -> None:
        """Let another voter lead. Raises raft.Refused."""
        assert self._node is not None, "start() first"
        self._node.transfer_leadership(NodeId(to), self._clock.monotonic_ms())
        self._wake.set()

    def receive_bytes(self, data: bytes, why_not: WhyNot | None = None) -> None:
        """A message as `send` gave it to another host. Raises raft.CorruptBlock.

        `why_not` judges it by its sender, and by the payload if it is a proposal.
        """
        message = decode(data)
        payload = message.payload if isinstance(message, Propose) else None
        reason = None if why_not is None else why_not(message.sender, payload)
        if reason is not None:
            raise CorruptBlock(reason)
        self.receive(message)

    def receive(self, message: Message) -> None:
        """A message from another node. Raises raft.CorruptBlock: drop the connection."""
        if self._node is None or self._stopping or self.failure is not None:
            return
        try:
            self._node.step(message, self._clock.monotonic_ms())
        except InvariantBroken as error:
            self._fail(error)
            raise
        self._wake.set()

    def followers(self) -> dict[NodeId, Follower]:
        """What the leader knows of every other member; empty elsewhere."""
        assert self._node is not None, "start() first"
        return self._node.followers()

    def status(self) -> Status:
        """The node's, with `applied` being what `on_block` has really seen."""
        assert self._node is not None, "start() first"
        return replace(self._node.status(), applied=self._applied)

    def known_blocks(self) -> Iterator[KnownBlock]:
        """Known blocks above the root and the last dead ones, the newest (highest) first."""
        assert self._node is not None, "start() first"
        chain = self._node.chain
        blocks = {block.id: block for block in self._dead} | {block.id: block for block in chain}
        commit = chain.commit
        for id_ in sorted(blocks, key=lambda each: (each.height, each.term), reverse=True):
            on_path = chain.on_head_path(id_)
            yield KnownBlock(
                blocks[id_],
                committed=on_path and id_.height <= commit.height,
                dead=not on_path and not (chain.knows(id_) and chain.is_live(id_)),
            )

    async def stop(self) -> None:
        """Finish the write under way and release the files. Open tokens end UNKNOWN."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
            self._task = None
        self._end_tokens()
        if self._store is not None:
            store, self._store = self._store, None
            await asyncio.get_running_loop().run_in_executor(self._disk, store.close)
        self._disk.shutdown(wait=False)

    # -- the one task

    async def _run(self, node: Node, store: BlockFile) -> None:
        try:
            while not self._must_end():
                node.tick(self._clock.monotonic_ms())
                while node.has_ready() and not self._must_end():
                    self._take_note(node)
                    await self._do(node, store, node.ready())
                    self._progressed.set()
                    node.tick(self._clock.monotonic_ms())
                await self._sleep(node)
        except (Exception, Fatal, InvariantBroken) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Once: what follows from the first error is not news."""
        if self.failure is not None:
            return
        self.failure = error
        self._wake.set()
        self._end_tokens()
        self._progressed.set()
        if self.on_failure is not None:
            self.on_failure(error)

    def _take_note(self, node: Node) -> None:
        """Of what the next Ready forgets and people want to see. A dead branch is rare, so its
        look over all known blocks does not count."""
        status = node.status()
        if status.term != self._term:
            self.terms_seen += 1
            self._term = status.term
        chain = node.chain
        if chain.has_dead:
            known = {block.id for block in self._dead}
            for block in chain:
                if block.id not in known and not chain.is_live(block.id):
                    self._dead.append(block)

    def _must_end(self) -> bool:
        return self._stopping or self.failure is not None

    async def _do(self, node: Node, store: BlockFile, ready: Ready) -> None:
        """Write; apply; sync; send; advance. See raft.Ready."""
        loop = asyncio.get_running_loop()
        batch = ready.batch
        self.dead_blocks += 0 if batch is None else len(batch.removed)
        # What is to be applied is durable already: it must not wait for the sync of this batch.
        apply_first = bool(ready.committed or ready.outcomes)
        if batch is not None:
            write = store.append if apply_first else store.persist
            if not await self._write(write, batch):
                return
        self._apply(ready)
        if apply_first and batch is not None and batch.must_sync:
            await loop.run_in_executor(self._disk, store.sync)
        if self._send is not None:
            for message in ready.messages:
                self._send(message.to, encode(message))
        node.advance()
        if self._on_progress is not None:
            self._on_progress()
        if self._take_snapshot is not None and self._is_snapshot_due(node.status()):
            node.compact(self._take_snapshot())

    async def _write(self, write: Callable[[Batch], None], batch: Batch) -> bool:
        """Once there is room for it; False when the host must end before there is."""
        loop = asyncio.get_running_loop()
        lack = Lasting(log, "no room for metadata", directory=self._data_dir)
        while True:
            try:
                await loop.run_in_executor(self._disk, write, batch)
            except StoreFull as error:
                self.lacks_room = str(error)
                lack.goes_on(self._clock.monotonic_ms(), self.lacks_room)
            else:
                self.lacks_room = ""
                lack.end(self._clock.monotonic_ms(), "room for metadata again")
                return True
            if self._on_progress is not None:
                self._on_progress()  # others elect a leader meanwhile, and clients must hear of it
            if self._must_end():
                return False
            await asyncio.sleep(ROOM_CHECK_MS / 1000)

    def _is_snapshot_due(self, status: Status) -> bool:
        return (
            status.blocks_since_snapshot >= self._snapshot_blocks
            or status.bytes_since_snapshot >= self._snapshot_bytes
        )

    def _apply(self, ready: Ready) -> None:
        if ready.installed is not None:
            if self._on_snapshot is not None:
                self._on_snapshot(ready.installed.data)
            if self._on_birth is not None:
                self._on_birth(ready.installed.cluster_id)
            self._applied = ready.installed.last
        for block in ready.committed:
            if block.kind is BlockKind.DATA:
                self._on_block(block)
            elif block.kind is BlockKind.BIRTH and self._on_birth is not None:
                self._on_birth(self.status().cluster_id)
            self._applied = block.id
        for outcome in ready.outcomes:
            token = self._tokens.pop(outcome.number, None)
            if token is not None:
                token.end(outcome.result, outcome.block_id)

    async def _sleep(self, node: Node) -> None:
        """Until there is input or the node's next deadline."""
        wake_at_ms = node.wake_at_ms()
        timeout_s = None
        if wake_at_ms is not None:
            timeout_s = max(0, wake_at_ms - self._clock.monotonic_ms()) / 1000
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _end_tokens(self) -> None:
        tokens, self._tokens = self._tokens, {}
        for token in tokens.values():
            token.end(Result.UNKNOWN, None)
