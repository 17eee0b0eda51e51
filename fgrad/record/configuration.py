"""Those of JAX's settings that change what is recorded."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import jax

#: JAX's settings on which the meaning of recorded code depends; each is read without a frame of Python's
configuration: Callable[[], tuple[Any, ...]] = partial(
    attrgetter(
        "jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion"
    ),
    jax.config,
)

#: the precision of products that holds now
precision: Callable[[], Any] = partial(attrgetter("jax_default_matmul_precision"), jax.config)
