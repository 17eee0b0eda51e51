"""What a call came to, in a form in which ours and PyTorch's can be compared."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from tests.torch.mirror import first_part


@frozen
class Outcome:
    """How a call's value prints, or the type and text of its error; ``value`` is the value itself."""

    text: str
    raised: type[BaseException] | None = None
    value: Any = field(default=None, eq=False)


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Call a function and note what came of it."""
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        return Outcome(first_part(str(error)), type(error))
    return Outcome(repr(value), value=value)
