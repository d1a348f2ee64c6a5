"""The tutorial and the guides: each page's commands are typed as they are printed, in order, in an
empty folder, next to a real broker."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.pages.blocks import ROOT, steps
from tests.pages.links import DOCS

PAGES = [
    page.relative_to(ROOT).as_posix()
    for folder in ("tutorial", "how-to")
    for page in sorted((DOCS / folder).glob("*.md"))
    if page.name != "security.md" and list(steps(page.read_text()))
]
"""test_security_page.py types the one that is left out."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_000)]


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="a network of its own needs root and ip"
)
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_work_in_order_and_print_what_it_shows(page: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.pages.run", page],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr + done.stdout


def test_guides_with_commands_are_found() -> None:
    assert "docs/tutorial/index.md" in PAGES
    assert len(PAGES) > 18
