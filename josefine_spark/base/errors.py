"""What the connector can say went wrong, each in one sentence that says what to do."""

from josefine_broker.base.errors import KafkaError


class OptionError(ValueError):
    """An option that is unknown, missing, contradictory or not of its type."""


class DataLossError(RuntimeError):
    """Records that the query was promised are gone; the message names the exact ranges."""


class ReadError(RuntimeError):
    """The broker did not give the records it has, within the time allowed."""


class SinkError(RuntimeError):
    """Rows that cannot be written as they are, or a broker that did not take them."""


class LossTableError(RuntimeError):
    """What was lost cannot be written down; nothing was forgotten."""


def reason(error: KafkaError) -> str:
    """A broker's or client's error in words, its code only where it says nothing else."""
    return error.message or error.code.name.replace("_", " ")
