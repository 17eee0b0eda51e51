"""When a graph changes from one back end to the next: every threshold, by name, in one frozen record.

NOTE [Back ends in order]
A graph can run on several back ends: as a NumPy program, node by node, in compiled stretches, or compiled whole.  They
differ in what they cost at first and later, and in the last bits of their results.  An ``Executable`` goes through them
in this order as its graph is met more often; the ``Policy`` in force says when.  Compiling even a small graph takes XLA
some 40 ms, a large one seconds; a loop in which a sequence grows meets new graphs at every step, and a script that runs
once meets each graph once.

A policy that allows only one back end *forces* it, so that a test can run the same program on each.  Under
``reproducible`` the back end depends on the graph alone, not on earlier runs, so equal inputs give equal bits at every
call.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from threading import Lock
from weakref import WeakSet

from attrs import evolve, frozen

from fgrad import errors
from fgrad.run.background import Compile, in_background, when_called
from fgrad.run.kernels.kernel import KernelOf, exact_kernel, kernel, kernel_as_xla


@frozen
class Pace:
    """How often graphs of one kind run on other back ends before they are compiled whole."""

    #: runs node by node
    runs: float = 0
    #: the same for a graph with a convolution or a loop, where compiling that one node takes as long as the whole graph
    heavy_runs: float = 0
    #: runs of a graph one stretch long before it is compiled whole; grows with the square of the length, as XLA's time
    long_runs: float = 32
    #: runs of a graph that NumPy can run
    numpy_runs: float = 0
    #: instead of ``numpy_runs``, for a graph that NumPy can run but does not keep: the total time it may spend, as a
    #: share of the compile time; see NOTE [Rent or buy]
    rent: float = 0
    #: the extra nanoseconds that NumPy may take in one run of a new graph, and of one that it keeps permanently
    numpy_excess: float = -inf
    numpy_kept_excess: float = -inf
    #: the elements of the largest value in a graph that NumPy keeps permanently
    numpy_kept_size: float = 1 << 17
    #: whether NumPy also runs on results of compiled programs, which it may have to wait for
    numpy_waits: bool = False
    #: the kernels on which NumPy runs it, whole or node by node
    kernels: KernelOf = kernel
    #: how it is compiled if another back end can run it meanwhile: in the background, or at the call
    compile: Compile = when_called

    @property
    def overwrites(self) -> bool:
        """Whether NumPy may write results over operands, instead of a program that another back end would run."""
        return self.numpy_excess > 0 and self.kernels is kernel


@frozen
class Policy:
    """When a graph changes from one back end to the next.

    The numbers are measured on two cores; each is a ratio of costs (compiling to running) more than a time.
    """

    #: calls of transformed functions, one graph each: seen twice, it is worth compiling
    calls: Pace = Pace(runs=1, heavy_runs=1, numpy_runs=1, kernels=kernel_as_xla)
    #: tensor operations, run one by one: programs use many shapes a few times each; NumPy may take 20 ms longer in a
    #: run, and the time of one compilation in total
    operations: Pace = Pace(
        runs=6,
        numpy_runs=40,
        rent=1,
        numpy_excess=20_000_000,
        numpy_kept_excess=0,
        compile=in_background,
    )
    #: the same on an accelerator, where each of their primitives, run by itself, is a program to be compiled, too
    on_accelerators: Pace = Pace(long_runs=0)
    #: many operations as one program, once they have run one by one for as long as compiling takes; a small one stays
    #: with NumPy, or everything computed from its results would go to XLA
    pieces: Pace = Pace(numpy_excess=0, numpy_kept_excess=0, compile=in_background)
    #: the time that they may take one by one before that, as a share of the compile time
    pieces_rent: float = 1
    #: whole backwards whose operations run on NumPy: as one program they run there, too, at first
    backwards: Pace = Pace(rent=1, numpy_excess=20_000_000, numpy_kept_excess=0, compile=in_background)
    #: how often the engine runs a backward's structure node by node before it is fused: to make a program of NumPy's
    #: takes as long as some 8 runs save
    backward_runs: float = 8
    #: a backward of more nodes is never fused, and one that NumPy does not run not even of so many: these take XLA some
    #: 2 s, 6 ms a node
    backward_nodes: int = 2000
    compiled_backward_nodes: int = 300
    #: the length of the stretches into which long graphs are cut; it has many divisors, see NOTE [Stretches]
    stretch: int = 840
    #: runs of a stretch before it is compiled: compiling takes the time of this many interpreted runs
    stretch_runs: float = 16
    #: up to this many outputs, the compile time of a whole graph does not depend on their number
    outputs: int = 32
    #: the elements of the largest value of an operation that waits until somebody reads its result, see NOTE [Large
    #: operations wait]: below that its Python costs more than its pass through memory
    deferred_size: float = 1 << 16
    #: how many operations wait at most: from 16 on, one program of more of them is no faster (chains of sums and
    #: products of 2**20 numbers), and each takes XLA some 5 ms
    deferred_operations: int = 64
    #: the bytes of the arrays that they read, which are held until then; from 2**24 to 2**29 it is as fast
    deferred_bytes: int = 1 << 27
    #: how many runs of a program may be slower than the alternative (NumPy, or its operations one by one) before it is
    #: dropped: one slow run may be noise
    trials: int = 4
    #: how many calls of a compiled function that is not one program are timed in pieces, and as many uncompiled, before
    #: the faster way is taken; 0 for pieces at every call
    turns: int = 4


_NUMPY = Pace(
    runs=inf,
    heavy_runs=inf,
    long_runs=inf,
    numpy_runs=inf,
    numpy_excess=inf,
    numpy_kept_excess=inf,
    numpy_kept_size=inf,
    numpy_waits=True,
)
_INTERPRETED = Pace(runs=inf, heavy_runs=inf, long_runs=inf, kernels=exact_kernel)
_COMPILED = Pace(long_runs=0)
#: compiled at once, in stretches if it is long
_IN_STRETCHES = Pace(long_runs=inf)


def _forced(pace: Pace) -> Policy:
    return Policy(
        calls=pace,
        operations=pace,
        on_accelerators=pace,
        pieces=pace,
        backwards=pace,
        backward_runs=inf,
        deferred_size=inf,
        turns=0,
    )


#: the named policies; of those after the first two, most force a back end, as far as it can run a graph
POLICIES: dict[str, Policy] = {
    "default": Policy(),
    "reproducible": Policy(
        calls=_IN_STRETCHES,
        operations=Pace(long_runs=inf, numpy_excess=0, numpy_kept_excess=0, numpy_waits=True),
        on_accelerators=_IN_STRETCHES,
        pieces=_IN_STRETCHES,
        backwards=_IN_STRETCHES,
        backward_runs=inf,
        stretch_runs=0,
        deferred_size=inf,
        turns=0,
    ),
    "numpy": _forced(_NUMPY),
    "interpreted": _forced(_INTERPRETED),
    "stretches": evolve(_forced(_INTERPRETED), stretch=2, stretch_runs=0),
    "compiled": _forced(_COMPILED),
    "fused backward": evolve(Policy(), pieces=_INTERPRETED, pieces_rent=0, backwards=_INTERPRETED, backward_runs=0),
    "deferred": evolve(Policy(), pieces=_INTERPRETED, pieces_rent=0, backward_runs=0, deferred_size=0),
    # all changes of back end within the first few runs
    "impatient": Policy(
        calls=Pace(runs=1, heavy_runs=1, long_runs=1, numpy_runs=1, kernels=kernel_as_xla),
        operations=Pace(runs=1, heavy_runs=1, long_runs=1, numpy_runs=1, numpy_excess=inf),
        pieces=Pace(long_runs=1),
        pieces_rent=0,
        backwards=Pace(long_runs=1),
        backward_runs=1,
        stretch=3,
        stretch_runs=1,
    ),
}


class _Active:
    """The policy in force, in all threads, and the followers reset when it changes."""

    def __init__(self) -> None:
        self.policy = POLICIES["default"]
        self.blocks: list[_Block] = []
        self.followers: WeakSet[Follower] = WeakSet()
        #: held while the policy changes, so that the open blocks and the policy in force agree
        self.lock = Lock()

    def changed(self) -> None:
        """Stop all followers; each starts afresh under the policy then in force, which may be another thread's."""
        with self.lock:
            followers = list(self.followers)
        for follower in followers:
            follower.stop()


class _Block:
    """An open block, and the policy to restore when it is left."""

    def __init__(self, before: Policy):
        self.before = before


class Follower:
    """Something that depends on the policy in force, and starts afresh under another."""

    __slots__ = ("__weakref__",)

    def stop(self) -> None:
        """Drop everything derived from the old policy: the next run starts under the one in force.  Thread-safe."""
        raise NotImplementedError


_active = _Active()


def active() -> Policy:
    """The policy in force."""
    return _active.policy


def follow(follower: Follower) -> None:
    """Stop a follower whenever the policy changes."""
    with _active.lock:
        _active.followers.add(follower)


def enforce(policy: Policy) -> None:
    """Set the policy of all threads."""
    with _active.lock:
        _active.policy = policy
    _active.changed()


@contextmanager
def policy(chosen: str | Policy) -> Iterator[Policy]:
    """A block in which graphs run by another policy, in all threads.

    Args:
      chosen: a ``Policy``, or the name of one: ``"default"``; ``"reproducible"``, under which equal inputs give equal
        bits at every call of a process, the first and the hundredth (new graphs are compiled at once, and a backward is
        never fused, so first calls take longer, by some 40 ms for each new graph, and steps of tiny models 1.5 times as
        long, of large ones 1.0 to 1.2 times); or a back end to run everything on that can run there: ``"numpy"``,
        ``"interpreted"`` (both slow where arrays are large), ``"stretches"``, ``"compiled"`` (some 40 ms for each new
        graph), ``"fused backward"``, ``"deferred"`` (every operation waits that can), and ``"impatient"``, which goes
        from each to the next within a few runs.

    Raises:
      ValueError: there is no policy of that name.

    >>> import fgrad
    >>> with fgrad.policy("reproducible"):
    ...     slope = fgrad.grad(lambda x: x * x)(3.0)
    >>> float(slope)
    6.0
    """
    new = chosen if isinstance(chosen, Policy) else POLICIES.get(chosen) if isinstance(chosen, str) else None
    if new is None:
        known = ", ".join(map(repr, POLICIES))
        raise ValueError(f"There is no policy {errors.shown(chosen)}. Those with names are {known}.")
    with _active.lock:
        block = _Block(_active.policy)
        _active.blocks.append(block)
        _active.policy = new
    try:
        _active.changed()
        yield new
    finally:
        _leave(block)


def _leave(block: _Block) -> None:
    """Restore the policy from before a block, unless a later block is open, possibly in another thread."""
    with _active.lock:
        position = _active.blocks.index(block)
        del _active.blocks[position]
        later = _active.blocks[position:]
        if later:
            later[0].before = block.before
        else:
            _active.policy = block.before
    if not later:
        _active.changed()


#: selects the pace at which a graph runs
PaceOf = Callable[[Policy], Pace]


def calls(policy: Policy) -> Pace:
    return policy.calls


def operations(policy: Policy) -> Pace:
    return policy.operations


def on_accelerators(policy: Policy) -> Pace:
    return policy.on_accelerators


def pieces(policy: Policy) -> Pace:
    return policy.pieces


def backwards(policy: Policy) -> Pace:
    return policy.backwards
