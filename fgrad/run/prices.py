"""What compiling a graph costs and saves, learnt from the compilations of this process.

NOTE [Rent or buy]
For a graph that NumPy runs in a millisecond, compiling pays off after hundreds of runs, and there may not be so many.
Compiling it once NumPy has lost as much time as compiling takes never costs more than twice the better choice: the ski
rental rule, by which skis are bought once as much has been spent on renting them.  The compiled program is then timed
against NumPy, which keeps the graph if it was faster; and the gain of one graph predicts that of others of its kind.
All these are wall times, so other load on the machine lengthens all of them.

Source: Karlin et al., 1988, `Competitive snoopy caching <https://doi.org/10.1007/BF01762111>`_.
"""

from enum import Enum, auto

from attrs import frozen

from fgrad.graph.graph import Graph, graphs_of

#: initial estimates of compile time in seconds: per program, per node, and per convolution or loop
PROGRAM, NODE, HEAVY = 0.04, 0.006, 0.2
#: the length beyond which compile time grows quadratically
LONG = 840
#: the weights of the latest compilation and of the latest program in the running averages
LATEST, LATEST_SAVING = 0.1, 0.3
#: an upper bound on a measured time, as a multiple of the expected: the machine may have slept meanwhile
MOST = 4
#: the least share that a program is assumed to save
LEAST = 0.02
LOOPS = frozenset({"scan", "while"})


class Kind(Enum):
    """What dominates a graph, on which the gain of compiling depends."""

    CONVOLUTION = auto()
    LOOP = auto()
    OTHER = auto()


@frozen
class Size:
    """The nodes of a graph and of the regions in it, and how many of them are convolutions and loops.

    Each convolution or loop takes XLA about as long to compile as the rest of its graph.
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
                waiting += graphs_of(node.op)
        return Size(nodes, convolutions, loops)


class Prices:
    """The measured cost of compilations relative to the estimates, and their measured savings."""

    def __init__(self) -> None:
        self.scale: float = 1.0
        #: the share of NumPy's time that a program saves
        self.saving: dict[Kind, float] = {Kind.CONVOLUTION: 0.2, Kind.LOOP: 0.4, Kind.OTHER: 0.6}

    def seconds(self, size: Size) -> float:
        """The expected compile time."""
        heavy = size.convolutions + size.loops
        return self.scale * (PROGRAM + NODE * size.nodes * (1 + size.nodes / LONG) + HEAVY * heavy)

    def rent(self, size: Size) -> float:
        """How many seconds NumPy may run a graph: until a compiled program would have saved its compile time."""
        return self.seconds(size) / self.saving[size.kind]

    def learn_seconds(self, size: Size, seconds: float) -> None:
        """Learn from the time of one compilation."""
        self.scale *= (1 - LATEST) + LATEST * min(seconds / self.seconds(size), MOST)

    def learn_saving(self, size: Size, before: float, after: float) -> None:
        """Learn from the times of NumPy and of the program for a graph."""
        saved = max(1 - after / before, LEAST)
        self.saving[size.kind] += LATEST_SAVING * (saved - self.saving[size.kind])


prices: Prices = Prices()
