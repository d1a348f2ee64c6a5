"""The entry point of one broker in the foreground, until SIGTERM or SIGINT; failures become one
sentence.

Exit codes: 0 after a graceful stop, 1 when it could not start or had to stop itself.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from contextlib import suppress

import uvloop

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.tls_files import TlsError
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.engine.cluster.enrolment import DismissedError
from josefine_broker.engine.limits.descriptors import Shares, divide
from josefine_broker.host.disk.data_dir import DataDirError
from josefine_broker.host.events import configure_logging
from josefine_broker.host.gc_freeze import rarely_collected
from josefine_broker.host.net.server import BindError
from josefine_broker.host.net.token_keys import KeysError
from josefine_broker.host.net.users import UsersError
from josefine_broker.host.otlp import TracesError
from josefine_broker.node import Node

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class CannotRunError(Exception):
    """The broker cannot start, or had to stop; the message is one sentence for the user."""


def run(config: BrokerConfig) -> None:
    """Serve until a stop signal. Raises CannotRunError."""
    if not __debug__:
        raise CannotRunError(
            "python -O removes the assertions that guard the data; run the broker without it"
        )
    configure_logging(config.logging.level, config.logging.format)
    descriptors = _divide_descriptors(config)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, descriptors))


def _divide_descriptors(config: BrokerConfig) -> Shares:
    """Raise the limit of descriptors as far as possible, and divide them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems do not let a process have its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    try:
        shares = divide(soft, config.network.connections_max)
    except ValueError as error:
        raise CannotRunError(str(error)) from None
    if shares.shortage:
        log.warning("few file descriptors", extra={"reason": shares.shortage})
    return shares


async def _serve(config: BrokerConfig, descriptors: Shares) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        node = Node(config, descriptors, on_fatal=stop.set)
    except (TlsError, UsersError, KeysError, TracesError) as error:
        raise CannotRunError(str(error)) from error
    try:
        with rarely_collected():
            is_serving = await _start(node, stop)
    except (BindError, DataDirError, DismissedError) as error:
        await node.abandon()
        is_bind = isinstance(error, BindError)
        advice = "; end what listens there, or set another address" if is_bind else ""
        raise CannotRunError(f"{error}{advice}") from error
    except (CorruptData, OSError, Fatal) as error:
        await node.abandon()
        raise CannotRunError(f"cannot start: {error}") from error
    if is_serving:
        await stop.wait()
    for number in STOP_SIGNALS:  # a second signal ends a slow shutdown at once
        loop.remove_signal_handler(number)
    if node.fatal is not None:
        await node.abandon()
        raise CannotRunError(f"{_why(node.fatal)}{node.fatal}") from node.fatal
    try:
        await node.stop()
    except OSError as error:
        raise CannotRunError(f"stopped without a clean mark: {error}") from error
    _say("stopped")


async def _start(node: Node, stop: asyncio.Event) -> bool:
    """Whether the broker reached serving: it may wait for its cluster until the stop signal."""
    starting = asyncio.ensure_future(node.start(_say))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True


def _why(error: BaseException) -> str:
    """The message prefix; broken invariants are no `Exception`, so that no loop swallows them."""
    if isinstance(error, DismissedError):
        return ""
    return "had to stop: " if isinstance(error, Exception) else "stopped on a broken invariant: "


def _say(line: str) -> None:
    print(line, flush=True)
