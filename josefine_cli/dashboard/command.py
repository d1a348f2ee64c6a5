"""`josefine dashboard`: serve the page until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_broker.base.addresses import HostPort, parse_host_port
from josefine_broker.base.security import parse_secret_place
from josefine_broker.base.tls_files import OwnNames, load_own
from josefine_cli.base.client_config import http_headers, tls_context
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import checked_addresses, connect, note
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.target import Admin, Bootstrap, Directory, admin_urls, bootstrap_of

if TYPE_CHECKING:
    from josefine_cli.dashboard.pipelines import PipelineWatcher

app = typer.Typer(add_completion=False, rich_markup_mode=None)

STOP_SECONDS = 0.5
TOKEN_BYTES = 18
OWN = OwnNames("--certificate", "--key", "--key-password")


@app.command()
def dashboard(
    listen: Annotated[
        str, typer.Option(help="Where to serve it; port 0 is any free port.", metavar="HOST:PORT")
    ] = "127.0.0.1:9700",
    bootstrap: Bootstrap = None,
    admin: Admin = None,
    directory: Directory = DEFAULT_DIRECTORY,
    pipeline: Annotated[
        list[Path] | None,
        typer.Option(help="Also show the progress of its sinks; repeatable.", metavar="FILE"),
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--env", help="The environment of those files.")
    ] = None,
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Allow users of the printed address to change topics and write records.",
        ),
    ] = False,
    certificate: Annotated[
        Path | None,
        typer.Option(help="Serve https with this certificate in PEM.", metavar="FILE"),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(help="Its private key; default: in the same file.", metavar="FILE"),
    ] = None,
    key_password: Annotated[
        str | None,
        typer.Option(help="Where its password is: file:PATH or env:NAME.", metavar="PLACE"),
    ] = None,
) -> None:
    """Show a live view of a cluster in a browser: brokers, Raft chain, topics, groups, messages.

    Example: josefine dashboard --bootstrap 127.0.0.1:9092 --admin 127.0.0.1:9644
    """
    try:
        where = parse_host_port(listen)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from None
    tls = _tls(certificate, key, key_password)
    brokers = checked_addresses(bootstrap_of(bootstrap, directory))
    urls = admin_urls(admin, directory, bootstrap)
    pipelines = _pipelines(pipeline, environment) if pipeline else None
    if where.host not in ("127.0.0.1", "::1", "localhost"):
        note(f"everyone who reaches {listen} sees every record that these credentials may read")
    # The token is made here and only printed: a page from elsewhere in the same browser can send
    # requests to this port, and cannot know it.
    token = secrets.token_urlsafe(TOKEN_BYTES) if allow_changes else None
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(where, brokers, urls, pipelines, token, tls))


def _pipelines(files: list[Path], environment: str | None) -> PipelineWatcher:
    """The watcher of these files. Raises ConfigError for an invalid file."""
    from josefine_cli.dashboard.pipelines import PipelineWatcher, asker
    from josefine_cli.pipeline import file as pipeline_file

    read = [pipeline_file.read(file, environment, as_json=False) for file in files]
    asks: list[Callable[[], list[dict[str, Any]]]] = [asker(each) for each in read]
    return PipelineWatcher(asks)


def _tls(
    certificate: Path | None, key: Path | None, key_password: str | None
) -> ssl.SSLContext | None:
    """Raises UsageError, TlsError."""
    if certificate is None:
        for name, given in ((OWN.key, key), (OWN.password, key_password)):
            if given is not None:
                raise UsageError(f"{name} has no effect without {OWN.certificate}")
        return None
    try:
        place = None if key_password is None else parse_secret_place(key_password)
        password = None if place is None else place.read(os.environ)
    except ValueError as error:
        raise UsageError(f"{OWN.password}: {error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_own(context, certificate, key, None if password is None else lambda: password, OWN)
    return context


async def _serve(
    where: HostPort,
    brokers: str,
    urls: list[str],
    pipelines: PipelineWatcher | None,
    token: str | None,
    tls: ssl.SSLContext | None,
) -> None:
    from aiohttp import web

    from josefine_cli.dashboard.server import application
    from josefine_cli.dashboard.watching import Watcher

    has_tls = any(url.startswith("https:") for url in urls)
    asking = tls_context(os.environ, urls[0]) if has_tls else None
    watcher = Watcher(urls, asking, lambda url: http_headers(url, os.environ))
    await watcher.start()
    served = application(watcher, lambda: connect(brokers), where.host, pipelines, token)
    # An event, not an exception out of the signal: the viewers' streams and the watcher are closed
    # in order.
    runner = web.AppRunner(
        served, access_log=None, handle_signals=False, shutdown_timeout=STOP_SECONDS
    )
    await runner.setup()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        site = web.TCPSite(runner, where.host, where.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"--listen {where}: {reason}") from None
        port = runner.addresses[0][1]
        changes = f"/#changes={token}" if token else ""
        scheme = "http" if tls is None else "https"
        print(f"dashboard on {scheme}://{HostPort(where.host, port)}{changes}", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()
        await watcher.stop()
