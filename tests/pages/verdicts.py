"""Verdicts of pipelines and exit codes of commands, with cause and fix."""

from collections.abc import Mapping
from typing import NamedTuple

from pipelines.exactly_once.offset_chain import Verdict

TABLE = "`--trust table`"
CHECKPOINT = "`--trust checkpoint`"


class Advice(NamedTuple):
    """Why something happens, and what to do about it."""

    cause: str
    fix: str


VERDICTS: Mapping[Verdict, Advice] = {
    Verdict.GAP: Advice(
        "The checkpoint is newer than the table: the table was restored during a run.",
        f"{TABLE}: read the missing part again.",
    ),
    Verdict.OVERLAP: Advice(
        "The checkpoint is older than the table: a copy of it was put back.",
        f"{TABLE}: continue where the table ends.",
    ),
    Verdict.TORN: Advice(
        "Some partitions of the checkpoint are of another time than the table.",
        f"{TABLE}: continue where the table ends.",
    ),
    Verdict.WENT_BACK: Advice(
        "The topic lost its last records, or was deleted and created again.",
        "Look at the brokers first. If the topic is a new one, " + TABLE + ".",
    ),
    Verdict.TOPIC_RECREATED: Advice(
        "The topic has another id than the one that the table names.",
        f"{TABLE}: keep the old rows and read the new topic from its first record.",
    ),
    Verdict.TABLE_AHEAD: Advice(
        "An older checkpoint was restored.", f"{TABLE}: continue where the table ends."
    ),
    Verdict.TABLE_BEHIND: Advice(
        "The table was restored to an older version.",
        f"{TABLE}: read the missing part again.",
    ),
    Verdict.TABLE_ELSEWHERE: Advice(
        "Table and checkpoint are of two different histories.",
        "`josefine pipeline offsets reconcile FILE` shows what each side would do to the rows.",
    ),
    Verdict.TABLE_HAS_NOTHING: Advice(
        "The table was deleted, or the file names another one.",
        f"Correct the path, or {TABLE} to fill the table again.",
    ),
    Verdict.TABLE_UNREADABLE: Advice(
        "Delta cleaned its log after 30 days without a run of this sink.",
        f"{CHECKPOINT}: continue at the checkpoint's offsets.",
    ),
    Verdict.CHECKPOINT_DAMAGED: Advice(
        "Files of the checkpoint are missing: it was copied in part, or cleaned by hand.",
        f"{TABLE}: the checkpoint is set aside.",
    ),
    Verdict.RECORDS_LOST: Advice(
        "Retention deleted records before this sink read them.",
        "`--on-data-loss skip_and_record` records the lost ranges and continues. First stop "
        "further loss: `josefine topics alter TOPIC --config retention.ms=-1`.",
    ),
    Verdict.TOPIC_SHORTER: Advice(
        "The brokers are recovering, or lost the topic's last records.",
        "Repair the brokers and run again. This verdict is never passed over.",
    ),
    Verdict.DEAD_LETTERS_GONE: Advice(
        "The dead-letter table was deleted, or restored to an older version.",
        f"Bring the table back, or {TABLE}: continue without its dead letters.",
    ),
    Verdict.CHECKPOINT_UNNAMED: Advice(
        "A checkpoint of an older version is in a folder that does not name its pipeline.",
        f"{TABLE} leaves it alone; the message has the `mv` for the case that it is this one's.",
    ),
    Verdict.OTHER_CHAIN: Advice(
        "The pipeline, sink or source has a new name, or a second pipeline fills the table.",
        "`--rename OLD=NEW` continues the old chain; `--new-chain SINK` starts another one.",
    ),
    Verdict.STATE_GONE: Advice(
        "The checkpoint of a sink with windows or a join was deleted.",
        "Fill a new table (new sink name and path), or use `mode: merge`, which needs no state.",
    ),
    Verdict.STATE_ELSEWHERE: Advice(
        "The SQL, the `watermark` or the input of a window or join changed.",
        "Take the change back, or fill a new table (new sink name and path).",
    ),
    Verdict.STATE_STAYS: Advice(
        "`--trust`, `--rename` or `offsets set` was asked of a sink with a state.",
        "Run without it, or fill a new table (new sink name and path).",
    ),
    Verdict.LOST_RACE: Advice(
        "Two runs of one pipeline write the same table.",
        "Stop one of them. The other one continues from the table.",
    ),
}
"""Every verdict with its usual cause, and the fix that is usually right."""

EXIT_CODES: Mapping[int, Advice] = {
    0: Advice("The command did what it was asked to do.", ""),
    1: Advice(
        "The command failed: a broker refused, a run stopped with a verdict, a test failed.",
        "The last line on stderr names the cause. `JOSEFINE_DEBUG=1` adds the stack trace.",
    ),
    2: Advice(
        "The command line is wrong: an unknown verb, option, sink or environment.",
        "`josefine --help`, and `--help` after the verb.",
    ),
    78: Advice(
        "The pipeline file or the broker's configuration is wrong.",
        "`josefine pipeline lint FILE` or `josefine config check FILE`; a retry does not help.",
    ),
    79: Advice(
        "The machine is not ready: no Java, no jars, no broker, no topic, a port that is taken.",
        "`josefine pipeline check FILE` lists everything that is missing; then retry.",
    ),
    130: Advice("Ctrl-C ended the command.", ""),
    141: Advice("The reader of the output closed it, as `| head` does.", ""),
}
"""Exit code → cause and fix."""
