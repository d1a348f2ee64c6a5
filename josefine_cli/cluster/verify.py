"""`josefine cluster verify`: compares the replicas of each partition by checksums of ranges.

The brokers compute them; no records are sent. Only committed offsets that every replica has are
compared. A compacted topic may differ, because each replica cleans its own log at its own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import quote

import typer

from josefine_cli.base.admin import ask
from josefine_cli.base.errors import EXIT_FAILURE, UserError
from josefine_cli.base.output import plural, print_json
from josefine_cli.base.waiting import waits
from josefine_cli.cluster.local import DEFAULT_DIRECTORY
from josefine_cli.cluster.target import Admin, AsJson, Directory, admin_urls
from josefine_cli.cluster.view import admin_url, first_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A range of offsets whose bytes are not the same on every replica."""

    partition: str
    start: int
    end: int
    checksums: dict[int, int | None]
    """By broker; None: it has a damaged batch there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The result for one partition."""

    partition: str
    offsets: int
    replicas: int
    unreachable: tuple[int, ...]
    differences: tuple[Difference, ...]


def verify(
    topic: Annotated[str | None, typer.Option(help="Only this topic's partitions.")] = None,
    admin: Admin = None,
    directory: Directory = DEFAULT_DIRECTORY,
    as_json: AsJson = False,
) -> None:
    """Compare the replicas of every partition by range checksums; changes nothing.

    \b
    josefine cluster verify
    josefine cluster verify --topic orders
    """
    results = compare_all(admin_urls(admin, directory), topic)
    if as_json:
        print_json([asdict(each) for each in results])
    else:
        _show(results)
    if any(each.differences or each.unreachable for each in results):
        raise typer.Exit(EXIT_FAILURE)


def compare_all(urls: Sequence[str], topic: str | None) -> list[Compared]:
    """Compare every partition, or those of one topic. Raises UserError."""
    view = first_view(urls)
    at = {each["id"]: admin_url(each) for each in view["brokers"]}
    wanted = [each for each in view["partitions"] if topic in (None, each["topic"])]
    if topic is not None and not wanted:
        raise UserError(f"there is no topic '{topic}'")
    results: list[Compared] = []
    with waits(lambda: f"{len(wanted) - len(results)} of {plural(len(wanted), 'partition')}"):
        for each in wanted:
            name = f"{each['topic']}-{each['partition']}"
            results.append(_compare(name, {id_: at.get(id_) for id_ in each["replicas"]}))
    return results


def _compare(name: str, replicas: dict[int, str | None]) -> Compared:
    bounds: dict[int, dict[str, Any]] = {}
    for id_, url in replicas.items():
        try:
            if url is not None:
                bounds[id_] = _ask(url, name, 0, 0)
        except UserError:
            continue
    unreachable = tuple(id_ for id_ in replicas if id_ not in bounds)
    start = max((each["log_start"] for each in bounds.values()), default=0)
    end = min((each["high_watermark"] for each in bounds.values()), default=0)
    found = {id_: _ranges(str(replicas[id_]), name, start, end) for id_ in bounds}
    differences = []
    for at in sorted({at for ranges in found.values() for at in ranges}):
        checksums = {id_: ranges.get(at) for id_, ranges in found.items()}
        if len(set(checksums.values())) > 1 or None in checksums.values():
            differences.append(
                Difference(partition=name, start=at[0], end=at[1], checksums=checksums)
            )
    return Compared(
        partition=name,
        offsets=max(0, end - start),
        replicas=len(bounds),
        unreachable=unreachable,
        differences=tuple(differences),
    )


def _ranges(url: str, name: str, start: int, end: int) -> dict[tuple[int, int], int | None]:
    found: dict[tuple[int, int], int | None] = {}
    offset: int | None = start
    while offset is not None and offset < end:
        answer = _ask(url, name, offset, end)
        found |= {(first, last): crc for first, last, crc in answer["ranges"]}
        offset = answer["next"]
    return found


def _ask(url: str, name: str, start: int, end: int) -> dict[str, Any]:
    return ask(url, f"/logs/checksums?partition={quote(name)}&start={start}&end={end}")


def _show(results: Sequence[Compared]) -> None:
    for each in results:
        for one in each.differences:
            shown = ", ".join(
                f"broker {id_} {'damaged' if crc is None else f'{crc:08x}'}"
                for id_, crc in one.checksums.items()
            )
            print(f"{each.partition}: offsets {one.start} to {one.end} differ: {shown}")
        for id_ in each.unreachable:
            print(f"{each.partition}: broker {id_} does not answer")
    wrong = sum(bool(each.differences) for each in results)
    offsets = sum(each.offsets for each in results)
    verdict = f"{plural(wrong, 'partition')} differ" if wrong else "all replicas are equal"
    print(f"{plural(len(results), 'partition')}, {plural(offsets, 'offset')} compared: {verdict}")
