"""docs/reference/errors.md: exit codes, verdicts, errors of the journal, codes of the protocol."""

import inspect
from collections.abc import Iterator, Mapping

from josefine_broker.base.errors import ErrorCode
from josefine_journal import errors as journal_errors
from pipelines.exactly_once.offset_chain import Verdict
from tests.pages.kafka_errors import CAUSES, answered
from tests.pages.markdown import cell, table
from tests.pages.verdicts import EXIT_CODES, VERDICTS

JOURNAL_FIXES: Mapping[str, str] = {
    "ConcurrentWriter": "Read the journal again from the last event that you know, then append.",
    "RecordsGone": "Read with the store: `store=Path(...)` or `--store`.",
    "RecordsLost": "`josefine journal replicate TOPIC --lost skip` continues without them.",
    "TopicWidened": "`josefine journal move TOPIC` moves the journals to their new partitions.",
    "JournalMoved": "Open the topic again: restart the process.",
    "TopicCompacted": "`josefine topics alter TOPIC --config cleanup.policy=delete`",
    "DataIntegrityViolated": "`josefine journal read TOPIC ID --duplicates skip` takes the first.",
    "ReadersBusy": "Read fewer journals at a time, or give `Readers` a larger multiplier.",
    "StoreError": "The message names what the folder has; choose another folder.",
    "Overtaken": "Nothing: another replicator stored the events.",
}
"""Class of `josefine_journal/errors.py` → the fix."""


def page() -> str:
    """The whole page. A missing verdict or code fails here, not in a reader's hands."""
    assert set(VERDICTS) == set(Verdict), "tests/pages/verdicts.py lacks a verdict"
    assert set(CAUSES) == answered(), set(CAUSES) ^ answered()
    assert set(JOURNAL_FIXES) == {kind.__name__ for kind in journal_kinds()}
    return "\n".join(lines()) + "\n"


def journal_kinds() -> list[type[Exception]]:
    """The errors of the journal that a caller may handle."""
    kinds = inspect.getmembers(journal_errors, inspect.isclass)
    return [kind for name, kind in kinds if name != "JournalError"]


def lines() -> Iterator[str]:
    """Four tables: who meets the error decides where it is."""
    yield from (
        "# Errors and verdicts",
        "",
        "Every exit code, every verdict with which a pipeline stops, the errors of the journal,",
        "and every error code of the protocol that a broker answers with: the cause and the fix.",
        "Written by `./build.sh docs`. A message that is not here is a sentence of its own: it",
        "names what is wrong, where, and what to do.",
        "",
        "## Exit codes of the command",
        "",
    )
    codes = ((str(code), each.cause, each.fix) for code, each in EXIT_CODES.items())
    yield from table(("code", "cause", "fix"), codes)
    yield from (
        "",
        "## Verdicts of pipelines",
        "",
        "A verdict is a stop that a person decides: nothing of the batch was written. The message",
        "has the offsets of table and checkpoint, and the commands. [When a run",
        "stops](pipelines/when-it-stops.md) explains them; [Debug a stopped",
        "pipeline](../how-to/debug-a-pipeline.md) is a guide.",
        "",
    )
    verdicts = ((cell(v.value), VERDICTS[v].cause, cell(VERDICTS[v].fix)) for v in Verdict)
    yield from table(("verdict", "usual cause", "fix that is usually right"), verdicts)
    yield from ("", "## Errors of the journal", "", "Classes of `josefine_journal.errors`.", "")
    kinds = (
        (f"`{kind.__name__}`", cell(inspect.getdoc(kind) or ""), JOURNAL_FIXES[kind.__name__])
        for kind in journal_kinds()
    )
    yield from table(("class", "meaning", "fix"), kinds)
    yield from (
        "",
        "## Error codes of the protocol",
        "",
        "Kafka's codes, as clients print them. Most clients retry by themselves where the fix is",
        "'Nothing'.",
        "",
    )
    rows = (
        (str(ErrorCode[name].value), f"`{name.upper()}`", *(cell(part) for part in CAUSES[name]))
        for name in sorted(CAUSES, key=lambda name: ErrorCode[name].value)
    )
    yield from table(("code", "name", "cause", "fix"), rows)
