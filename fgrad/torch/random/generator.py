"""The Mersenne Twister as PyTorch's CPU generator uses it, and the default generator.

NumPy has the same engine, which its legacy ``RandomState`` seeds the same way: the stream of 32-bit words comes from it
in bulk.
"""

import contextlib
import ctypes
import math
import secrets
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Self, TypeAlias

import attrs
import numpy as np

from fgrad.mutable.capture.draws import NeedsConcrete
from fgrad.mutable.context.modes import modes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.values.evaluation import constant
from fgrad.torch.random.scalars import Array
from fgrad.torch.random.twister import DOUBLE_BITS, Engine, as_doubles, as_long

#: draws one number
Draw: TypeAlias = Callable[[], float]

DEFAULT_SEED = 67280421310721

_WORDS = 624
#: from this many words of 64 bits on, NumPy's integers of the whole range take less time than two words of 32 each
_MANY = 1024
# The layout of at::CPUGeneratorImplState: words of the engine in 64 bits each, and the fields of an older generator.
_STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "words", "double", "has_double", "float", "has_float"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", _WORDS), "<f8", "<i4", "<f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)


@attrs.frozen
class Ahead:
    """Numbers computed from words still to be drawn: see NOTE [Numbers ahead]."""

    #: one from each word
    numbers: Array
    #: how many are computed the next time
    following: int


def check_type_of_state(dtype: np.dtype[Any], size: int, contiguous: bool) -> None:
    """Raise an error for what cannot be the state of a generator."""
    if dtype != np.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if not contiguous:
        raise RuntimeError("RNG state must be contiguous")
    if size != _STATE.itemsize:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} but found the input RNG state size to be "
            f"{size}"
        )


class Generator:
    """A stream of random bits with the state and the seeding of PyTorch's CPU generator.

    All distributions draw from it.  ``lock`` is held while several draws belong together.

    >>> from fgrad.torch.random.generator import Generator
    >>> generator = Generator().manual_seed(0)
    >>> generator.words(2)
    array([2357136044, 2546248239], dtype=uint32)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.Generator.html
    """

    next_float_normal_sample: float | None
    next_double_normal_sample: float | None
    ahead: Ahead | None

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        self._lent = threading.local()
        self._engine = np.random.MT19937()
        self._memory = _memory_of(self._engine)
        self._of_all_longs = np.random.Generator(self._engine).integers
        self._reseed(DEFAULT_SEED)
        if modes.capturing is not None:
            modes.capturing.add_local_generator(self)

    def manual_seed(self, seed: int) -> Self:
        """Seeds the stream; negative seeds count back from 2**64.

        Raises ``RuntimeError`` if ``seed`` is not an integer, ``ValueError`` if it is outside ``[-2**63, 2**64)``.
        """
        if isinstance(seed, np.integer):
            raise TypeError("an integer is required")
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type_name(seed)}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        if modes.capturing is None:
            self._reseed(seed)
        else:
            modes.capturing.set_generator_state(self, constant(_seeded(seed)))
        return self

    def _reseed(self, seed: int) -> None:
        """Seed the stream, without telling captures."""
        with self.lock:
            self._seed = seed % 2**64
            np.random.RandomState(self._engine).seed(self._seed % 2**32)
            # a seeded engine differs from one that has used up its words only in the visible state
            self._unused = True
            self.ahead = None
            self.next_float_normal_sample = None
            self.next_double_normal_sample = None

    def seed(self) -> int:
        """Seeds from the operating system's entropy, and returns that seed."""
        self._check_in_python()
        seed = secrets.randbits(64)
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The last seed."""
        self._check_in_python()
        return self._seed

    def _check_in_python(self) -> None:
        """Tell a capture that the state is read in Python."""
        if modes.capturing is not None:
            modes.capturing.note_draw(self)

    def get_offset(self) -> int:
        """Only counter-based generators have offsets: raises ``RuntimeError``."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> "Generator":
        """Only counter-based generators have offsets: raises ``RuntimeError``."""
        raise RuntimeError("CPU Generator does not use offset")

    def get_state(self) -> Array:
        """The whole state as 5056 bytes, in PyTorch's layout: either library continues the other's stream.

        >>> generator = Generator()
        >>> state = generator.get_state()
        >>> first = generator.words(3)
        >>> bool((generator.set_state(state).words(3) == first).all())
        True
        """
        with self.lock:
            used = 0 if self._unused else int(self._memory[_WORDS])
            state = np.zeros(1, _STATE)
            state["seed"] = self._seed
            state["left"] = 1 if self._unused else _WORDS - used + 1
            state["seeded"] = 1
            state["next"] = used
            state["words"] = self._memory[:_WORDS]
            if self.next_double_normal_sample is not None:
                state["double"], state["has_double"] = self.next_double_normal_sample, 1
            if self.next_float_normal_sample is not None:
                state["float"], state["has_float"] = self.next_float_normal_sample, 1
        return state.view(np.uint8)

    def set_state(self, state: Array) -> "Generator":
        """Continues from a state that ``get_state`` returned.

        Raises ``TypeError`` if it is not an array of bytes, ``RuntimeError`` if the bytes are not a state.
        """
        if not isinstance(state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type_name(state)}")
        check_type_of_state(state.dtype, state.size, state.flags.c_contiguous)
        fields = np.frombuffer(state.tobytes(), _STATE)[0]
        left, used = int(fields["left"]), int(fields["next"])
        if not (fields["seeded"] and 0 < left <= _WORDS and used <= _WORDS):
            raise RuntimeError("Invalid mt19937 state")
        with self.lock:
            self._seed = int(fields["seed"])
            # at its last word the engine renews itself, whatever its read position
            self._unused = left == 1 and used == 0
            position = _WORDS if left == 1 else used
            self.ahead = None
            self._memory[:_WORDS], self._memory[_WORDS] = fields["words"], position
            self.next_double_normal_sample = float(fields["double"]) if fields["has_double"] else None
            self.next_float_normal_sample = float(fields["float"]) if fields["has_float"] else None
        return self

    def saved(self) -> Array:
        """The whole state as bytes, for any subclass."""
        return Generator.get_state(self)

    def restore(self, state: Array) -> None:
        """Continues from a state that ``saved`` returned."""
        Generator.set_state(self, state)

    @contextlib.contextmanager
    def lent(self, state: Any) -> Iterator[Engine]:
        """A context in which numbers are drawn from a traced state; the engine then has the new one."""
        self._lent.engine = engine = Engine(state)
        try:
            yield engine
        finally:
            self._lent.engine = None

    @property
    def engine(self) -> Engine | None:
        """The engine of draws that this thread records: see NOTE [Draws in a program]."""
        return getattr(self._lent, "engine", None)

    def check_on_host(self) -> None:
        """Raise ``NeedsConcrete`` where a draw that needs concrete numbers is being recorded."""
        if self.engine is not None:
            raise NeedsConcrete

    def clone_state(self) -> "Generator":
        """Another generator that continues as this one would."""
        return type(self)().set_state(Generator.get_state(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), Generator.get_state(self)

    def __setstate__(self, state: Array) -> None:
        Generator.set_state(self, state)

    def words(self, count: int) -> Array:
        """The next ``count`` words of 32 bits."""
        return self._raw(count).astype(np.uint32)

    def long_words(self, count: int) -> Array:
        """The next ``count`` words of 64 bits: two of 32, the higher first."""
        if count < _MANY or self.engine is not None:
            return as_long(self._raw(2 * count))
        return self._drawn(count, lambda: self._of_all_longs(2**64, size=count, dtype=np.uint64))

    def _raw(self, count: int) -> Array:
        """The next words of 32 bits, in 64 bits each."""
        if self.engine is not None:
            return self.engine.raw(count)
        return self._drawn(count, lambda: self._engine.random_raw(count))

    def _drawn(self, count: int, draw: Callable[[], Array]) -> Array:
        """So many words that ``draw`` takes from the host's engine."""
        if modes.capturing is not None:
            modes.capturing.note_draw(self)
        with self.lock:
            self._unused = self._unused and count == 0
            self.ahead = None
            return draw()

    def skip(self, count: int) -> None:
        """Advances past words whose numbers were computed ahead."""
        if modes.capturing is not None:
            modes.capturing.note_draw(self)
        with self.lock:
            self._unused = self._unused and count == 0
            self._engine.random_raw(count, False)

    def floats(self, count: int) -> Array:
        """``count`` float32 numbers, uniform in [0, 1): 24 bits of a word each."""
        return (self.words(count) & np.uint32(2**24 - 1)).astype(np.float32) * np.float32(2.0**-24)

    def peeked(self, count: int) -> Array:
        """The numbers that ``floats`` will draw."""
        with self.lock:
            start, unused = self._memory.copy(), self._unused
            values = self.floats(count)
            self._return(start, unused)
            return values

    def doubles(self, count: int) -> Array:
        """``count`` float64 numbers, uniform in [0, 1): 53 bits of a long word each."""
        return as_doubles(self.long_words(count))

    def events(self, count: int, probability: float) -> Array:
        """Whether each of ``count`` numbers, drawn as ``doubles`` does, is below a probability in [0, 1]."""
        numerators = self.long_words(count)
        numerators &= DOUBLE_BITS
        return numerators < np.uint64(math.ceil(probability * 2.0**53))

    @contextlib.contextmanager
    def one_by_one(self) -> Iterator[Draw]:
        """A function that draws one uniform float64, for samplers whose number of draws depends on what they drew.

        The numbers are drawn in blocks; on exit the generator continues after the last one used.
        """
        self.check_on_host()
        if modes.capturing is not None:  # before the sampler takes a pending normal number
            modes.capturing.note_draw(self)
        with self.lock:
            start, unused = self._memory.copy(), self._unused
            block = 32
            drawn = 0

            def blocks() -> Iterator[list[float]]:
                nonlocal block
                while True:
                    yield self.doubles(block).tolist()
                    block = min(2 * block, 2**16)

            numbers = chain.from_iterable(blocks())

            def draw() -> float:
                nonlocal drawn
                drawn += 1
                return next(numbers)

            try:
                yield draw
            finally:
                self._return(start, unused)
                self.words(2 * drawn)

    def _return(self, position: Array, unused: bool) -> None:
        """Go back to where the engine was."""
        self._memory[:] = position
        self._unused = unused


def _memory_of(engine: np.random.MT19937) -> Array:
    """An engine's state where it lies: 624 words, and how many of them have been drawn.

    To copy it takes a microsecond, and NumPy's ``state`` forty.

    Source: https://numpy.org/doc/stable/reference/random/bit_generators/generated/numpy.random.MT19937.ctypes.html
    """
    words = ctypes.c_uint32 * (_WORDS + 1)
    return np.ctypeslib.as_array(words.from_address(engine.ctypes.state_address))


def _seeded(seed: int) -> Array:
    """The state of a freshly seeded generator; captures are not told."""
    generator = Generator.__new__(Generator)
    generator.lock, generator._engine = threading.RLock(), np.random.MT19937()
    generator._memory = _memory_of(generator._engine)
    generator._reseed(seed)
    return generator.saved()
