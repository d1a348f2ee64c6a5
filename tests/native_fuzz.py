"""Random frames through the C of plain requests, compared with the general path, in Python; and
random lives of the threads that sync files.

    python -m tests.native_fuzz 20000                so many frames of each kind
    python -m tests.native_fuzz 20000 --sanitize     built with the address sanitizer, by gcc
    python -m tests.native_fuzz 1 --seed 42          one frame of each kind again

Frames are cut, have bits flipped, bytes replaced, removed and inserted, or lengths and counts that
are extreme; damaged batches have a valid checksum again. What the C takes, the general
path must take with the same fields, and answer with the same bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import resource
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from josefine_broker.host.disk import sync_pipes
from josefine_broker.records import plain_fetch, plain_produce
from josefine_broker.records.batch import stamp_crc
from josefine_broker.wire.fetch import FetchPartition, ForgottenTopic
from tests.build_native import MODULES, ROOT
from tests.support.sync_lives import live
from tests.unit.josefine_broker.plain_frames import NOW_MS, VERSIONS, batch_with, frame_with
from tests.unit.josefine_broker.records import test_plain_fetch as fetches
from tests.unit.josefine_broker.records import test_plain_parts as several
from tests.unit.josefine_broker.records import test_plain_produce as produces

__all__ = ["attack"]

SANITIZED = ("plain_produce", "plain_fetch", "sync_thread")
BUILT = "JOSEFINE_FUZZED"
"""The folder of the sanitized binaries, in the environment of the process that has them."""
EXTREMES = (b"\0\0\0\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 5 + b"\x0f",
            b"\x80" * 10, b"\0" * 16)  # fmt: skip
REFUSED = TypeError, ValueError, OverflowError


def held(data: bytes) -> memoryview:
    """In memory of exactly this size, so that the sanitizer sees a read of one byte more."""
    return memoryview((ctypes.c_ubyte * len(data)).from_buffer_copy(data)).cast("B")


def damaged(data: bytes, rng: Random) -> bytes:
    """Damage in one to three places."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0:
                del changed[at:]
            case 1 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 2:
                changed[at : at + 1] = rng.randbytes(1)
            case 3:
                del changed[at : at + rng.randrange(5)]
            case 4:
                changed[at:at] = rng.randbytes(rng.randrange(5))
            case _:
                extreme = rng.choice(EXTREMES)
                changed[at : at + len(extreme)] = extreme
    return bytes(changed)


def made_batch(rng: Random) -> bytes:
    values = [rng.randbytes(rng.choice((0, 1, 60, 130))) for _ in range(rng.choice((1, 1, 2, 5)))]
    producer = rng.choice(
        ((-1, -1, -1), (-1, -1, -1), (5, 0, 7), (2**63 - 1, 2**15 - 1, 2**31 - 1))
    )
    batch = batch_with(
        *values,
        key=rng.choice((b"k", None)),
        timestamp_ms=rng.choice((NOW_MS, -1)),
        producer=producer,
    )
    if rng.random() < 0.85:
        return batch
    wrong = bytearray(damaged(batch, rng))
    if len(wrong) > 61:
        if rng.random() < 0.7:
            struct.pack_into(">i", wrong, 8, len(wrong) - 12)
        stamp_crc(wrong)
    return bytes(wrong)


def produce_frame(rng: Random) -> bytes:
    version = rng.choice(VERSIONS)
    batches = [
        [(rng.choice((0, 1, 70_000)), made_batch(rng)) for _ in range(rng.choice((1, 1, 2, 4)))]
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    topics = several.named(version, *batches)
    return bytes(frame_with(topics, version=version, acks=rng.choice((1, -1))))


def produce(data: bytes, rng: Random, met: Counter[str]) -> None:
    """One frame, by `parse` and by `parse_parts`."""
    extension, view = several.extension(), held(data)
    one, parts = extension.parse(view), extension.parse_parts(view)
    assert one is None or parts is None, "taken in both ways"
    if one is not None:
        met["one batch taken"] += 1
        assert one == produces.taken_by_the_general_path(view)
    found = parts or ([] if one is None else [one])
    if parts is not None:
        met["several batches taken"] += 1
        assert parts == several.by_the_general_path(view)
    offsets = [rng.randrange(2**62) for _ in found]
    starts = [rng.randrange(2**62) for _ in found]
    if parts is None:  # positions that are not those of this frame
        with suppress(*REFUSED):
            extension.answer_parts(view, [1] * rng.randrange(4), [0] * rng.randrange(4))
    else:
        assert extension.answer_parts(view, offsets, starts) == several.encoded(
            view, offsets, starts
        )
    if one is not None:
        answered = extension.answers([one], offsets[0], starts[0])
        assert answered == [several.encoded(view, offsets, starts)]
    if found:
        assembled(extension, found, view, rng)
    else:
        met["produce request left"] += 1


def assembled(extension: Any, found: list[Any], view: memoryview, rng: Random) -> None:
    """The log's bytes of some parsed batches, and what tampered ones do."""
    size = sum(each[6] for each in found)
    data, end_offset, *_ = extension.assemble(found, size, 1000, 3, 0, -1, 4096, -1)
    wanted, offset = b"", 1000
    for each in found:
        batch = bytes(view[each[5] : each[5] + each[6]])
        wanted += struct.pack(">q", offset) + batch[8:12] + struct.pack(">i", 3) + batch[16:]
        offset += each[7]
    assert (bytes(data), end_offset) == (wanted, offset)
    number, field = rng.randrange(len(found)), rng.randrange(15)
    odd = rng.choice((-1, 0, 2**31 - 1, 2**62, 2**70, None, b"", held(b"x" * 70), (), (b"", 0)))
    changed = list(found)
    changed[number] = (*found[number][:field], odd, *found[number][field + 1 :])
    for call in (
        partial(extension.survey, changed),
        partial(extension.assemble, changed, size, 1000, 3, 0, -1, 4096, -1),
        partial(extension.answers, changed, 5, 0),
    ):
        with suppress(*REFUSED):
            call()


def fetch_frame(rng: Random) -> bytes:
    def part() -> FetchPartition:
        fields = rng.choice((0, 1, 70_000)), rng.choice((-1, 3)), rng.randrange(2**62)
        return fetches.PARTITION._replace(
            index=fields[0], current_leader_epoch=fields[1], fetch_offset=fields[2],  # type: ignore[arg-type]
            max_bytes=rng.randrange(2**31),
        )  # fmt: skip

    first = [part() for _ in range(rng.choice((0, 1, 1, 2, 5, 40)))]
    more = tuple(part() for _ in range(rng.choice((0, 0, 1, 3))))
    session: dict[str, Any] = rng.choice(({}, {"session_id": 9, "session_epoch": 3}))
    version = rng.choice(fetches.VERSIONS)
    if session and version >= 7 and rng.random() < 0.6:
        named = ("", fetches.TOPIC_ID) if version >= fetches.ID_SINCE else ("orders", None)
        indexes = tuple(rng.randrange(9) for _ in range(rng.choice((1, 3, 40))))
        session = {**session, "forgotten": (ForgottenTopic(*named, indexes),)}
    isolation = rng.randrange(2)
    return bytes(
        fetches.frame_of(*first, version=version, more=more, isolation_level=isolation, **session)
    )


def fetch(data: bytes, rng: Random, met: Counter[str]) -> None:
    """One frame, and an answer to it."""
    extension, view = fetches.extension(), held(data)
    found = extension.parse(view)
    if found is None:
        met["fetch left"] += 1
        return
    met["fetch taken"] += 1
    assert found == fetches.taken_by_the_general_codec(view)
    parts = [
        (topic, index, rng.randrange(2**62), rng.randrange(2**62), 0, rng.choice((0, 1, 300)))
        for topic, index, *_ in found[0]
    ]
    extension.answer(found, rng.randrange(2**31), parts)
    odd = rng.choice((-1, 2**31, 2**62, 2**70, None, b"x" * 127, (), [parts] * 3))
    field = rng.randrange(10)
    with suppress(*REFUSED):
        extension.answer((*found[:field], odd, *found[field + 1 :]), 0, parts)  # type: ignore[arg-type]


SYNC_EVERY = 100
"""A life takes as long as so many frames."""


def sync(data: bytes, rng: Random, met: Counter[str]) -> None:
    start = sync_pipes.compiled
    if start is not None and not rng.randrange(SYNC_EVERY):
        live(start, rng)
        met["lives of threads that sync"] += 1


KINDS: dict[str, tuple[Callable[[Random], bytes], Callable[..., None]]] = {
    "produce": (produce_frame, produce),
    "fetch": (fetch_frame, fetch),
    "sync": (lambda rng: b"", sync),
}


def attack(kind: str, seed: int, met: Counter[str]) -> None:
    """One frame of a seed, whole or damaged."""
    rng = Random(seed)
    make, judge = KINDS[kind]
    data = make(rng)
    if rng.random() < 0.6:
        data = damaged(data, rng)
    try:
        judge(data, rng, met)
    except Exception as error:
        error.add_note(f"python -m tests.native_fuzz 1 --seed {seed}: {kind} {data.hex()}")
        raise


def sanitized(arguments: list[str]) -> int:
    """The same in a process that has binaries with the sanitizer."""
    include = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory(prefix="josefine-fuzz-") as folder:
        for module in SANITIZED:
            subprocess.run(
                ["gcc", "-shared", "-fPIC", "-O1", "-g", "-fsanitize=address,undefined",
                 "-fno-sanitize-recover=undefined", f"-I{include}", "-o", f"{folder}/{module}.so",
                 str(ROOT / MODULES[module] / f"{module}.c")],
                check=True,
            )  # fmt: skip
        libraries = [
            subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
            for name in ("libasan.so", "libubsan.so")
        ]
        env = {
            "LD_PRELOAD": ":".join(libraries), "PYTHONMALLOC": "malloc", BUILT: folder,
            "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
        }  # fmt: skip
        command = [sys.executable, "-m", "tests.native_fuzz", *arguments]
        return subprocess.run(command, env={**os.environ, **env}, check=False).returncode


def use_sanitized(folder: str) -> None:
    """Put the binaries with the sanitizer in the places of the others."""
    loaded: dict[str, Any] = {}
    for name in SANITIZED:
        spec = importlib.util.spec_from_file_location(name, Path(folder) / f"{name}.so")
        assert spec is not None
        assert spec.loader is not None
        loaded[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded[name])
    for each in (plain_produce, produces, several):
        vars(each)["compiled"] = loaded["plain_produce"]
    for each in (plain_fetch, fetches):
        vars(each)["compiled"] = loaded["plain_fetch"]
    sync_pipes.compiled = loaded["sync_thread"].start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frames", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sanitize", action="store_true")
    asked = parser.parse_args()
    if asked.sanitize:
        return sanitized([str(asked.frames), "--seed", str(asked.seed)])
    if folder := os.environ.get(BUILT):
        use_sanitized(folder)
        print("with the address sanitizer")
    met: Counter[str] = Counter()
    for kind in KINDS:
        for seed in range(asked.seed, asked.seed + asked.frames):
            attack(kind, seed, met)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{dict(met)}, peak memory {peak} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
