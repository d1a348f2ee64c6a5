"""`josefine debug bundle`: one archive with what a report of a problem needs, without secrets.

Rules: every part is masked, then checked; a part that still has a secret stops the command and
nothing is written. Records, keys and values are never read. What does not answer is a line of
`missing.txt`, since a bundle is wanted most when something does not answer.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.tls_files import TlsError
from josefine_broker.client import config_admin, group_admin
from josefine_broker.client.config_admin import RESOURCE_BROKER, ConfigValue
from josefine_broker.client.effects import Operation
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.session import Session
from josefine_cli.base.admin import ask_text
from josefine_cli.base.client_config import configured_settings
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import connect, plural, print_json
from josefine_cli.base.waiting import waits
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.target import (
    Admin,
    AsJson,
    Bootstrap,
    Directory,
    admin_urls,
    bootstrap_of,
    local_cluster,
)
from josefine_cli.cluster.view import admin_url, first_view
from josefine_cli.kafka.debug_secrets import (
    SecretFoundError,
    known_secrets,
    masked,
    refuse_secrets,
    without_secrets,
)

app = typer.Typer(
    help="Collect what a report of a problem needs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

PAGES = {
    "health.json": "/health",
    "cluster.json": "/cluster",
    "chain.json": "/cluster/chain?last=50",
    "metrics.txt": "/metrics",
    "debug.txt": "/debug?as=text",
}
"""Of each broker's admin address."""

LOG_BYTES_MAX = 512 * 1024
"""Of each log the last bytes, in whole lines."""

Parts = dict[str, str]


@app.callback()
def debug() -> None:
    """Collect what a report of a problem needs."""


@app.command()
def bundle(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="The archive, FILE.tar.gz.")
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A broker's configuration; repeatable."),
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A log, of which the end is taken; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    admin: Admin = None,
    directory: Directory = DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Write health, metrics, descriptions, configurations and log ends to an archive.

    Secrets are masked; a part that still has one is refused, and no archive is written. No record
    is read. A local cluster's logs and configurations are found by themselves.

    \b
    josefine debug bundle --config broker.yaml --log broker.log
    josefine debug bundle -b k1:9092 --to problem.tar.gz
    """
    target = to or Path(time.strftime("josefine-debug-%Y%m%d-%H%M%S.tar.gz", time.gmtime()))
    if target.exists():
        raise UsageError(f"{target} exists already: choose another file with --to")
    secrets = known_secrets(configured_settings(os.environ), os.environ)
    missing: list[str] = []
    parts: Parts = {"about.json": _json(_about())}
    parts |= _of_files(config or [], log or [], directory)
    with waits(lambda: "answers of the brokers"):
        parts |= _of_clients(bootstrap_of(bootstrap, directory), missing)
        parts |= _of_pages(lambda: admin_urls(admin, directory, bootstrap), missing)
    parts["missing.txt"] = "".join(f"{each}\n" for each in missing)
    # All parts are checked before the first byte is written.
    clean = {name: masked(text, secrets) for name, text in parts.items()}
    for name, text in clean.items():
        try:
            refuse_secrets(name, text, secrets)
        except SecretFoundError as error:
            raise UserError(f"nothing was written: {error}; leave this file out") from None
    _write(target, clean)
    if as_json:
        print_json({"file": str(target), "parts": sorted(clean), "missing": missing})
        return
    print(f"{target}: {plural(len(clean), 'part')}; look through it before you send it")
    for each in missing:
        print(f"  missing: {masked(each, secrets)}")


def _about() -> dict[str, Any]:
    from importlib.metadata import distributions

    ours = {each.name: each.version for each in distributions() if each.name.startswith("josefine")}
    return {
        "time_ms": time.time_ns() // 1_000_000,
        "versions": ours,
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
    }


def _of_files(configs: list[Path], logs: list[Path], directory: Path) -> Parts:
    """Configurations and log ends that the command line names, and those of a local cluster.
    Raises UsageError for a file that cannot be read."""
    cluster = local_cluster(directory)
    files = [(each, f"config/{number}-{each.name}") for number, each in enumerate(configs)]
    tails = [(each, f"logs/{number}-{each.name}") for number, each in enumerate(logs)]
    if cluster is not None:
        for id_ in cluster.brokers:
            tails.append((cluster.log_file(id_), f"logs/broker-{id_}.log"))
    try:
        found = {name: _config(file) for file, name in files}
        # A broker that never started has no log.
        return found | {name: log_end(file) for file, name in tails if file.exists() or not cluster}
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {error.filename}: {reason}") from None


def _config(file: Path) -> str:
    """A configuration with its secrets masked; a file that is no YAML or TOML as it is, which is
    masked as any text."""
    text = file.read_text(encoding="utf-8", errors="replace")
    read = _tree(text, is_toml=file.suffix == ".toml")
    return text if read is None else _json(without_secrets(read))


def _tree(text: str, *, is_toml: bool) -> Mapping[str, Any] | None:
    import tomllib

    import yaml

    try:
        read = tomllib.loads(text) if is_toml else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError):
        return None
    return read if isinstance(read, Mapping) else None


def log_end(file: Path) -> str:
    """The last LOG_BYTES_MAX of a log, without the line that they cut."""
    with file.open("rb") as log:
        size = log.seek(0, io.SEEK_END)
        log.seek(max(0, size - LOG_BYTES_MAX))
        data = log.read()
    if size > LOG_BYTES_MAX:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")


def _of_clients(where: str, missing: list[str]) -> Parts:
    """What the brokers describe over Kafka's protocol."""
    parts: Parts = {}
    try:
        with connect(where) as client:
            client.metadata()  # brokers that do not answer cost one wait, not one for each part
            for name, describe in _DESCRIBED.items():
                try:
                    parts[f"kafka/{name}.json"] = _json(describe(client))
                except KafkaError as error:
                    missing.append(f"kafka/{name}.json: {error.message or error.code.name}")
    except (KafkaError, OSError, TlsError) as error:
        missing.append(f"kafka of {where}: {getattr(error, 'message', '') or error}")
    return parts


def _groups(client: BlockingClient) -> Any:
    return client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d))


def _configs(client: BlockingClient) -> Any:
    return {
        each.broker_id: client.run(partial(_broker_configs, str(each.broker_id)))
        for each in client.describe_cluster().brokers
    }


def _broker_configs(
    name: str, session: Session, now_ms: int, deadline_ms: int
) -> Operation[list[ConfigValue]]:
    return config_admin.describe_resource(session, RESOURCE_BROKER, name, now_ms, deadline_ms)


_DESCRIBED: dict[str, Callable[[BlockingClient], Any]] = {
    "cluster": lambda client: client.describe_cluster(),
    "topics": lambda client: client.metadata().topics,
    "topic_configs": lambda client: client.describe_configs([*client.metadata().topics]),
    "broker_configs": _configs,
    "groups": _groups,
}


def _of_pages(urls: Callable[[], list[str]], missing: list[str]) -> Parts:
    """The pages of each broker's admin address."""
    parts: Parts = {}
    try:
        view = first_view(urls())
    except (UserError, TlsError) as error:
        missing.append(f"admin pages: {error}")
        return parts
    for broker in view["brokers"]:
        url = admin_url(broker)
        for name, path in PAGES.items():
            part = f"broker-{broker['id']}/{name}"
            if url is None:
                missing.append(f"{part}: it has no admin address")
                continue
            try:
                parts[part] = ask_text(url, path)
            except (UserError, TlsError) as error:
                missing.append(f"{part}: {error}")
    return parts


def _json(value: Any) -> str:
    return json.dumps(_plain(value), indent=2, default=str, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Values of the client as JSON's, their names kept."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    return value


def _write(target: Path, parts: Mapping[str, str]) -> None:
    """The archive, readable by its owner alone: logs may have more than secrets."""
    folder = target.name.removesuffix(".gz").removesuffix(".tar")
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in _encoded(parts):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(data))


def _encoded(parts: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
    for name, text in sorted(parts.items()):
        yield name, text.encode("utf-8", "backslashreplace")
