"""A place in a program where it is made to die, for kill tests: ours and those of users.

`JOSEFINE_FAIL=NAME[:INDEX][@HIT]` names it: the HIT-th visit (the first by default) to the place,
or to its INDEX-th instance, is the last one. Who dies, and how, is the caller's.
"""

from collections.abc import Sequence

VARIABLE = "JOSEFINE_FAIL"


class Failpoint:
    """One armed place, counting how often it was reached."""

    __slots__ = ("_hits_left", "_index", "_name")

    def __init__(self, text: str, names: Sequence[str], *, has_index: bool = True) -> None:
        """Raises ValueError for a place that is not one of `names`."""
        place, _, hit = text.partition("@")
        name, colon, index = place.partition(":")
        is_index = (index or "0").isdigit() and (has_index or not colon)
        if name not in names or not is_index or not (hit or "1").isdigit():
            form = "NAME[:INDEX][@HIT]" if has_index else "NAME[@HIT]"
            known = ", ".join(names)
            raise ValueError(f"{VARIABLE}={text}: not {form} with one of {known}")
        self._name = name
        self._index = int(index) if index else None
        self._hits_left = int(hit or "1")

    def reached(self, name: str, index: int | None = None) -> bool:
        """Count one visit; True when this is the one to die at."""
        if name != self._name or (self._index is not None and index != self._index):
            return False
        self._hits_left -= 1
        return self._hits_left == 0
