"""The errors of the connector; each message is one sentence with the remedy."""

from josefine_broker.base.errors import KafkaError


class OptionError(ValueError):
    """An option that is unknown, missing, contradictory or not of its type."""


class DataLossError(RuntimeError):
    """Records that the query must read are lost; the message names the exact ranges."""


class ReadError(RuntimeError):
    """The broker did not return existing records within the timeout."""


class SinkError(RuntimeError):
    """Rows cannot be written as they are, or the broker did not accept them."""


class LossTableError(RuntimeError):
    """Lost ranges cannot be recorded; they are written when the query starts again."""


def reason(error: KafkaError) -> str:
    """The message of a broker's or client's error, or the name of its code if it has none."""
    return error.message or error.code.name.replace("_", " ")
