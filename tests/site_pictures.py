"""Pictures of the site, made from running processes: the dashboard, `cluster watch`, a pipeline.

`python -m tests.site_pictures` writes docs/assets; it needs Chromium. A cluster of three brokers
with some traffic is started for it, and the controller is killed once, so that the chain has a
new term. With `--all FOLDER` every page of the dashboard is drawn there at two widths, to look at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from itertools import pairwise
from pathlib import Path
from random import Random

from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_cli.cluster.watch import COLUMNS, Poller, changes, rows, scene_of, summary, table_of
from tests.support.chromium import Page, page
from tests.support.cli import COMMAND, environment
from tests.support.cluster import REPLICATED, Cluster
from tests.support.dashboard import dashboard

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"
SCHEMES = ("light", "dark")
WIDE, NARROW = 1280, 400
BYTES_MAX = 150_000
CHART_POINTS = 20
"""Polls before the pictures: the chart shows them."""
PAGES = {
    "overview": "#/", "topics": "#/topics", "topic": "#/topics/orders", "groups": "#/groups",
    "group": "#/groups/billing", "messages": "#/messages?topic=orders", "chain": "#/chain",
    "timeline": "#/timeline", "access": "#/access", "pipelines": "#/pipelines",
    "transactions": "#/transactions", "changes": "#/changes",
}  # fmt: skip
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
:root {{ color-scheme: light dark }} body {{ margin: 0; padding: 14px 18px; background: {back};
color: {text} }} pre {{ margin: 0; font: 13px/1.5 "DejaVu Sans Mono", monospace }}
</style><pre>{shown}</pre>"""


@contextmanager
def traffic(cluster: Cluster) -> Iterator[None]:
    """Topics with records that come all the time, and a group that reads them."""
    stop = threading.Event()
    with BlockingClient(cluster.bootstrap) as client:
        client.create_topics([NewTopic("orders", partitions=6), NewTopic("payments", partitions=3)])
        for name in ("orders", "payments"):
            client.partition_count(name)
    thread = threading.Thread(target=_produce, args=(cluster.bootstrap, stop))
    thread.start()
    readers = [
        subprocess.Popen(
            [*COMMAND, "consume", "orders", "--group", "billing", "--follow"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(cluster.bootstrap),
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for each in readers:
            each.terminate()
            each.wait(30)


def _produce(bootstrap: str, stop: threading.Event) -> None:
    """Orders in a rhythm that goes up and down, so that the chart has a shape."""
    rng, number = Random(1), 0
    with BlockingClient(bootstrap) as client:
        producer = BlockingProducer(client)
        while not stop.wait(0.2):
            for _ in range(rng.randrange(20, 120)):
                number += 1
                customer = rng.choice(["ada", "grace", "edsger", "barbara", "leslie"])
                order = {
                    "id": number, "customer": customer, "amount": round(rng.uniform(3, 900), 2),
                    "items": rng.randrange(1, 6), "paid": rng.random() < 0.8,
                }  # fmt: skip
                headers = (("source", b"shop"),)
                producer.send("orders", customer.encode(), json.dumps(order).encode(), headers)
                if order["paid"]:
                    producer.send("payments", None, json.dumps({"order": number}).encode(), ())
            producer.flush()


async def _opened(tab: Page, name: str, scheme: str, width: int, height: int) -> None:
    await tab.look(scheme=scheme, width=width, height=height)
    await tab.run(f"location.hash = {json.dumps(PAGES[name])}")
    await tab.until("!!document.querySelector('.page:not([hidden]) h2')")
    ready = "!document.querySelector('main').innerText.match(/asking …|reading …/)"
    await tab.until(ready)
    if name == "pipelines":
        await tab.until("document.querySelectorAll('#pipelines .graph').length > 0")
    await tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    if name == "overview":
        await tab.until("document.querySelectorAll('#recent tbody tr').length > 0")


async def _draw(url: str, folder: Path, every_page: bool) -> None:
    async with page(url) as tab:
        await tab.until("typeof view == 'object' && view !== null")
        await tab.until(f"points.length >= {CHART_POINTS}")
        for scheme in SCHEMES:
            if every_page:
                for name in PAGES:
                    for width in (WIDE, NARROW):
                        await _opened(tab, name, scheme, width, 800)
                        await tab.picture(folder / f"{name}-{width}-{scheme}.png")
                continue
            for name, height in (("overview", 960), ("messages", 600), ("group", 900)):
                await _opened(tab, name, scheme, WIDE, height)
                await tab.picture(folder / f"dashboard-{name}-{scheme}.png", beyond=False)
            await _opened(tab, "pipelines", scheme, WIDE, 720)
            await tab.picture(folder / f"pipeline-graph-{scheme}.png", of=".graph")


def _watched(cluster: Cluster) -> str:
    """What `josefine cluster watch` shows after the controller was killed and came back."""
    from rich.console import Console, Group
    from rich.text import Text

    poller = Poller([broker.admin_url for broker in cluster.brokers.values()])
    controller = cluster.controller()
    scenes = [scene_of(poller.poll(), None)]
    cluster.kill(controller)
    cluster.wait_settled()
    scenes.append(scene_of(poller.poll(), scenes[-1]))
    cluster.restart(controller)
    cluster.wait_settled()
    answers = poller.poll()
    scenes.append(scene_of(answers, scenes[-1]))
    fell, came = (list(changes(one, other)) for one, other in pairwise(scenes))
    # All of the failure; of the return, where each partition changes once more, the broker alone.
    now = time.strftime("%H:%M:%S")
    said = [f"{now} {each}" for each in (*fell, *(x for x in came if x.startswith("broker")))]
    console = Console(record=True, width=96, file=open("/dev/null", "w"))  # noqa: SIM115
    shown = table_of(COLUMNS, rows(scenes[-1], answers))
    console.print(Group(summary(scenes[-1]), shown, "", Text("\n".join(said[:24]))))
    return console.export_text().rstrip()


async def _draw_terminal(text: str, folder: Path) -> None:
    shown = f"$ josefine cluster watch\n{text}"
    async with page("about:blank") as tab:
        for scheme, back, fore in (("light", "#f4f6f8", "#1b1f24"), ("dark", "#171c23", "#e6edf3")):
            content = TERMINAL.format(back=back, text=fore, shown=escape(shown))
            await tab.look(scheme=scheme, width=860, height=100)
            await tab.run(
                f"document.open(); document.write({json.dumps(content)}); document.close()"
            )
            await tab.picture(folder / f"cluster-watch-{scheme}.png")


def main() -> None:
    """Start everything, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, help="every page of the dashboard, into this folder")
    wanted = parser.parse_args()
    folder = wanted.all or ASSETS
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made, Cluster(Path(made), **REPLICATED) as cluster:
        with traffic(cluster):
            text = _watched(cluster)
            file = Path(made) / "orders.yaml"
            file.write_text(_pipeline(cluster.bootstrap, "/data"))
            options = ("--allow-changes", "--pipeline", str(file))
            with dashboard(cluster.brokers[1], *options) as url:
                asyncio.run(_draw(url, folder, wanted.all is not None))
        if not wanted.all:
            asyncio.run(_draw_terminal(text, folder))
    for drawn in sorted(folder.glob("*.png")):
        size = drawn.stat().st_size
        print(f"{drawn.name}: {size:,} bytes{'  TOO LARGE' if size > BYTES_MAX else ''}")


def _pipeline(bootstrap: str, folder: str) -> str:
    return f"""\
version: 1
name: orders_to_lake
trigger: {{ every: 5s }}
spark: {{ checkpoint: {folder}/lake/checkpoints }}
sources:
  orders:
    type: josefine
    bootstrap: {bootstrap}
    topics: [orders]
    decode:
      value:
        format: json
        schema: "id BIGINT, customer STRING, amount DOUBLE, items INT, paid BOOLEAN"
        on_error: dead_letter
transforms:
  paid:
    inputs: [orders]
    sql: select value.* from orders where value.paid
  large:
    inputs: [paid]
    sql: select * from paid where amount >= 500
checks:
  has_a_customer: {{ on: paid, expr: customer is not null, action: dead_letter }}
  positive_amount: {{ on: paid, expr: amount > 0, action: drop }}
sinks:
  paid_orders: {{ inputs: [paid], type: delta, mode: append, path: {folder}/lake/paid_orders }}
  large_orders: {{ inputs: [large], type: delta, mode: append, path: {folder}/lake/large_orders }}
dead_letter: {{ type: delta, path: {folder}/lake/dead_letters }}
"""


if __name__ == "__main__":
    main()
