"""JAX's settings that change what is recorded."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import jax

#: the settings on which the meaning of recorded code depends, read without a Python frame
configuration: Callable[[], tuple[Any, ...]] = partial(
    attrgetter(
        "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion"
    ),
    jax.config,
)

#: the current precision of products
precision: Callable[[], Any] = partial(attrgetter("jax_default_matmul_precision"), jax.config)
