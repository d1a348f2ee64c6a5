"""Spark's own Kafka connector, fetched once by Maven from the pom.xml beside this file."""

from pathlib import Path

from tests.support.maven import jars_of

POM = Path(__file__).with_name("pom.xml")
NAME = "spark-sql-kafka-0-10-4.2.0"


def peer_jars() -> list[str]:
    """Paths of the jars. Raises NoJarsError: why the peer cannot be measured."""
    return jars_of(POM, NAME)
