"""An S3 server on the loopback for tests (moto's), with buckets, keys and refusals."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.request import Request, urlopen
from uuid import uuid4

from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem

ACCESS_KEY, SECRET_KEY = "test-user", "hush-hush-secret"


class ObjectStore:
    """Listens from `__enter__` on. Every key is right until `refuse_keys`."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.endpoint = ""

    def __enter__(self) -> ObjectStore:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    @property
    def system(self) -> S3FileSystem:
        return S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region="us-east-1",
            endpoint_override=self.endpoint,
            allow_bucket_creation=True,
        )

    @property
    def conf(self) -> Mapping[str, str]:
        """The settings of a pipeline file."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
            "spark.hadoop.fs.s3a.secret.key": "${secret:env:S3_SECRET}",
        }

    @property
    def delta(self) -> dict[str, str]:
        """The storage options of delta-rs."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
        }

    def bucket(self) -> str:
        """A new bucket."""
        name = f"bucket-{uuid4().hex}"
        self.system.create_dir(name)
        return name

    def put(self, path: str, text: str) -> None:
        """An object at `bucket/key`."""
        with self.system.open_output_stream(path) as stream:
            stream.write(text.encode())

    def keys(self, bucket: str) -> list[str]:
        """The keys of a bucket, sorted."""
        from pyarrow.fs import FileSelector, FileType

        found = self.system.get_file_info(FileSelector(bucket, recursive=True))
        files = (each.path for each in found if each.type == FileType.File)
        return sorted(path.removeprefix(f"{bucket}/") for path in files)

    def refuse_keys(self, refuse: bool = True) -> None:
        """Whether keys are checked from now on; nobody has a right one."""
        body = b"0" if refuse else b"inf"
        kind = {"Content-Type": "text/plain"}
        url = f"{self.endpoint}/moto-api/reset-auth"
        urlopen(Request(url, data=body, headers=kind, method="POST")).close()
