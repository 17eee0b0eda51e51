"""The Mersenne Twister as array operations: draws that are part of a program.

NOTE [Draws in a program]
A captured draw takes the state of its generator, 5056 bytes, and returns numbers and the next state.  Here the engine
is written with ``jax.numpy``, so that such a draw is ordinary arithmetic: XLA compiles it, it can be mapped and
exported, and there is no host callback.  While a draw is recorded its generator has such an engine
(``Generator.engine``), and the code of the distributions runs as it stands, on traced words.  The words are the
generator's to the bit, and so is everything computed from them by exact steps: uniform numbers, events, integers,
permutations, normal numbers by the block. Where the C library's functions of double precision come in (fewer than 16
normal numbers, exponential ones), XLA's may differ in the last bit of a double.

Parameters that are tensors are not checked there: where a draw on the host raises an error for an invalid probability
or a negative deviation, a program returns arbitrary numbers.

The words are renewed 624 at a time.  How many are left depends on the state, so enough blocks are made for any state,
and the draw is a window of them.

Source: Matsumoto and Nishimura, "Mersenne Twister", 1998.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from attrs import define
from jax import lax

from fgrad.torch.ops.table.broadcasting import choose

WORDS, _MIDDLE = 624, 397
#: the bits of a long word from which a number of double precision is made
DOUBLE_BITS = np.uint64(2**53 - 1)
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
#: the layout of a state (``Generator.get_state``): first two 32-bit numbers, by their offsets, ...
_LEFT, _NEXT = 2, 4
#: ... then the words of the engine, in 64 bits each, and the pending normal number, in bytes
_KEY, _KEY_END, _DOUBLE, _HAS_DOUBLE = 24, 24 + 8 * WORDS, 5024, 5040


@define(eq=False)
class Engine:
    """A generator's state on traced values, from which numbers are drawn.

    Attributes:
      state: the bytes of the state.
    """

    state: Any

    def raw(self, count: int, used: Any = None) -> Any:
        """The next words of 32 bits, in 64 bits each.

        Arguments:
          count: how many.
          used: after how many the stream continues; by default all of them.
        """
        if count == 0:
            return jnp.zeros(0, jnp.uint64)
        words, self.state = _drawn(self.state, count, count if used is None else used)
        return words.astype(jnp.uint64)

    def doubles(self, count: int, used: Any) -> Any:
        """Numbers uniform in [0, 1), some of which are used."""
        return as_doubles(as_long(self.raw(2 * count, 2 * used)))

    @property
    def waiting(self) -> tuple[Any, Any]:
        """Whether a normal number is pending from the draw before, and that number."""
        number = _number(self.state, _DOUBLE, jnp.float64)
        return _number(self.state, _HAS_DOUBLE, jnp.int32) != 0, number

    def wait(self, has: Any, number: Any) -> None:
        """Keep a normal number for the next draw, or none."""
        value = choose(has, number, 0.0)
        self.state = _with(_with(self.state, _DOUBLE, value), _HAS_DOUBLE, jnp.asarray(has).astype(jnp.int32))


def as_long(words: Any) -> Any:
    """Words of 64 bits: two of 32, the higher first."""
    return (words[0::2] << np.uint64(32)) | words[1::2]


def as_doubles(long: Any) -> Any:
    """Numbers uniform in [0, 1): 53 bits of a long word each."""
    return (long & DOUBLE_BITS).astype(np.float64) * 2.0**-53


def _number(state: Any, at: int, dtype: Any) -> Any:
    return lax.bitcast_convert_type(state[at : at + np.dtype(dtype).itemsize], dtype)


def _with(state: Any, at: int, value: Any) -> Any:
    piece = lax.bitcast_convert_type(value, jnp.uint8).reshape(-1)
    return jnp.concatenate([state[:at], piece, state[at + piece.size :]])


def _drawn(state: Any, count: int, used: Any) -> tuple[Any, Any]:
    """Some words, and the state after those that are used."""
    head = lax.bitcast_convert_type(state[:_KEY].reshape(-1, 4), jnp.int32)
    key = lax.bitcast_convert_type(state[_KEY:_KEY_END].reshape(WORDS, 2, 4), jnp.uint32)[:, 0]
    # the last word before the engine renews itself
    position = choose(head[_LEFT] == 1, WORDS, head[_NEXT])
    if count <= WORDS:
        blocks = jnp.stack([key, twisted(key)])
    else:
        _, renewed = lax.scan(_renewed, key, None, length=-(-count // WORDS))
        blocks = jnp.concatenate([key[None], renewed])
    words = tempered(lax.dynamic_slice(blocks.reshape(-1), (position,), (count,)))
    end = position + jnp.asarray(used, jnp.int32)
    block = (end - 1) // WORDS
    position = end - block * WORDS
    following = head.at[_LEFT].set(WORDS - position + 1).at[_NEXT].set(position)
    current = lax.dynamic_index_in_dim(blocks, block, keepdims=False)
    words_after = jnp.pad(current[:, None], ((0, 0), (0, 1))).reshape(-1)
    front = jnp.concatenate([lax.bitcast_convert_type(following, jnp.uint32), words_after])
    after = jnp.concatenate([lax.bitcast_convert_type(front, jnp.uint8).reshape(-1), state[_KEY_END:]])
    return words, after if isinstance(used, int) else choose(used == 0, state, after)


def _renewed(key: Any, _: None) -> tuple[Any, Any]:
    after = twisted(key)
    return after, after


def twisted(key: jax.Array) -> jax.Array:
    """The next 624 words of the engine's state, before tempering."""

    def mixed(high: Any, low: Any) -> Any:
        word = (high & _UPPER) | (low & _LOWER)
        return (word >> np.uint32(1)) ^ ((word & np.uint32(1)) * _MATRIX)

    # each word depends on the one 397 positions on: first an old one, then a new one
    span = WORDS - _MIDDLE
    first = key[_MIDDLE:] ^ mixed(key[:span], key[1 : span + 1])
    second = first ^ mixed(key[span : 2 * span], key[span + 1 : 2 * span + 1])
    third = second[: WORDS - 1 - 2 * span] ^ mixed(key[2 * span : -1], key[2 * span + 1 :])
    before = jnp.concatenate([first, second, third])
    last = before[_MIDDLE - 1 : _MIDDLE] ^ mixed(key[-1:], first[:1])
    return jnp.concatenate([before, last])


def tempered(words: jax.Array) -> jax.Array:
    """The engine's output for words of its state."""
    words = words ^ (words >> np.uint32(11))
    words = words ^ ((words << np.uint32(7)) & np.uint32(0x9D2C5680))
    words = words ^ ((words << np.uint32(15)) & np.uint32(0xEFC60000))
    return words ^ (words >> np.uint32(18))
