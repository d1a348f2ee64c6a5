"""The delivery log: one line per write, in the process's log and in the file of `deliveryLog`."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage

from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import SinkOptions
from josefine_spark.write.delivery import DeliveryCounts, append_line

log = logging.getLogger("josefine.spark.delivery")
log.setLevel(logging.INFO)  # a Python worker's own level is WARNING


@dataclass
class TaskWritten(WriterCommitMessage):
    """A task's commit message: what it wrote."""

    delivery: DeliveryCounts = field(default_factory=DeliveryCounts)


def check_delivery_log(options: SinkOptions) -> None:
    """Raises OptionError if the file cannot be written."""
    if options.delivery_log is None:
        return
    try:
        append_line(Path(options.delivery_log), None)
    except OSError as error:
        raise OptionError(f"deliveryLog: {options.delivery_log}: {error.strerror}") from error


def log_delivery(
    messages: Sequence[WriterCommitMessage | None], batch_id: int | None, file: str | None
) -> None:
    """Log one JSON line with the delivery counts of all tasks of a write."""
    whole = DeliveryCounts()
    for message in messages:
        if isinstance(message, TaskWritten):
            whole.add(message.delivery)
    line = whole.line(batch_id)
    log.info("%s", line)
    if file is not None:
        try:
            append_line(Path(file), line)
        except OSError as error:  # the rows are delivered: no reason to fail
            log.warning("deliveryLog: %s: %s", file, error.strerror)
