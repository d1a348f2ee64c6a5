"""Hooks of MkDocs: pages of the repository's root in the site, and Mermaid without a foreign host.

COMPATIBILITY.md and others stay where tools and readers of the repository expect them. The site has
a copy of each, made while it is built; a link from one to a page of docs/ follows.
"""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
COPIED = {
    "README.md": "readme.md",
    "COMPATIBILITY.md": "reference/compatibility.md",
    "ARCHITECTURE.md": "explanation/architecture.md",
    "BENCHMARKS.md": "explanation/benchmarks.md",
    "RELIABILITY.md": "explanation/reliability.md",
}
"""File of the root → its page in the site."""
MERMAID = "JOSEFINE_DOCS_MERMAID"
"""The variable with the file of Mermaid's script; without it the theme loads one at reading."""


def on_config(config: Any) -> Any:
    """Name the script of Mermaid, if there is one: the theme then loads no other."""
    if os.environ.get(MERMAID):
        config.extra_javascript.append("assets/mermaid.min.js")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the copied pages, and the script."""
    for name, page in COPIED.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=moved(text, page)))
    script = os.environ.get(MERMAID)
    if script:
        content = Path(script).read_bytes()
        files.append(File.generated(config, "assets/mermaid.min.js", content=content))
    return files


def moved(text: str, page: str) -> str:
    """The text with links and pictures of docs/ as they are from the page's new place."""
    up = "../" * page.count("/")
    text = re.sub(r"((?:src|srcset)=\")docs/", rf"\1{up}", text)
    return re.sub(r"\]\(docs/", f"]({up}", text)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead a link to a copied file of the root to its page."""
    here = os.path.dirname(page.file.src_uri)

    def replaced(found: re.Match[str]) -> str:
        target = COPIED.get(found[1])
        return f"]({os.path.relpath(target, here or '.')}" if target else found[0]

    return re.sub(r"\]\((?:\.\./)*([A-Z]+\.md)", replaced, markdown)
