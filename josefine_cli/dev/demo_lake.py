"""The lake of the demo: a folder of this machine, or one in S3, where it may start the server.

`s3` starts moto's server in a process of its own, which keeps its objects in memory; a URI names a
bucket of a store that AWS's variables reach.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from josefine_broker.base.store_urls import S3_SCHEMES, malformed
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.extras import need

if TYPE_CHECKING:
    from pipelines.storage.folders import OpenFolder

LOCAL, S3 = "local", "s3"
BUCKET = "lake"
START_S = 60.0
STOP_S = 10.0
S3A = "spark.hadoop.fs.s3a."
SERVER = """\
import logging, sys
from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
S3FileSystem(
    access_key="demo", secret_key="demo-secret", region="us-east-1", endpoint_override=endpoint,
    allow_bucket_creation=True,
).create_dir("lake")
print(endpoint, flush=True)
sys.stdin.read()
server.stop()
"""
"""It ends with its standard input, so that no server is left by a demo that was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """Where checkpoints and tables are. `conf`: lines of `spark.conf`; `env`: of the pipeline."""

    root: str
    conf: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    def opener(self) -> OpenFolder:
        """Opens the tables, without Spark."""
        from pipelines.storage.folders import Folders

        return Folders(self.conf, {**os.environ, **self.env}).open

    def look(self) -> None:
        """Raises StorageError for a store that cannot be listed, such as one without the bucket."""
        folder = None if self.is_local else self.opener()(self.root)
        if folder is not None:
            folder.files.names(folder.path)


def check_lake(asked: str, *, keep: bool) -> None:
    """Raises UsageError, and UserError for a missing package."""
    is_s3 = asked.partition("://")[0] in S3_SCHEMES and not malformed(asked)
    if asked not in (LOCAL, S3) and not is_s3:
        raise UsageError(f"--lake {asked}: expected local, s3, or a folder s3a://BUCKET/FOLDER")
    if asked != LOCAL and keep:
        raise UsageError("--keep continues with tables of this machine: leave --lake out")
    if asked == S3:
        need("the demo's server of S3", "moto", "flask", "flask_cors")


@contextlib.contextmanager
def opened(asked: str, directory: Path, now_s: float) -> Iterator[Lake]:
    """The lake of one demo; its server, if it has one, ends with the context."""
    if asked == LOCAL:
        yield Lake(root=str(directory))
    elif asked == S3:
        with _server() as endpoint:
            env = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo-secret"}
            yield Lake(root=f"s3a://{BUCKET}", conf=conf_of(endpoint), env=env)
    else:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
        root = f"s3a://{asked.partition('://')[2].strip('/')}/josefine-demo-{int(now_s)}"
        yield Lake(root=root, conf=conf_of(endpoint))


def conf_of(endpoint: str) -> dict[str, str]:
    """The settings that the demo's pipeline needs in a store. Pure."""
    found = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}
    if endpoint:
        found |= {f"{S3A}endpoint": endpoint, f"{S3A}path.style.access": "true"}
    return found


def with_conf(text: str, conf: Mapping[str, str]) -> str:
    """A pipeline file with more settings in `spark.conf`. Pure."""
    lines = "".join(f'    {name}: "{value}"\n' for name, value in conf.items())
    head, found, tail = text.partition("\n  conf:\n")
    assert found, "the demo's pipeline has a section spark.conf"
    return f"{head}{found}{lines}{tail}"


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """The endpoint of moto's server, in a process of its own; Ctrl-C is the demo's alone, while it
    still reads the tables."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + START_S
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        endpoint = process.stdout.readline().strip() if ready else ""
        if not endpoint:
            raise UserError(f"the server of S3 did not start within {START_S:.0f} s")
        yield endpoint
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
