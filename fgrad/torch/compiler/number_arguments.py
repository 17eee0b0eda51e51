"""Python numbers of compiled calls: which of them are inputs (NOTE [Symbolic numbers], NOTE [Held numbers]).

A number is a constant of a program until a call has another one in its place; then it becomes an input.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from attrs import define, field

from fgrad.mutable.capture.capture import Capture
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.types.number_program import same_number
from fgrad.mutable.types.symbolic import SYMBOLIC

#: more numbers outside of the arguments are data, and no inputs
MOST_HELD = 32
#: the place of an argument: its position, or its name
Place = int | str


def number_arguments(args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    """The places and values of the numbers among the arguments themselves; those in containers do not count."""
    yield from [(i, x) for i, x in enumerate(args) if type(x) in SYMBOLIC]
    yield from [(name, x) for name, x in kwargs.items() if type(x) in SYMBOLIC]


def replaced(
    args: Sequence[Any], kwargs: dict[str, Any], places: Collection[Place], function: Callable[[Place, Any], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with those in some places, where they are numbers, replaced by a function of place and number."""
    new = {place: function(place, x) for place, x in number_arguments(args, kwargs) if place in places}
    return tuple([new.get(i, x) for i, x in enumerate(args)]), {name: new.get(name, x) for name, x in kwargs.items()}


def with_symbolic_numbers(
    capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any], places: Collection[Place]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with symbolic numbers in some places."""
    if not places:
        return args, kwargs
    return replaced(
        args, kwargs, places, lambda at, x: capture.symbolic_number(x, at if isinstance(at, str) else f"args[{at}]")
    )


@define(eq=False)
class VaryingNumbers:
    """Which numbers are inputs of the programs of a function.

    Attributes:
      places: those among the arguments.
      held: those outside of the arguments, by their places.
      growing: lists that only grow, by their places (NOTE [Growing lists]).
      refused: the places of those that are not, since the function cannot be recorded with symbolic numbers.
      first: the first numbers, by the rest of the key of the call.
    """

    places: set[Place] = field(factory=set)
    held: dict[Any, Holding] = field(factory=dict)
    growing: dict[Any, Holding] = field(factory=dict)
    refused: set[Any] = field(factory=set)
    first: dict[Any, dict[Place, Any]] = field(factory=dict)
    #: keeps what holds the refused numbers and lists alive, since their places are ids
    _constant: list[Holding] = field(factory=list)

    def note(self, key: Any, numbers: dict[Place, Any]) -> bool:
        """Note the numbers of a call that no program applies to; returns whether some have become inputs."""
        first = self.first.setdefault(key, numbers)
        other = {place for place, x in numbers.items() if not same_number(x, first[place])}
        new = other - self.places - self.refused
        self.places |= new
        return bool(new)

    def note_held(self, numbers: Sequence[Holding]) -> bool:
        """Note numbers outside of the arguments that have changed; returns whether some have become inputs."""
        new = {x.place: x for x in numbers if x.place not in self.held and x.place not in self.refused}
        if len(self.held) + len(new) > MOST_HELD:
            return False
        self.held |= new
        return bool(new)

    def note_growing(self, lists: Sequence[Holding]) -> bool:
        """Note lists outside of the arguments that have grown; returns whether some of them are new."""
        new = {x.place: x for x in lists if x.place not in self.growing and x.place not in self.refused}
        self.growing |= new
        return bool(new)

    def forget(self, holdings: Sequence[Holding], used: Collection[Holding]) -> None:
        """Keep nothing alive that holds some numbers or lists, except for those that are used."""
        places = {x.place for x in holdings} - {x.place for x in used}
        # new dicts, since this may happen while the old ones are read
        self.held = {place: x for place, x in self.held.items() if place not in places}
        self.growing = {place: x for place, x in self.growing.items() if place not in places}

    def refuse(self, places: Collection[Place]) -> None:
        """Let the numbers in some places be constants from now on."""
        self.refused.update(places)
        self.places.difference_update(places)

    def refuse_held(self, numbers: Collection[Holding]) -> None:
        """Let some numbers outside of the arguments be constants from now on."""
        for number in numbers:
            self._constant.append(self.held.pop(number.place, number))
            self.refused.add(number.place)

    def refuse_growing(self, lists: Collection[Holding]) -> None:
        """Take some lists for containers like others from now on."""
        for each in lists:
            self._constant.append(self.growing.pop(each.place, each))
            self.refused.add(each.place)
