"""librdkafka itself through ctypes, so that no Python runs per record.

The library is the one inside confluent-kafka's wheel. A Python call per record would cap a client
at about a million records a second, and every broker would look alike. Run as its own process:

    python -m tests.bench.librdkafka VERB BOOTSTRAP TOPIC COUNT SIZE [KEY=VALUE ...]

It prints one JSON object. `produce` deals its batches out to `partitions=N` (default 1); `transact`
writes them to partition 0 in transactions of `records=N` (default 1,000), of which every
`aborts=N`th is aborted (default none); `consume` reads partition 0 and passes each message to a
function of librdkafka's own that only looks at it.
"""

import ctypes
import json
import sys
import time
from ctypes.util import find_library
from pathlib import Path

import confluent_kafka

PRODUCER, CONSUMER = 0, 1
BATCH = 10_000
OFFSET_BEGINNING = -2
QUEUE_FULL = -184
TIMEOUT_S = 120.0
DELIVERY_EVENTS = 1
"""RD_KAFKA_EVENT_DR. Told by events, of failures alone, its flush ends with the last answer; else
it looks every 10 ms, and no broker would be faster than that."""


class Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", ctypes.c_int),
        ("rkt", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("payload", ctypes.c_void_p),
        ("len", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_len", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", ctypes.c_void_p),
    )


def library() -> str:
    """The wheel's own library, else the system's (confluent-kafka was built from source)."""
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    found = next((str(path) for path in folder.glob("librdkafka*")), find_library("rdkafka"))
    if found is None:
        raise SystemExit("no librdkafka: neither in confluent-kafka's wheel nor on the system")
    return found


def load() -> ctypes.CDLL:
    lib = ctypes.CDLL(library())
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    lib.rd_kafka_conf_new.restype = pointer
    lib.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
    lib.rd_kafka_conf_set_events.argtypes = [pointer, ctypes.c_int]
    lib.rd_kafka_new.restype = pointer
    lib.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    lib.rd_kafka_topic_new.restype = pointer
    lib.rd_kafka_topic_new.argtypes = [pointer, text, pointer]
    lib.rd_kafka_produce_batch.argtypes = [
        pointer, ctypes.c_int32, ctypes.c_int, ctypes.POINTER(Message), ctypes.c_int,
    ]  # fmt: skip
    lib.rd_kafka_flush.argtypes = [pointer, ctypes.c_int]
    lib.rd_kafka_poll.argtypes = [pointer, ctypes.c_int]
    lib.rd_kafka_outq_len.argtypes = [pointer]
    lib.rd_kafka_consume_start.argtypes = [pointer, ctypes.c_int32, ctypes.c_int64]
    lib.rd_kafka_consume_stop.argtypes = [pointer, ctypes.c_int32]
    lib.rd_kafka_consume.argtypes = [pointer, ctypes.c_int32, ctypes.c_int]
    lib.rd_kafka_consume.restype = ctypes.POINTER(Message)
    lib.rd_kafka_message_destroy.argtypes = [ctypes.POINTER(Message)]
    lib.rd_kafka_consume_callback.argtypes = [
        pointer, ctypes.c_int32, ctypes.c_int, pointer, pointer,
    ]  # fmt: skip
    transactional = {
        "init_transactions": [pointer, ctypes.c_int],
        "begin_transaction": [pointer],
        "commit_transaction": [pointer, ctypes.c_int],
        "abort_transaction": [pointer, ctypes.c_int],
    }
    for name, arguments in transactional.items():
        function = getattr(lib, f"rd_kafka_{name}")
        function.argtypes, function.restype = arguments, pointer
    lib.rd_kafka_error_string.argtypes, lib.rd_kafka_error_string.restype = [pointer], text
    return lib


def handle(
    lib: ctypes.CDLL, kind: int, bootstrap: str, settings: dict[str, str], events: int = 0
) -> int:
    conf = lib.rd_kafka_conf_new()
    lib.rd_kafka_conf_set_events(conf, events)
    error = ctypes.create_string_buffer(512)
    for key, value in {"bootstrap.servers": bootstrap, **settings}.items():
        if lib.rd_kafka_conf_set(conf, key.encode(), value.encode(), error, 512):
            raise SystemExit(error.value.decode())
    client = lib.rd_kafka_new(kind, conf, error, 512)
    if not client:
        raise SystemExit(error.value.decode())
    return client


def payload_of(size: int) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer((bytes(range(33, 127)) * (size // 90 + 1))[:size], size)


def produce(bootstrap: str, topic_name: str, count: int, size: int, settings: dict[str, str]):
    lib = load()
    settings = {
        "queue.buffering.max.messages": "1000000",
        "queue.buffering.max.kbytes": "1000000",
        "linger.ms": "5",
        "batch.num.messages": "1000000",
        "batch.size": "1000000",
        "message.send.max.retries": "5",
        **settings,
    }
    partitions = int(settings.pop("partitions", "1"))
    client = handle(lib, PRODUCER, bootstrap, settings)
    topic = lib.rd_kafka_topic_new(client, topic_name.encode(), None)
    payload = payload_of(size)
    template = Message(payload=ctypes.addressof(payload), len=size)
    messages = (Message * BATCH)(*[template] * BATCH)
    warm_up = lib.rd_kafka_produce_batch(topic, 0, 0, messages, 1)
    if warm_up != 1 or lib.rd_kafka_flush(client, 30_000):
        raise SystemExit("the first record was not acknowledged within 30 s")
    started = time.perf_counter()
    left, turn = count - 1, 0
    while left:
        wanted = min(BATCH, left)
        done = lib.rd_kafka_produce_batch(topic, turn % partitions, 0, messages, wanted)
        left -= done
        turn += 1
        if done < wanted:
            # produce_batch marks what it took in place, and a full queue ends it.
            for message in messages[done:wanted]:
                message.err = 0
            lib.rd_kafka_poll(client, 5)
    if lib.rd_kafka_flush(client, int(TIMEOUT_S * 1000)):
        raise SystemExit(f"{lib.rd_kafka_outq_len(client)} records were not acknowledged")
    return time.perf_counter() - started


def transact(bootstrap: str, topic_name: str, count: int, size: int, settings: dict[str, str]):
    lib = load()
    records, aborts = int(settings.pop("records", "1000")), int(settings.pop("aborts", "0"))
    settings = {
        "transactional.id": topic_name,
        "linger.ms": "0",
        "delivery.report.only.error": "true",
        **settings,
    }
    client = handle(lib, PRODUCER, bootstrap, settings, DELIVERY_EVENTS)
    topic = lib.rd_kafka_topic_new(client, topic_name.encode(), None)
    payload = payload_of(size)
    template = Message(payload=ctypes.addressof(payload), len=size)
    messages = (Message * records)(*[template] * records)

    def check(error: int | None) -> None:
        if error:
            raise SystemExit(lib.rd_kafka_error_string(error).decode())

    def one(*, is_commit: bool) -> None:
        check(lib.rd_kafka_begin_transaction(client))
        if lib.rd_kafka_produce_batch(topic, 0, 0, messages, records) != records:
            raise SystemExit(f"librdkafka's queue does not take {records} records")
        end = lib.rd_kafka_commit_transaction if is_commit else lib.rd_kafka_abort_transaction
        if not is_commit and lib.rd_kafka_flush(client, int(TIMEOUT_S * 1000)):
            raise SystemExit("records were not acknowledged")
        check(end(client, int(TIMEOUT_S * 1000)))

    check(lib.rd_kafka_init_transactions(client, 30_000))
    one(is_commit=True)
    started = time.perf_counter()
    for number in range(1, count):
        one(is_commit=not aborts or number % aborts != 0)
    return (time.perf_counter() - started) * count / (count - 1)


def consume(bootstrap: str, topic_name: str, count: int, size: int, settings: dict[str, str]):
    lib = load()
    settings = {
        "queued.min.messages": "1000000",
        "fetch.message.max.bytes": "8388608",
        "queued.max.messages.kbytes": "262144",
        "fetch.wait.max.ms": "100",
        "check.crcs": "false",
        **settings,
    }
    client = handle(lib, CONSUMER, bootstrap, settings)
    topic = lib.rd_kafka_topic_new(client, topic_name.encode(), None)
    look = ctypes.cast(lib.rd_kafka_message_errstr, ctypes.c_void_p)
    lib.rd_kafka_consume_start(topic, 0, OFFSET_BEGINNING)
    deadline = time.perf_counter() + TIMEOUT_S
    wait_for_first_record(lib, topic, deadline)
    seen, started = 1, time.perf_counter()
    while seen < count:
        got = lib.rd_kafka_consume_callback(topic, 0, 1000, look, None)
        if got < 0 or time.perf_counter() > deadline:
            raise SystemExit(f"consumed {seen} of {count} records ({got})")
        seen += got
    seconds = time.perf_counter() - started
    lib.rd_kafka_consume_stop(topic, 0)
    return seconds * count / (count - 1)


def wait_for_first_record(lib: ctypes.CDLL, topic: int, deadline: float) -> None:
    """Finding the leader and the first offset takes up to a second of librdkafka's timers, which
    is not the broker's time. Events without a record come first: a callback would count them."""
    while time.perf_counter() < deadline:
        message = lib.rd_kafka_consume(topic, 0, 100)
        if message:
            is_record = message.contents.err == 0
            lib.rd_kafka_message_destroy(message)
            if is_record:
                return
    raise SystemExit(f"no record within {TIMEOUT_S:.0f} s")


def main(arguments: list[str]) -> None:
    verb, bootstrap, topic, count, size, *rest = arguments
    settings = dict(pair.split("=", 1) for pair in rest)
    run = {"produce": produce, "transact": transact, "consume": consume}[verb]
    seconds = run(bootstrap, topic, int(count), int(size), settings)
    print(json.dumps({"seconds": seconds, "records": int(count), "bytes": int(count) * int(size)}))


if __name__ == "__main__":
    main(sys.argv[1:])
