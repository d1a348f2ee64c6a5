"""Reader of the `metrics` section of a pipeline file: where a run reports its progress."""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.addresses import HostPort, parse_host_port
from pipelines.config.output_paths import in_store, local_folder
from pipelines.config.section import Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricWords:
    """The Prometheus listener, the metric table's folder, whether progress is logged as JSON."""

    prometheus: HostPort | None = None
    table: str | None = None
    json_log: bool = False


def metrics_of(top: Reader) -> MetricWords:
    """The values of the section; defaults if there is none."""
    reader = top.section_of("metrics")
    if reader is None:
        return MetricWords()
    return MetricWords(
        prometheus=_prometheus(reader),
        table=_table(reader),
        json_log=reader.choice("log") == "json",
    )


def _prometheus(reader: Reader) -> HostPort | None:
    text = reader.text("prometheus") if reader.has("prometheus") else None
    if text is None:
        return None
    try:
        at = parse_host_port(text)
    except ValueError as error:
        reader.wrong_at("prometheus", str(error))
        return None
    if at.port == 0:
        reader.wrong_at("prometheus", "port 0 cannot be scraped: expected a port from 1 to 65535")
    return at


def _table(reader: Reader) -> str | None:
    """A local folder or one in a store: the table is written without Spark, which alone resolves
    names of a catalog."""
    given = reader.folder("table") if reader.has("table") else None
    if given is None or in_store(given):
        return given
    local, text = local_folder(given), reader.placed("table").text
    if "/" not in text or local is None:
        where = "in a catalog" if local else "in another kind of store"
        message = "expected a folder such as /data/progress or s3a://BUCKET/progress; "
        message += f"`{text}` is {where}"
        reader.wrong_at("table", message)
    return local
