"""What the tests of the interface share: comparison with JAX's results, and pytrees of every kind."""

import dataclasses
from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import tree_util


@tree_util.register_dataclass
@dataclasses.dataclass
class Params:
    """A dataclass that JAX knows."""

    w: Any
    b: Any
    name: str = dataclasses.field(default="layer", metadata={"static": True})


Pair = namedtuple("Pair", "first second")


@tree_util.register_pytree_with_keys_class
class Custom:
    """A user's own class, registered with keys."""

    def __init__(self, x: Any, y: Any):
        self.x, self.y = x, y

    def tree_flatten_with_keys(self) -> Any:
        return ((tree_util.GetAttrKey("x"), self.x), (tree_util.GetAttrKey("y"), self.y)), None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> "Custom":
        return cls(*children)


def every_pytree() -> dict[str, Any]:
    """One argument that holds every kind of container."""
    return {
        "params": Params(jnp.array([[1.0, 2.0], [3.0, -1.0]]), jnp.array([0.5, -0.5])),
        "none": None,
        "pair": Pair(jnp.array(2.0), [jnp.array([0.5, 0.25])]),
        "custom": Custom(jnp.array(0.3), (jnp.array([0.1, 0.2]),)),
        "empty": (),
    }


def total(tree: dict[str, Any]) -> Any:
    """A smooth scalar function of ``every_pytree()``."""
    p, pair, custom = tree["params"], tree["pair"], tree["custom"]
    hidden = jnp.tanh(p.w @ pair.second[0] + p.b)
    return jnp.sum(hidden**2) * pair.first + jnp.sum(jnp.sin(custom.y[0]) * custom.x)


def same(got: Any, expected: Any, tolerance: float = 1e-5, weak: bool = True) -> None:
    """Equal in structure, shapes, dtypes, weakness and (closely) in values."""
    assert tree_util.tree_structure(got) == tree_util.tree_structure(expected)
    pairs = zip(tree_util.tree_leaves_with_path(got), tree_util.tree_leaves(expected), strict=True)
    for (path, a), b in pairs:
        where = tree_util.keystr(path)
        ta, tb = jax.typeof(a), jax.typeof(b)
        assert (ta.shape, ta.dtype) == (tb.shape, tb.dtype), f"{where}: {ta} is not {tb}"
        if weak:
            assert ta.weak_type == tb.weak_type, f"{where}: weak types {ta.weak_type} and {tb.weak_type}"
        if tb.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(
                np.asarray(a).astype(_wide(tb.dtype)), np.asarray(b).astype(_wide(tb.dtype)),
                rtol=tolerance, atol=tolerance, err_msg=where,
            )  # fmt: skip


def _wide(dtype: Any) -> Any:
    return np.complex128 if jnp.issubdtype(dtype, jnp.complexfloating) else np.float64
