"""The source of generated functions: their lines, and the objects that these name."""

from typing import Any

Lines = list[str]


class Scope(dict[str, Any]):
    """The globals of a generated function: objects by name."""

    def name(self, value: Any) -> str:
        """A name for an object, or its literal."""
        if value is None or value is True or value is False or value.__class__ is int:
            return repr(value)
        return self.object(value)

    def object(self, value: Any) -> str:
        """A name for an object, which may be compared by identity."""
        name = f"c{len(self)}"
        self[name] = value
        return name
