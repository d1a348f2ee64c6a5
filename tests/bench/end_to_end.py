"""How long a record takes from a producer's call to a consumer's hands, at a steady rate.

    python -m tests.bench.end_to_end BOOTSTRAP TOPIC RATE SECONDS

Both are confluent-kafka with its defaults but for `linger.ms=0`. Each record carries the moment
when it was due. The first one is reported by itself: it pays for connections and first-time work.
Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.bench.offered_load import percentiles

SETTLED_S = 1.5
"""The consumer has a fetch in flight by then."""
END_S = 30.0


def run(bootstrap: str, topic: str, rate: float, seconds: float) -> dict[str, float]:
    sys.setswitchinterval(0.0002)
    count = int(rate * seconds)
    latencies: list[float] = []
    ready, ended = threading.Event(), threading.Event()

    def consume() -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "e2e"})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        consumer.poll(0.2)
        ready.set()
        while len(latencies) < count and not ended.is_set():
            message = consumer.poll(0.5)
            if message is not None and not message.error():
                latencies.append(time.perf_counter() - float(message.value()))
        consumer.close()

    reader = threading.Thread(target=consume)
    reader.start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(topic, timeout=30)
    ready.wait(END_S)
    time.sleep(SETTLED_S)
    started = time.perf_counter()
    for number in range(count):
        due = started + number / rate
        wait_s = due - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        producer.produce(topic, f"{due:.9f}".ljust(100), partition=0)
        producer.poll(0)
    producer.flush(END_S)
    reader.join(END_S)
    ended.set()
    if len(latencies) < count:
        raise SystemExit(f"{count - len(latencies)} of {count} records did not arrive")
    return {"first_us": round(latencies[0] * 1e6, 1), **percentiles(latencies[1:])}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))
