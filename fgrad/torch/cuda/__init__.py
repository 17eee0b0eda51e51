"""``torch.cuda``: queries about GPUs.

Source: `torch.cuda <https://docs.pytorch.org/docs/stable/cuda.html>`_.
"""

from typing import TYPE_CHECKING, Any

import jax

from fgrad.torch.random.default import manual_seed as manual_seed
from fgrad.torch.stand_ins import names, submodules

globals().update(names("cuda"))
if TYPE_CHECKING:
    from fgrad.torch.cuda import amp as amp
else:
    __getattr__, __dir__ = submodules(__name__, {__name__: "amp"})


def device_count() -> int:
    """The number of GPUs that JAX sees."""
    try:
        return len(jax.devices("cuda"))
    except RuntimeError:
        return 0


def is_available() -> bool:
    """Whether there is a GPU.

    >>> import fgrad.torch as torch
    >>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def manual_seed_all(seed: int) -> None:
    """Seed the generator, which is one for all devices."""
    manual_seed(seed)


def synchronize(device: object = None) -> None:
    """Wait for all pending work of the devices."""
    jax.effects_barrier()


def empty_cache() -> None:
    """Accepted as in PyTorch; JAX manages the memory of devices."""


def is_initialized() -> bool:
    """Whether the GPUs are in use."""
    return is_available()


def init() -> None:
    """Initialise the GPUs.

    Raises:
      AssertionError: there is none.
    """
    _check()


def current_device() -> int:
    """The index of the default GPU.

    Raises:
      AssertionError: there is none.
    """
    _check()
    return 0


def set_device(device: object) -> None:
    """Accepted as in PyTorch where there is a GPU; pass the device of a tensor when creating it.

    Raises:
      AssertionError: there is none.
    """
    _check()


def get_device_name(device: object = None) -> str:
    """The name of the GPU.

    Raises:
      AssertionError: there is none.
    """
    return _device(device).device_kind


def get_device_capability(device: object = None) -> tuple[int, int]:
    """The compute capability of the GPU.

    Raises:
      AssertionError: there is none.
    """
    major, minor = str(_device(device).compute_capability).split(".")  # type: ignore[attr-defined]
    return int(major), int(minor)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether there is a GPU, which then computes with bfloat16."""
    return is_available()


def memory_allocated(device: object = None) -> int:
    """The bytes that arrays take on the GPU; 0 without one.

    >>> import fgrad.torch as torch
    >>> torch.cuda.is_available() or torch.cuda.memory_allocated()
    0
    """
    return _memory(device, "bytes_in_use")


def max_memory_allocated(device: object = None) -> int:
    """The peak of the bytes taken by arrays; 0 without a GPU."""
    return _memory(device, "peak_bytes_in_use")


def memory_reserved(device: object = None) -> int:
    """The bytes that JAX has reserved; 0 without a GPU."""
    return _memory(device, "pool_bytes")


def seed_all() -> None:
    """Accepted as in PyTorch; there is one generator for all devices."""


def _memory(device: object, name: str) -> int:
    return (_device(device).memory_stats() or {}).get(name, 0) if is_available() else 0


def _device(device: object) -> Any:
    _check()
    index = device if isinstance(device, int) else getattr(device, "index", None)
    return jax.devices("cuda")[index or 0]


def _check() -> None:
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled")
