"""Texts of config values: read as Java's parsers read them, printed as Java prints them.

What an Apache Kafka says of the texts of each config is replayed by
tests/compat/test_config_verdicts.py.
"""

import math
from random import Random

import pytest

from josefine_broker.engine.metadata.config_texts import ConfigType, Value, printed, read_value

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (INT, "007", 7),
        (INT, " +7\n", 7),
        (INT, "-2147483648", -(2**31)),
        (INT, "\u0667", 7),
        (INT, "0" * 5_000 + "7", 7),
        (LONG, "9223372036854775807", 2**63 - 1),
        (BOOLEAN, "\tTrUe ", True),
        (STRING, " gzip ", "gzip"),
        (LIST, "", ()),
        (LIST, " , ", ("", "")),
        (LIST, " a , b\t,\nc ", ("a", "b", "c")),
        (DOUBLE, "1.0E-4", 1e-4),
        (DOUBLE, ".5f", 0.5),
        (DOUBLE, "1.D", 1.0),
        (DOUBLE, "0x1.8p-1f", 0.75),
        (DOUBLE, "-0X.8P1d", -1.0),
        (DOUBLE, "1e999", math.inf),
        (DOUBLE, "-0x1p99999", -math.inf),
        (DOUBLE, "0x1p-99999", 0.0),
    ],
)
def test_text_is_read_as_java_reads_it(kind: ConfigType, text: str, value: Value) -> None:
    assert read_value(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (INT, ""),
        (INT, "2147483648"),
        (INT, "9" * 5_000),
        (INT, "1_000"),
        (INT, "7\u2003"),
        (INT, "\U0001d7d5"),
        (LONG, "-9223372036854775809"),
        (LONG, "7L"),
        (BOOLEAN, "yes"),
        (BOOLEAN, ""),
        (DOUBLE, "nan"),
        (DOUBLE, "0x1"),
        (DOUBLE, "0.5ff"),
        (DOUBLE, "NaNd"),
        (DOUBLE, "0.\u0665"),
        (DOUBLE, "."),
    ],
)
def test_text_that_java_does_not_read_is_refused(kind: ConfigType, text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        read_value(kind, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        ((), ""),
        (("a", "", "b"), "a,,b"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (9.999e-4, "9.999E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.2345678e7, "1.2345678E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_value_is_printed_as_java_prints_it(value: Value, text: str) -> None:
    assert printed(value) == text


def test_printed_number_is_read_as_itself() -> None:
    rng = Random(1)
    for _ in range(1_000):
        value = rng.uniform(-10, 10) * 10.0 ** rng.randint(-300, 300)

        assert read_value(DOUBLE, printed(value)) == value
