"""Counts with singular and plural nouns."""


def counted(count: int, one: str, many: str = "") -> str:
    """`1 batch`, `1,200 batches`; `many`: an irregular plural."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
