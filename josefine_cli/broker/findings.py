"""The finding of a check of a machine or a configuration."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One finding: `level` is ok, warning or error; the third field is the remedy."""

    level: str
    what: str
    mend: str = ""

    def __str__(self) -> str:
        fix = self.mend
        return f"{self.level}: {self.what}" + (f"\n    fix: {fix}" if fix else "")
