"""Draws the figures with matplotlib (the extra `bench`), light and dark, as SVG and as PNG.

The same results make the same SVG, byte for byte: no date, and a fixed salt for its ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.report.figures import FIGURES, Figure, Line, lines_of, peer_title
from tests.bench.report.results import OURS, CaseResult

THEMES = {
    "light": {"back": "#ffffff", "text": "#1f2328", "grid": "#d8dee4",
              "ours": "#0969da", "peer": "#bc4c00"},
    "dark": {"back": "#0d1117", "text": "#e6edf3", "grid": "#30363d",
             "ours": "#58a6ff", "peer": "#f0883e"},
}  # fmt: skip
STYLES = ("-", "--", ":")
MARKERS = ("o", "s", "^")
INCHES = (7.2, 4.2)
DPI = 110
LOG_FROM = 20
"""Largest by smallest value of a plot, from which on its y axis is logarithmic."""


def draw_all(found: Sequence[CaseResult], folder: Path) -> list[str]:
    """Names of the figures drawn: those with a line. Raises ImportError without matplotlib."""
    drawn = []
    for figure in FIGURES:
        lines = lines_of(figure, found)
        if lines:
            for theme in THEMES:
                draw(figure, lines, peer_title(figure, found), theme, folder)
            drawn.append(figure.name)
    return drawn


def draw(figure: Figure, lines: Sequence[Line], peer: str, theme: str, folder: Path) -> None:
    """Color is the side, the dash is the measure, the band is the spread."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    colors = THEMES[theme]
    settings = {
        "svg.hashsalt": figure.name, "svg.fonttype": "none", "font.size": 10,
        "text.color": colors["text"], "axes.labelcolor": colors["text"],
        "xtick.color": colors["text"], "ytick.color": colors["text"],
        "axes.edgecolor": colors["grid"], "axes.facecolor": colors["back"],
        "figure.facecolor": colors["back"], "savefig.facecolor": colors["back"],
    }  # fmt: skip
    with pyplot.rc_context(settings):
        drawing, axes = pyplot.subplots(figsize=INCHES, layout="constrained")
        for line in lines:
            draw_line(axes, figure, line, peer, colors)
        label_axes(axes, figure, lines, colors)
        folder.mkdir(parents=True, exist_ok=True)
        for kind in ("svg", "png"):
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            path = folder / f"{figure.name}-{theme}.{kind}"
            drawing.savefig(path, dpi=DPI, metadata=metadata)
        pyplot.close(drawing)


def draw_line(axes: Any, figure: Figure, line: Line, peer: str, colors: dict[str, str]) -> None:
    index = figure.measures.index(line.measure)
    color = colors["ours" if line.side == OURS else "peer"]
    name = "josefine" if line.side == OURS else peer
    label = f"{name}, {line.measure}" if len(figure.measures) > 1 else name
    axes.plot(
        line.x, line.middle, label=label, color=color, linestyle=STYLES[index],
        marker=MARKERS[index], markersize=4, linewidth=1.8,
    )  # fmt: skip
    axes.fill_between(line.x, line.low, line.high, color=color, alpha=0.12, linewidth=0)


def spans_decades(lines: Sequence[Line]) -> bool:
    """Whether a logarithmic axis would have more than one labelled tick."""
    values = [y for line in lines for y in (*line.low, *line.high) if y > 0]
    return max(values, default=1.0) >= LOG_FROM * min(values, default=1.0)


def label_axes(axes: Any, figure: Figure, lines: Sequence[Line], colors: dict[str, str]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plain = FuncFormatter(lambda value, _: f"{value:,.7g}")
    axes.set_title(figure.title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(figure.x_title)
    axes.set_ylabel(figure.y_title)
    axes.set_xscale("log")
    axes.set_xticks(sorted({x for line in lines for x in line.x}))
    axes.xaxis.set_major_formatter(plain)
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.xaxis.set_minor_formatter(NullFormatter())
    if figure.is_y_log and spans_decades(lines):
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(plain)
    axes.grid(visible=True, color=colors["grid"], linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    # Below the axes: no place inside is free of lines in every figure.
    axes.figure.legend(
        loc="outside lower center", ncols=2 if len(lines) > 3 else len(lines), frameon=False,
        fontsize=9, labelcolor=colors["text"],
    )  # fmt: skip
