"""What compiling a graph costs and what it saves, learnt from what has been compiled in this process.

NOTE [Rent or buy]
A graph that NumPy runs in a millisecond pays for its program after hundreds of runs, and nobody knows whether there
will be so many.  Who compiles it when NumPy has lost as much time on it as compiling it takes, never spends more than
twice what the better choice would have cost: that is the rule for skis, which are bought when as much has been paid for
renting them.  What has been compiled is then measured against NumPy, which keeps the graph if it was faster; and what
one graph has gained says what others of its kind will.  All these times are the wall's, so what else the machine does
lengthens all of them.

Source: Karlin et al., 1988, `Competitive snoopy caching <https://doi.org/10.1007/BF01762111>`_.
"""

from enum import Enum, auto

from attrs import frozen

from fgrad.graph.graph import Graph

#: the seconds that a program takes at first: by itself, for each node, and for a convolution or a loop
PROGRAM, NODE, HEAVY = 0.04, 0.006, 0.2
#: the length from which on a graph takes time with the square of it
LONG = 840
#: what the latest compilation counts for among all, and the latest program
LATEST, LATEST_SAVING = 0.1, 0.3
#: how many times what was expected one compilation may count: a machine may have slept in it
MOST = 4
#: what is saved at least, in the long run
LEAST = 0.02
LOOPS = frozenset({"scan", "while"})


class Kind(Enum):
    """What a graph mostly does, by which the gain of compiling differs."""

    CONVOLUTION = auto()
    LOOP = auto()
    OTHER = auto()


@frozen
class Size:
    """The nodes of a graph and of the regions in it, and how many of them are convolutions and loops.

    Of these each takes XLA as long to compile as the graph that it is in.
    """

    nodes: int = 0
    convolutions: int = 0
    loops: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.nodes + other.nodes, self.convolutions + other.convolutions, self.loops + other.loops)

    @property
    def kind(self) -> Kind:
        return Kind.LOOP if self.loops else Kind.CONVOLUTION if self.convolutions else Kind.OTHER

    @staticmethod
    def of(graph: Graph) -> "Size":
        nodes = convolutions = loops = 0
        waiting = [graph]
        while waiting:
            for node in waiting.pop().nodes:
                nodes += 1
                convolutions += node.op.name == "conv_general_dilated"
                loops += node.op.name in LOOPS
                for value in node.params.values():
                    parts = value if isinstance(value, tuple) else (value,)
                    waiting += [part for part in parts if isinstance(part, Graph)]
        return Size(nodes, convolutions, loops)


class Prices:
    """What compilations have taken, against what was expected of them, and what they have saved."""

    def __init__(self) -> None:
        self.scale: float = 1.0
        #: the share of NumPy's time that a program saves
        self.saving: dict[Kind, float] = {Kind.CONVOLUTION: 0.2, Kind.LOOP: 0.8, Kind.OTHER: 0.6}

    def seconds(self, size: Size) -> float:
        """What compiling takes."""
        heavy = size.convolutions + size.loops
        return self.scale * (PROGRAM + NODE * size.nodes * (1 + size.nodes / LONG) + HEAVY * heavy)

    def rent(self, size: Size) -> float:
        """The seconds that NumPy may run a graph until a compiled program would have saved as many as it takes."""
        return self.seconds(size) / self.saving[size.kind]

    def learn_seconds(self, size: Size, seconds: float) -> None:
        """Take in what one compilation has taken."""
        self.scale *= (1 - LATEST) + LATEST * min(seconds / self.seconds(size), MOST)

    def learn_saving(self, size: Size, before: float, after: float) -> None:
        """Take in how long NumPy takes for a graph and how long its program does."""
        saved = max(1 - after / before, LEAST)
        self.saving[size.kind] += LATEST_SAVING * (saved - self.saving[size.kind])


prices: Prices = Prices()
