"""A driver whose commit another one replaces in S3 stops before it commits on top of it.

Delta's LogStore for S3 looks for a version's file and then writes it without a condition. Here the
other driver has looked before the first commit, and its PUT comes after it: the object gets another
text when the driver first asks for the version after it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from josefine_broker.client.io_blocking import NewTopic
from pipelines.exactly_once.other_chains import ChainName
from tests.spark.pipelines.test_object_store_kills import Lakes, driver, jars, topic_of
from tests.support.cli import COMMAND
from tests.support.fixtures import broker_fixture
from tests.support.hostile_store import Fault, HostileStore
from tests.support.object_store import ObjectStore

__all__ = ["jars"]

LAB = "lab"
CHAIN = ChainName(pipeline=LAB, sink="lake").app_id
OTHERS = {
    "run": "another run of this sink has committed to the table meanwhile",
    "writer": "another writer has replaced its version",
}
"""Whose commit comes in the place of the driver's → a part of the error."""

broker = broker_fixture(*(NewTopic(topic_of(each, LAB), 1) for each in OTHERS))

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


class Replacing:
    """A plan without faults, which replaces the driver's first commit. Mutable: the replaced
    version, None before."""

    def __init__(self, store: ObjectStore, other: str) -> None:
        self._store, self._other = store, other
        self.replaced: int | None = None

    def __call__(self, method: str, path: str) -> Fault | None:
        asked = re.search(r"^/(\S+/lake/_delta_log)/(\d{20})\.json", path)
        if asked and self.replaced is None and method in ("GET", "HEAD"):
            version = int(asked[2]) - 1
            self._replace(f"{asked[1]}/{version:020d}.json", version)
        return None

    def _replace(self, path: str, version: int) -> None:
        try:
            with self._store.system.open_input_stream(path) as stream:
                text = stream.read().decode()
        except FileNotFoundError:
            return
        if CHAIN in text:
            info = json.loads(next(line for line in text.split("\n") if "commitInfo" in line))
            run = json.loads(info["commitInfo"]["userMetadata"])["run"]
            old, new = (CHAIN, "somebody") if self._other == "writer" else (run, "0" * 32)
            self._store.put(path, text.replace(old, new))
            self.replaced = version


@pytest.mark.parametrize("other", OTHERS)
def test_a_replaced_commit_is_not_continued(broker, tmp_path: Path, jars, other):
    with ObjectStore() as store:
        replacing = Replacing(store, other)
        with HostileStore(store.endpoint, replacing) as between:
            lakes = Lakes(broker, tmp_path, jars, (store, between), other, LAB)
            file = lakes.folders[0] / "lab.yaml"
            file.write_text(file.read_text().replace("decode:", "limit: { rows: 1 }\n    decode:"))

            done = driver(*COMMAND, "pipeline", "run", str(file))

        assert replacing.replaced is not None
        assert done.returncode != 0
        assert OTHERS[other] in done.stderr
        later = f"{LAB}/lake/_delta_log/{replacing.replaced + 1:020d}.json"
        assert later not in store.keys(lakes.bucket)
