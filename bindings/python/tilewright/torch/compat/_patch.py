"""Attributes that are set for a time."""

_MISSING = object()


class Patch:
    """Attributes that were replaced; `undo` gives back what was there, once. Also a context manager."""

    def __init__(self):
        self._before = []

    def set(self, owner, name: str, value) -> None:
        """Replaces an attribute of a module or an instance; what stands in the instance itself is what comes back."""
        self._before.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def undo(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_) -> None:
        self.undo()
