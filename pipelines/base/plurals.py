"""Numbers of things in words."""


def counted(count: int, one: str, many: str = "") -> str:
    """`1 batch`, `1,200 batches`; `many` where the plural is not just an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
