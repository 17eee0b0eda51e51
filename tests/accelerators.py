"""Two accelerators for tests: host devices of JAX's stand in for them."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from fgrad.mutable.types import devices
from fgrad.mutable.values import device_of_value as placing


@pytest.fixture
def two_accelerators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """``cuda:0`` and ``cuda:1`` are JAX's second and third host device."""
    hosts = jax.devices("cpu")
    present = {"cpu": hosts[:1], "cuda": hosts[1:3], "tpu": []}
    monkeypatch.setattr(devices, "_jax_devices", present.__getitem__)
    monkeypatch.setattr(placing.elsewhere, "exist", placing.elsewhere.exist)
    _forget()
    yield
    _forget()


def _forget() -> None:
    devices.jax_device.cache_clear()
    devices.of_jax.cache_clear()


def held(tensor: Any) -> Any:
    """The JAX device that has a tensor's elements; None if it is NumPy."""
    array = tensor._storage.array
    return None if isinstance(array, np.ndarray) else next(iter(array.devices()))


def on(tensor: Any, index: int = 0) -> None:
    """Check that a tensor is on an accelerator."""
    assert str(tensor.device) == f"cuda:{index}"
    assert held(tensor) == jax.devices("cpu")[1 + index]
