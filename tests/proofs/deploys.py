"""A proof of deploys under load and kills: readers see old or new rows. Prints one line of verdict.

`python -m tests.proofs.deploys [--folder FOLDER] [--kills 1,2,3,4,4]`

One broker, a producer that never stops, and the old file with `every: 3s`. The deploy is killed at
each of its steps (at 4 after each of the two tables), then finished; the new file runs; the
rollback is killed at each of its steps, then timed, and the old file runs again. A thread polls
the table by delta-rs. A row names the file that made it, so a poll with both is a mixture; a poll
with a missing or doubled id is a loss. At least 1,000 polls have to be during deploys.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import NewTopic
from josefine_broker.client.io_blocking import BlockingClient
from tests.proofs.runs import SPARK, folder_of, kill, produce
from tests.proofs.runs import Lab as Commands
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

TOPIC = "events"
PARTITION = TopicPartition(TOPIC, 0)
BATCH, BATCHES_MAX = 5, 1_000
"""Records at once; the reader compares all rows in each poll, so they stay few."""
POLLS_MIN = 1_000
"""During commands of the deploy."""

FILE = (
    SPARK
    + """
sources:
  events:
    type: josefine
    bootstrap: ${BOOTSTRAP}
    topics: [events]
    start: earliest
    decode:
      value: { format: json, schema: "id INT", on_error: dead_letter }
transforms:
  rows: { inputs: [events], sql: "select value.id, '%s' as made from events" }
sinks:
  lake: { type: delta, inputs: [rows], path: "${LAB}/tables/lake", mode: append }
dead_letter: { type: delta, path: "${LAB}/tables/dead" }
trigger: { %s }
"""
)


@dataclass
class Poller:
    """Reads the table over and over. `bad`: the polls that no version of the table explains."""

    path: str
    polls: int = 0
    bad: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> None:
        table = DeltaTable(self.path)
        rows = table.to_pyarrow_table()
        made = sorted(set(rows["made"].to_pylist()))
        ids = sorted(rows["id"].to_pylist())
        self.polls += 1
        for each in made:
            self.seen[each] = self.seen.get(each, 0) + 1
        if len(made) > 1:
            self.bad.append(f"version {table.version()}: a mixture of {made}")
        if ids != list(range(len(ids))):
            self.bad.append(f"version {table.version()}: {len(ids)} rows, not each id once")

    def run(self) -> None:
        while not self.over.wait(0.01):  # a busy loop would take a core from the runs
            self.poll()


class Load:
    """Produces a few records again and again until it is stopped."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.sent = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with BlockingClient(self.bootstrap) as client:
            for _ in range(BATCHES_MAX):
                self._produce(client)
                if self.over.wait(1):
                    break

    def _produce(self, client: BlockingClient) -> None:
        ids = range(self.sent, self.sent + BATCH)
        produce(client, PARTITION, (json.dumps({"id": n}).encode() for n in ids))
        self.sent += BATCH


@dataclass(kw_only=True)
class Lab(Commands):
    """The two files over one broker."""

    poller: Poller
    rollback_s: float = 0.0
    polls: int = 0
    """While a command of the deploy was running."""

    def write_files(self) -> None:
        for made in ("old", "new"):
            (self.folder / f"{made}.yaml").write_text(FILE % (made, "every: 3s"))

    def deploy(self, *options: str, fail: str = "") -> int:
        """The exit code of `pipeline deploy`."""
        files = ("new.yaml", "--against", "old.yaml")
        more = {"JOSEFINE_FAIL": fail} if fail else {}
        before = self.poller.polls
        code = self.finish(self.start("deploy", *files, *options, **more))
        self.polls += self.poller.polls - before
        return code

    def finish(self, process: subprocess.Popen[str]) -> int:
        try:
            return process.wait(timeout=300)
        finally:
            kill(process)

    def made(self) -> set[str]:
        return {row["made"] for row in self.rows("lake")}

    def has_committed(self, process: subprocess.Popen[str]) -> None:
        """Waits until a run has committed a batch, or has ended."""
        before = self.commits("tables/lake")
        wait_until(
            lambda: self.commits("tables/lake") > before + 1 or process.poll() is not None,
            200,
            "a commit",
        )


def prove(folder: Path, kills: list[str]) -> tuple[list[str], str]:
    """(what is wrong, what was measured)."""
    with BrokerProcess(folder / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, 1)])
        poller = Poller(str(folder / "tables" / "lake"))
        lab = Lab(folder=folder, bootstrap=broker.bootstrap, poller=poller)
        lab.write_files()
        load = Load(broker.bootstrap)
        load.thread.start()
        try:
            return _under_load(lab, load, kills)
        finally:
            load.over.set()
            load.thread.join(30)


def _under_load(lab: Lab, load: Load, kills: list[str]) -> tuple[list[str], str]:
    wrong: list[str] = []
    running = lab.start("run", "old.yaml")
    poller = lab.poller
    reader = threading.Thread(target=poller.run)
    try:
        lab.has_committed(running)
        reader.start()
        for step in kills:
            code = lab.deploy("--swap", fail=f"mid_deploy:{step}")
            print(f"killed at {step}: exit {code}, the table has {lab.made()}", flush=True)
            if code != 137:
                wrong.append(f"no kill at {step}: exit {code}")
            if len(lab.made()) != 1:
                wrong.append(f"a mixture after a kill at {step}")
            if running.poll() is not None and lab.made() == {"old"}:
                running = lab.start("run", "old.yaml")  # as a supervisor does
                lab.has_committed(running)
        before = poller.polls
        if lab.deploy("--swap") != 0:
            wrong.append("the deploy did not finish")
        polls = poller.polls - before
        if lab.made() != {"new"}:
            wrong.append(f"after the swap the table has {lab.made()}")
        wait_until(lambda: running.poll() is not None, 120, "the end of the old run")
        running = lab.start("run", "new.yaml")
        lab.has_committed(running)
        rows = len(lab.rows("lake"))
        wrong += _take_back(lab, load, running)
        if lab.polls < POLLS_MIN:
            wrong.append(f"only {lab.polls} polls during deploys")
        return wrong, (
            f"{poller.polls} polls {poller.seen}, {lab.polls} of them during deploys, {polls} in "
            "the last swap, "
            f"{rows} rows of the new file, {lab.rollback_s:.1f} s for the rollback, "
            f"{load.sent} records"
        )
    finally:
        poller.over.set()
        if reader.is_alive():
            reader.join(30)
        kill(running)


def _take_back(lab: Lab, load: Load, running: subprocess.Popen[str]) -> list[str]:
    """Roll back while the new file runs, then run the old one to the end of the load."""
    wrong, poller = [], lab.poller
    for step in (5, 6):
        if (code := lab.deploy("--rollback", fail=f"mid_deploy:{step}")) != 137:
            wrong.append(f"no kill at {step}: exit {code}")
    began_s = time.monotonic()
    code = lab.deploy("--rollback")
    lab.rollback_s = time.monotonic() - began_s
    if code != 0 or lab.made() != {"old"}:
        wrong.append(f"rollback: exit {code}, the table has {lab.made()}")
    wait_until(lambda: running.poll() is not None, 120, "the end of the new run")
    load.over.set()
    load.thread.join(30)
    poller.over.set()
    text = (lab.folder / "old.yaml").read_text()
    (lab.folder / "old.yaml").write_text(text.replace("every: 3s", "available_now: true"))
    code = lab.finish(lab.start("run", "old.yaml"))
    poller.poll()
    rows = len(lab.rows("lake"))
    if code != 0 or rows != load.sent:
        wrong.append(f"at the end: exit {code}, {rows} rows of {load.sent} records")
    return wrong + poller.bad[:5]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="default: a new temporary folder")
    parser.add_argument("--kills", default="1,2,3,4,4")
    asked = parser.parse_args()
    folder = folder_of(asked.folder, "deploys")
    began_s = time.monotonic()
    wrong, measured = prove(folder, [step for step in asked.kills.split(",") if step])
    verdict = f"NOT EXACT: {'; '.join(wrong)}" if wrong else "exact"
    print(f"{verdict} ({measured}, {time.monotonic() - began_s:.0f} s, {folder})")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
