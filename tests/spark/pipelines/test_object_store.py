"""`pipeline run` into S3: a real broker, Spark with S3A, moto's server. By hand: it gets jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from josefine_broker.client.io_blocking import NewTopic
from tests.support.cli import COMMAND, REPOSITORY, Done, josefine
from tests.support.fixtures import broker_fixture
from tests.support.object_store import SECRET_KEY, ObjectStore

broker = broker_fixture(NewTopic("s3a", 2), NewTopic("s3", 2))

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

FILE = """\
version: 1
name: orders
spark:
  master: "local[2]"
  checkpoint: s3a://{bucket}/ck
  conf:
{conf}
sources:
  raw:
    type: josefine
    bootstrap: {bootstrap}
    topics: [{scheme}]
    decode: {{ value: {{ format: json, schema: "id INT", on_error: dead_letter }} }}
transforms:
  ids: {{ inputs: [raw], sql: select value.id as id from raw }}
sinks:
  lake: {{ type: delta, inputs: [ids], path: "{scheme}://{bucket}/lake", mode: append }}
dead_letter: {{ type: delta, path: "s3a://{bucket}/dead" }}
trigger: {{ available_now: true }}
"""


def pipeline(file: Path, *command: str) -> Done:
    """A process of its own: Spark starts with the packages that the file needs."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "S3_SECRET": SECRET_KEY}
    done = subprocess.run(
        [*COMMAND, "pipeline", *command, str(file)],
        env=env, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("scheme", ["s3a", "s3"])
def test_a_run_into_s3_writes_each_row_once_also_after_a_lost_checkpoint(broker, tmp_path, scheme):
    with ObjectStore() as store:
        bucket = store.bucket()
        conf = "\n".join(f'    {name}: "{value}"' for name, value in store.conf.items())
        file = tmp_path / "orders.yaml"
        file.write_text(
            FILE.format(bucket=bucket, conf=conf, bootstrap=broker.bootstrap, scheme=scheme)
        )

        def rows() -> list[int]:
            table = DeltaTable(f"s3a://{bucket}/lake", storage_options=store.delta)
            return sorted(table.to_pyarrow_table()["id"].to_pylist())

        def produce(*values: str) -> None:
            made = josefine(broker.bootstrap, "produce", scheme, stdin="\n".join(values) + "\n")
            assert made.code == 0, made.err

        produce('{"id": 1}', '{"id": 2}', "odd")
        first = pipeline(file, "run")
        assert first.code == 0, first.err
        assert rows() == [1, 2]

        store.system.delete_dir(f"{bucket}/ck")
        produce('{"id": 3}')
        second = pipeline(file, "run")
        assert second.code == 0, second.err
        assert rows() == [1, 2, 3]

        status = pipeline(file, "status")
        assert status.code == 0, status.out
        assert "0 records behind" in status.out
        shown = pipeline(file, "dlq", "show")
        assert ": 1 dead letter not replayed" in shown.out
        for done in (first, second, status, shown):
            assert SECRET_KEY not in done.out + done.err
