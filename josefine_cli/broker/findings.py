"""What is found where a machine or a configuration is looked at."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """`level` is ok, warning or error; `mend` says what to do."""

    level: str
    what: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.what}" + (f"\n    mend: {self.mend}" if self.mend else "")
