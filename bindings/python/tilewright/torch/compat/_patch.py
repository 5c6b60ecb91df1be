"""Attributes that are set for a time."""

from typing import Callable, List

_MISSING = object()


class Patch:
    """What was replaced; `undo` gives back what was there, once. Also a context manager."""

    def __init__(self) -> None:
        self._undoing: List[Callable] = []

    def set(self, owner: object, name: str, value: object) -> None:
        """Replaces an attribute of a module or an instance; what stands in the instance itself is what comes back."""
        before = vars(owner).get(name, _MISSING)
        self.later(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))
        setattr(owner, name, value)

    def later(self, call: Callable) -> None:
        """Has `undo` make the call; the last one first."""
        self._undoing.append(call)

    def undo(self) -> None:
        while self._undoing:
            self._undoing.pop()()

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()
