"""How a broker that is no member yet comes into a running cluster: the questions and the answers.

Any broker of the cluster tells who there is and who leads (DISCOVER); the leader proposes the
newcomer's registration (PROPOSE); from then on it is the controller that adds it to Raft. A voter
that comes back with an empty data directory is refused: it has forgotten how it voted, and what it
promised to keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.config import HostPort
from josefine_broker.config_values import parse_host_port
from josefine_broker.core.apply import apply
from josefine_broker.core.change_codec import decode_change, encode_change
from josefine_broker.core.changes import At, Origin, RegisterBroker
from josefine_broker.core.door import why_not_payload
from josefine_broker.core.image import BrokerEntry, MetadataImage
from josefine_broker.shell.lasting import Lasting
from josefine_broker.shell.raft_connection import PeerError
from josefine_broker.shell.raft_frames import Frame, FrameError, Kind, encode_body
from josefine_broker.shell.raft_host import RaftHost, Result
from josefine_broker.shell.raft_transport import RaftTransport

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 3.0
PROPOSE_TIMEOUT_MS = 5_000
JOIN_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What a broker knows of its cluster; `leader` is -1 while there is none."""

    cluster_id: str
    leader: int
    addresses: Mapping[int, HostPort]

    def encode(self) -> bytes:
        addresses = {str(key): str(each) for key, each in self.addresses.items()}
        return encode_body(
            {"cluster": self.cluster_id, "leader": self.leader, "addresses": addresses},
        )

    @classmethod
    def decode(cls, frame: Frame) -> Discovered:
        """Raises FrameError."""
        plain = frame.fields()
        try:
            return cls(
                cluster_id=str(plain["cluster"]),
                leader=int(plain["leader"]),
                addresses={
                    int(key): parse_host_port(each) for key, each in plain["addresses"].items()
                },
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FrameError(f"a DISCOVERED frame without its fields: {error!r}") from error


class RefusedError(Exception):
    """The cluster does not take this broker, and will not: one sentence."""


async def ask_to_join(
    transport: RaftTransport, seeds: tuple[HostPort, ...], registration: bytes
) -> Discovered:
    """Find the leader through any of `seeds` and have it propose `registration`, an encoded change.

    Returns when it is committed. Raises PeerError (try again), RefusedError.
    """
    failures = []
    for seed in seeds:
        try:
            frame = await transport.ask(seed, Kind.DISCOVER, b"{}", ASK_TIMEOUT_S)
            found = Discovered.decode(frame)
        except (PeerError, FrameError) as error:
            failures.append(str(error))
            continue
        address = found.addresses.get(found.leader)
        if address is None:
            failures.append(f"{seed} knows no leader")
            continue
        frame = await transport.ask(
            address, Kind.PROPOSE, registration, PROPOSE_TIMEOUT_MS / 1_000 + 1, found.leader
        )
        _check_answer(frame)
        return found
    raise PeerError("; ".join(failures))


async def show_up(transport: RaftTransport, addresses: tuple[HostPort, ...]) -> None:
    """Greet everybody, who learns thereby where we are. Raises PeerError when nobody answers."""
    failures = []
    for address in addresses:
        try:
            await transport.ask(address, Kind.DISCOVER, b"{}", ASK_TIMEOUT_S)
        except PeerError as error:
            failures.append(str(error))
    if len(failures) == len(addresses):
        raise PeerError("; ".join(failures))


class AskingAround:
    """Greets every address that this broker knows, so that their answers name the members: a peer
    that it does not know says that it belongs to this cluster, and may be right."""

    def __init__(self, transport: RaftTransport, own_id: int, seeds: tuple[HostPort, ...]) -> None:
        self._transport = transport
        self._own_id = own_id
        self._seeds = seeds
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Unless it is asking already, or has done so just now."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        known = self._transport.book.newest().items()
        others = (address for id_, address in known if id_ != self._own_id)
        try:
            await show_up(self._transport, tuple(dict.fromkeys((*self._seeds, *others))))
        except PeerError as error:
            log.info("nobody to ask who belongs to the cluster", extra={"reason": error})
        await asyncio.sleep(JOIN_RETRY_SECONDS)


class Joining:
    """Asks until the cluster has taken this broker in; the image tells that it worked.

    A member that does not vote only shows itself: nobody hears from it otherwise, and the leader
    may look for it where it was before.
    """

    def __init__(
        self,
        transport: RaftTransport,
        registration: RegisterBroker,
        *,
        seeds: tuple[HostPort, ...],
        is_wanted: Callable[[], bool],
        is_member: Callable[[], bool],
        on_refused: Callable[[str], None],
    ) -> None:
        """Goes on while `is_wanted`, or ends with why the cluster will not take this broker."""
        self._transport = transport
        self._broker_id = registration.broker_id
        # Without an image it does not know whether the cluster understands more; it has no logs.
        plain = replace(registration, logs=None)
        self._body = encode_change(plain, Origin(registration.broker_id, 0))
        self._seeds = seeds
        self._is_wanted = is_wanted
        self._is_member = is_member
        self._on_refused = on_refused
        self._task: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why nobody took this broker in, the last time that it asked."""

    def begin(self) -> None:
        """Start to ask, if that was not done before."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        book = self._transport.book
        loop = asyncio.get_running_loop()
        trouble = Lasting(log, "not joined yet")
        while self._is_wanted():
            others = (each for id_, each in book.newest().items() if id_ != self._broker_id)
            addresses = dict.fromkeys((*self._seeds, *others))
            try:
                await self._ask_around(tuple(addresses))
            except RefusedError as error:
                self._on_refused(str(error))
                return
            except (PeerError, FrameError) as error:
                self.trouble = str(error)
                trouble.goes_on(int(loop.time() * 1_000), str(error))
            else:
                self.trouble = ""
                trouble.end(int(loop.time() * 1_000), "was answered")
            await asyncio.sleep(JOIN_RETRY_SECONDS)

    async def _ask_around(self, addresses: tuple[HostPort, ...]) -> None:
        if self._is_member():
            await show_up(self._transport, addresses)
            return
        found = await ask_to_join(self._transport, addresses, self._body)
        for node, address in found.addresses.items():
            if node != self._broker_id:
                self._transport.book.learn(node, address)


def _check_answer(frame: Frame) -> None:
    plain = frame.fields()
    if plain.get("refused"):
        raise RefusedError(str(plain["refused"]))
    if plain.get("failed"):
        raise PeerError(str(plain["failed"]))


def propose_for(
    raft_host: RaftHost,
    image: Callable[[], MetadataImage],
    peer: int,
    body: bytes,
    deadline_ms: int,
    answer: Callable[[bytes], None],
) -> None:
    """As the leader: propose the registration of a newcomer and answer what came of it. Raises
    raft.Refused."""
    status = raft_host.status()
    if status.leader != status.node_id:
        answer(encode_body({"failed": f"broker {status.node_id} does not lead"}))
        return
    reason = why_not_payload(body)
    if reason is not None:
        answer(encode_body({"refused": f"a registration that cannot be read: {reason}"}))
        return
    change, _ = decode_change(body)
    if not isinstance(change, RegisterBroker) or change.broker_id != peer:
        answer(encode_body({"refused": "a broker proposes its own registration and nothing else"}))
        return
    if change.broker_id in status.members.voters:
        way = way_back(change.broker_id, image().brokers.get(status.node_id), ())
        answer(encode_body({"refused": f"{forgotten(change.broker_id)}{way}"}))
        return
    if change.broker_id in status.members.learners:  # it was here before, and lost what it had
        raft_host.forget_progress(change.broker_id)
    token = raft_host.propose(body, deadline_ms)

    def done(_: Any) -> None:
        answer(encode_body(_outcome(image(), change, token.result)))

    token.on_done = done


def forgotten(broker_id: int) -> str:
    """Why a voter without its data is not taken; `way_back` follows."""
    return f"broker {broker_id} votes in this cluster, but came with an empty data directory"


def way_back(broker_id: int, told_by: BrokerEntry | None, missing: Collection[int]) -> str:
    """What to do about it, said by a broker that knows which other voters are missing: without a
    majority of them nothing can be decided."""
    first = f"start broker {', '.join(map(str, sorted(missing)))} first; then " if missing else ""
    where = ""
    if told_by is not None and told_by.endpoints:
        where = f" -b {HostPort(told_by.endpoints[0].host, told_by.endpoints[0].port)}"
    return (
        f": start it with its own data; if they are lost, {first}"
        f"'josefine cluster remove {broker_id} --data-lost{where}', and start it again"
    )


def _outcome(
    image: MetadataImage, change: RegisterBroker, result: Result | None
) -> dict[str, object]:
    if result is not Result.COMMITTED:
        return {"failed": "the registration was not committed in time"}
    known = image.brokers.get(change.broker_id)
    if known is not None and known.incarnation == change.incarnation:
        return {}
    try:
        apply(image, change, At(0, 0))
    except KafkaError as error:
        return {"refused": str(error)}
    return {"failed": "another process registered meanwhile"}
