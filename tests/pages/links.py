"""Links of pages, as MkDocs resolves them: to a page of docs/, and to a heading in it."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\[\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
COPIED = {
    "readme.md": "README.md",
    "reference/compatibility.md": "COMPATIBILITY.md",
    "explanation/architecture.md": "ARCHITECTURE.md",
    "explanation/benchmarks.md": "BENCHMARKS.md",
    "explanation/reliability.md": "RELIABILITY.md",
}
"""Pages that docs/site_hooks.py copies from the root while the site is built."""


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    return [link for link in links(page.read_text()) if not is_there(page, link)]


def links(text: str) -> Iterator[str]:
    """The targets of a page's links within the site."""
    prose = re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))
    yield from (each for each in LINK.findall(prose) if "://" not in each)


def is_there(page: Path, link: str) -> bool:
    """Whether the link's page exists, and has the link's heading."""
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if target.is_relative_to(DOCS):
        copied = COPIED.get(target.relative_to(DOCS).as_posix())
        target = DOCS.parent / copied if copied else target
    elif target.name not in COPIED.values():  # the site has no other file of the repository
        return False
    return target.is_file() and (not anchor or anchor in anchors(target.read_text()))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings; the second of a name gets `_1`, as in Python-Markdown."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", text)):
        name = first = slug(heading)
        count = 0
        while name in found:
            count += 1
            name = f"{first}_{count}"
        found.add(name)
    return found


def slug(heading: str) -> str:
    """Python-Markdown's `toc.slugify`."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
