"""Samples of the primitives that move entries about."""

from typing import Any

import numpy as np
from jax import lax

from fgrad.jaxcore import primitive
from tests.rules.samples import Sample

_rng = np.random.default_rng(3)


def _real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def _complex(*shape: int) -> Any:
    return _rng.normal(size=shape) + 1j * _rng.normal(size=shape)


def _reshape_with(dimensions: tuple[int, ...], new_sizes: tuple[int, ...]) -> Any:
    # lax.reshape turns `dimensions` into a transpose; only the primitive itself takes it.
    def fun(x: Any) -> Any:
        return primitive("reshape").bind(x, new_sizes=new_sizes, dimensions=dimensions, sharding=None)

    return fun


SAMPLES: list[Sample] = [
    Sample("reshape", lambda x: lax.reshape(x, (3, 2)), (_real(6),)),
    Sample("reshape", lambda x: lax.reshape(x, (6, 1)), (_complex(2, 3),), "complex"),
    Sample("reshape", lambda x: lax.reshape(x, (1, 1)), (_real(),), "0-d"),
    Sample("reshape", lambda x: lax.reshape(x, (0,)), (_real(3, 0),), "empty"),
    Sample("reshape", _reshape_with((2, 0, 1), (6, 4)), (_real(2, 3, 4),), "dimensions"),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3, 4), (1,)), (_real(3),)),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 3), ()), (_complex(),), "0-d complex"),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (4, 3, 2), (0, 2)), (_real(1, 2),), "stretched"),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (1, 5), (0, 1)), (_real(1, 1),), "kept and stretched"),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (0, 3), (1,)), (_real(3),), "onto nothing"),
    Sample("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (2, 0), (1,)), (_real(0),), "empty"),
    Sample("squeeze", lambda x: lax.squeeze(x, (0, 2)), (_real(1, 3, 1),)),
    Sample("squeeze", lambda x: lax.squeeze(x, (-1,)), (_complex(1),), "to 0-d, complex"),
    Sample("squeeze", lambda x: lax.squeeze(x, (1,)), (_real(0, 1),), "empty"),
    Sample("transpose", lambda x: lax.transpose(x, (2, 0, 1)), (_real(2, 3, 4),)),
    Sample("transpose", lambda x: lax.transpose(x, (1, 0)), (_complex(2, 3),), "complex"),
    Sample("transpose", lambda x: lax.transpose(x, (1, 0)), (_real(0, 3),), "empty"),
    Sample("rev", lambda x: lax.rev(x, (0, 2)), (_real(2, 3, 2),)),
    Sample("rev", lambda x: lax.rev(x, (0,)), (_complex(4),), "complex"),
    Sample("rev", lambda x: lax.rev(x, (1,)), (_real(2, 0),), "empty"),
    Sample("concatenate", lambda x, y: lax.concatenate([x, y], 0), (_real(2, 3), _real(1, 3))),
    Sample(
        "concatenate", lambda x, y, z: lax.concatenate([x, y, z], 1),
        (_complex(2, 1), _complex(2, 0), _complex(2, 2)), "complex, one empty",
    ),
    Sample("concatenate", lambda x: lax.concatenate([x, x], 0), (_real(3),), "one array twice"),
    Sample("split", lambda x: lax.split(x, (1, 0, 3), 0), (_real(4, 2),)),
    Sample("split", lambda x: lax.split(x, (2, 1), 1), (_complex(2, 3),), "complex"),
    Sample("stack", lambda x, y: lax.stack([x, y], 1), (_real(2, 3), _real(2, 3))),
    Sample("stack", lambda x, y: lax.stack([x, y], 0), (_complex(), _complex()), "0-d complex"),
    Sample("unstack", lambda x: lax.unstack(x, 1), (_real(2, 3),)),
    Sample("unstack", lambda x: lax.unstack(x, 0), (_complex(2),), "to 0-d, complex"),
    Sample("tile", lambda x: lax.tile(x, (2, 3)), (_real(3, 2),)),
    Sample("tile", lambda x: lax.tile(x, (1,)), (_complex(3),), "once, complex"),
    Sample("tile", lambda x: lax.tile(x, (0, 2)), (_real(2, 2),), "no times"),
    Sample("pad", lambda x, p: lax.pad(x, p, ((1, 2, 0), (0, 1, 0))), (_real(2, 3), _real())),
    Sample("pad", lambda x, p: lax.pad(x, p, ((1, 0, 2),)), (_complex(3), _complex()), "interior, complex"),
    Sample("pad", lambda x, p: lax.pad(x, p, ((-1, -2, 0), (2, -1, 0))), (_real(5, 3), _real()), "negative"),
    Sample("pad", lambda x, p: lax.pad(x, p, ((-1, -2, 1), (-2, 3, 2))), (_real(4, 3), _real()), "interior, negative"),
    Sample("pad", lambda x, p: lax.pad(x, p, ((-3, 0, 0),)), (_real(3), _real()), "nothing left"),
    Sample("pad", lambda x, p: lax.pad(x, p, ((2, 1, 3),)), (_real(0), _real()), "empty"),
    Sample("pad", lambda x, p: lax.pad(x, p, ()), (_real(), _real()), "0-d"),
    Sample("slice", lambda x: lax.slice(x, (1, 0), (3, 2)), (_real(4, 3),)),
    Sample("slice", lambda x: lax.slice(x, (1, 0), (8, 3), (3, 2)), (_complex(9, 4),), "strides, complex"),
    Sample("slice", lambda x: lax.slice(x, (2,), (9,), (4,)), (_real(11,),), "stride beyond the limit"),
    Sample("slice", lambda x: lax.slice(x, (2,), (2,), (3,)), (_real(5),), "nothing taken"),
    Sample("slice", lambda x: lax.slice(x, (0, 1), (0, 2)), (_real(0, 3),), "empty"),
    Sample("iota", lambda x: lax.mul(x, lax.iota("float64", 3)), (_real(3),)),
    Sample("empty", lambda x: (lax.empty((3,), "float64"), x)[1], (_real(3),)),
]  # fmt: skip
