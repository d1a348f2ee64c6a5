"""Reader of a pipeline file's checks: conditions over the rows of its sources and transforms.
`transforms/checks.py` runs them."""

from __future__ import annotations

from pipelines.config.gaps import gaps_of
from pipelines.config.keywords import WORDS
from pipelines.config.loader import Scalar
from pipelines.config.section import Reader, nearest
from pipelines.model.lineage import lineage
from pipelines.model.pipeline import Action, Check, Pipeline

DEAD_LETTER = "dead_letter"
"""The name of the dead letters where nodes are named."""


def checks_of(top: Reader, pipeline: Pipeline) -> dict[str, Check]:
    """The checks in file order. `pipeline`: the pipeline as read so far, without its checks."""
    checks = {name: _check(name, r, pipeline) for name, r in top.named_tables("checks").items()}
    sends = [check for check in checks.values() if check.action is Action.DEAD_LETTER]
    if sends and not top.has(DEAD_LETTER):
        message = (
            "`dead_letter`, where this check sends records, is missing at the top; expected "
            + WORDS[""][DEAD_LETTER].expected
        )
        top.problem(sends[0].place, f"checks.{sends[0].name}", message)
    for check in sends:
        _refuse_elements(top, check, pipeline)
    return checks


def _refuse_elements(top: Reader, check: Check, pipeline: Pipeline) -> None:
    """A check's dead letter is a whole record, while rows of its other elements are in tables."""
    sources, _ = lineage(pipeline, check.on)
    for source in (pipeline.sources[name] for name in sources):
        if source.decode is not None and source.decode.explodes:
            message = (
                f"each record of `{source.name}` makes several rows (`explode`), and a dead letter "
                "of this check would be the record with all of them: expected warn, drop or fail"
            )
            top.problem(check.place, f"checks.{check.name}", message)


def _check(name: str, reader: Reader, pipeline: Pipeline) -> Check:
    taken = (
        ("source", pipeline.sources),
        ("transform", pipeline.transforms),
        ("sink", pipeline.sinks),
        ("word", (DEAD_LETTER,)),
    )
    for what, names in taken:
        if name in names:
            message = f"`{name}` is a {what} already: tests could not distinguish them"
            reader.problem(reader.table.place, reader.table.path, message)
    action = Action(reader.choice("action") or Action.WARN.value)
    ratio_max = reader.ratio("max_ratio")
    if reader.has("max_ratio") and action is Action.FAIL:
        reader.wrong_at("max_ratio", "with action fail no row may: take warn to let some pass")
    return Check(
        name=name,
        place=reader.table.place,
        on=_on(reader, pipeline),
        on_place=reader.place_of("on"),
        expr=reader.placed("expr"),
        action=action,
        ratio_max=ratio_max,
    )


def _on(reader: Reader, pipeline: Pipeline) -> str:
    node = reader.table.nodes.get("on")
    on = reader.text("on") or ""
    known = [*pipeline.sources, *pipeline.transforms]
    gaps = gaps_of(reader.problems)
    if not on or on in known or not isinstance(node, Scalar):
        return on
    if gaps.has_name(on, "sources", "transforms"):
        return on
    sink = pipeline.sinks.get(on)
    if sink is not None and sink.input in known:
        hint = f"; `{sink.input}` has the rows of sink `{on}`"
    else:
        hint = nearest(on, known) or f"; expected one of: {', '.join(known)}"
    place, path = reader.place_of("on"), reader.path_of("on")
    reader.problem(place, path, f"no source or transform `{on}`{hint}", f"transforms.{on}")
    return on
