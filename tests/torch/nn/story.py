"""What a scenario tells when it is played with one library, to be compared with the other's."""

import re
import warnings
from collections.abc import Callable
from typing import Any

from tests.torch.mirror import first_part


class Story(list[Any]):
    """Facts, in order.  Calling it adds some; ``attempt`` adds what a call returned or raised."""

    def __call__(self, *facts: Any) -> None:
        self.extend(plain(fact) for fact in facts)

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self(f"{type(error).__name__}: {first_part(str(error))}")
        else:
            self(type(result).__name__ if type(result).__module__ not in ("builtins",) else result)


def plain(fact: Any) -> Any:
    """``fact`` without what must differ: which library a class is of, addresses, the order of sets."""
    if hasattr(fact, "tolist"):
        return fact.tolist()
    if isinstance(fact, dict):
        return {key: plain(value) for key, value in fact.items()}
    if isinstance(fact, list | tuple):
        return [plain(each) for each in fact]
    if not isinstance(fact, str):
        return fact if fact is None or isinstance(fact, bool | int | float) else type(fact).__name__
    text = fact.replace("fgrad.torch", "torch")
    text = re.sub(r"<class '[\w.<>]*?(\w+)'>", r"<class '\1'>", text)
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r"\{('[^{}:]*')\}", lambda match: "{" + ", ".join(sorted(match[1].split(", "))) + "}", text)


def played(play: Callable[[Any, Story], None], torch: Any) -> Story:
    """The story of one library, with its warnings at the end."""
    story = Story()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        play(torch, story)
    for each in caught:
        if "Triggered internally" not in str(each.message):
            story(each.category.__name__, str(each.message))
    return story


def assert_same(got: Story, expected: Story) -> None:
    """Compare two stories.  fgrad's messages may go on after PyTorch's: a blank line, then an explanation."""
    assert len(got) == len(expected), (got, expected)
    for ours, theirs in zip(got, expected, strict=True):
        if isinstance(ours, str) and isinstance(theirs, str) and ours.startswith(theirs + "\n\n"):
            continue
        assert ours == theirs
