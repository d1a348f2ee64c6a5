"""One record through a pipeline that has nothing else to do and looks every second."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from statistics import median

from tests.bench.brokers import create_topic
from tests.bench.pipelines_lab import OURS, Lab, commit_times, say, told, write_pipeline
from tests.support.waiting import wait_until

TOPIC = "idle"
RECORDS = 15
READY_S = 120.0
EVENT = b'{"carrier":"UA","flight":1,"time_hour":"2013-01-01T10:00:00Z"}'


def measure(lab: Lab) -> None:
    """Seconds from the call that sends a record to the commit that has it."""
    create_topic(lab.bootstrap, TOPIC, 1)
    with lab.folder() as folder:
        file = write_pipeline(folder, TOPIC, ("flights",), "dead_letter", trigger="1s")
        command = [sys.executable, "-m", "josefine_cli.main", "pipeline", "run", str(file)]
        with (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                env={**os.environ, **lab.environment(folder)},
            )  # fmt: skip
        try:
            seconds = _seconds(lab, folder)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(READY_S)
    say(f"idle: {[round(each, 2) for each in seconds]}")
    told(
        {
            "measure": "pipelines.record_through_idle",
            "unit": "s",
            OURS: round(median(seconds), 2),
            "worst": round(max(seconds), 2),
            "records": len(seconds),
        }
    )


def _seconds(lab: Lab, folder: Path) -> list[float]:
    from confluent_kafka import Producer

    producer, found = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0}), []
    chance = Random(7)
    for number in range(RECORDS + 1):
        sent_s = time.time()
        producer.produce(TOPIC, EVENT)
        producer.flush(10)
        wait_until(
            lambda so_many=number: len(commit_times(folder, "flights")) > so_many,
            READY_S,
            f"the commit of record {number}",
        )
        if number:  # the first one waits for the start
            found.append(commit_times(folder, "flights")[-1] - sent_s)
        # At any moment between two looks.
        time.sleep(chance.uniform(0.5, 1.5))
    return found
