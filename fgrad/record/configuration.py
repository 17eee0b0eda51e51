"""Those of JAX's settings that change what is recorded."""

from typing import Any

import jax


def configuration() -> tuple[Any, ...]:
    """JAX's settings on which the meaning of recorded code depends."""
    config = jax.config
    return (
        config.jax_enable_x64,  # type: ignore[attr-defined]
        config.jax_default_matmul_precision,  # type: ignore[attr-defined]
        config.jax_numpy_dtype_promotion,  # type: ignore[attr-defined]
        config.jax_numpy_rank_promotion,  # type: ignore[attr-defined]
    )


def precision() -> Any:
    """The precision of products that holds now."""
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
