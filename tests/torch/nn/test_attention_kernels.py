"""Choosing the kernels of attention against PyTorch's."""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch
import fgrad.torch.nn.attention
from tests.torch.nn.story import Story, assert_same, played


def play(torch: Any, tell: Story) -> None:
    kinds, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
    query = torch.ones(1, 1, 3, 2, requires_grad=True)

    def within(backends: Any, **settings: Any) -> str:
        with sdpa_kernel(backends, **settings):
            return torch.nn.functional.scaled_dot_product_attention(query, query, query).grad_fn.name()

    members = [kinds.ERROR, kinds.MATH, kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION, kinds.CUDNN_ATTENTION]
    for kind in members:
        tell(repr(kind), int(kind), kind.name)
        tell.attempt(within, kind)
    for backends in ([kinds.FLASH_ATTENTION, kinds.MATH], [], 3, ["a"], None):
        tell.attempt(within, backends)
    tell(within([kinds.MATH, kinds.FLASH_ATTENTION], set_priority=True))
    with sdpa_kernel(kinds.MATH):
        tell(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())
    tell(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())

    with torch.backends.cuda.sdp_kernel(enable_math=False, enable_cudnn=False):
        tell(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())
    tell(torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())

    key = torch.arange(6.0).reshape(1, 1, 3, 2)
    mask = torch.eye(3)
    masked = torch.nn.functional.scaled_dot_product_attention(query, key, key, mask, is_causal=True)
    tell([round(x, 4) for x in masked.flatten().tolist()], masked.grad_fn.name())


@pytest.mark.filterwarnings("ignore:.*sdp_kernel.. is deprecated:FutureWarning")
def test_kernels_are_pytorchs():
    pytorch = pytest.importorskip("torch")
    pytest.importorskip("torch.nn.attention")
    assert_same(played(play, fgrad.torch), played(play, pytorch))


def test_both_kernels_give_the_same():
    torch = fgrad.torch
    query = torch.arange(6.0).reshape(1, 1, 3, 2)
    attention: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention
    fused = attention(query, query, query)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        plain = attention(query, query, query)
    assert torch.allclose(fused, plain)
