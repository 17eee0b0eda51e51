"""How gradients of operations on images lie in memory, against real torch."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import fgrad.torch as ours

theirs = pytest.importorskip("torch")

#: functions of an image and a kernel, and the shape of the kernel; some read the image alone
OPERATIONS: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[int, ...]]] = {
    "conv2d": (lambda f, x, w: f.conv2d(x, w), (5, 3, 2, 2)),
    "conv_transpose2d": (lambda f, x, w: f.conv_transpose2d(x, w), (3, 5, 2, 2)),
    "batch_norm": (lambda f, x, w: f.batch_norm(x, None, None, training=True), ()),
    "max_pool2d": (lambda f, x, w: f.max_pool2d(x, 2), ()),
    "avg_pool2d": (lambda f, x, w: f.avg_pool2d(x, 2), ()),
    "adaptive_max_pool2d": (lambda f, x, w: f.adaptive_max_pool2d(x, 2), ()),
    "interpolate": (lambda f, x, w: f.interpolate(x, scale_factor=2), ()),
    "pixel_unshuffle": (lambda f, x, w: f.pixel_unshuffle(x, 2), ()),
    "pad": (lambda f, x, w: f.pad(x, (1, 1, 1, 1), mode="reflect"), ()),
    "relu": (lambda f, x, w: f.relu(x), ()),
    "prelu": (lambda f, x, w: f.prelu(x, w), (1,)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_layouts(name: str):
    """Of images, kernels and gradients of results in either format; gradients that are recorded, too."""
    function, shape = OPERATIONS[name]

    def run(torch: Any) -> list[Any]:
        def laid_out(x: Any, last: bool) -> Any:
            return x.to(memory_format=torch.channels_last) if last else x

        found = []
        for image_last, kernel_last, result_last in product((False, True), (False, len(shape) == 4), (False, True)):
            x = laid_out(torch.ones(2, 3, 4, 4), image_last).requires_grad_()
            w = laid_out(torch.ones(shape), kernel_last).requires_grad_()
            for create_graph in (False, True):
                y = function(torch.nn.functional, x, w)
                seed = laid_out(torch.ones(y.shape), result_last)
                given = torch.autograd.grad(y, [x, w], seed, create_graph=create_graph, allow_unused=True)
                found.append([g if g is None else g.stride() for g in given])
        return found

    assert run(ours) == run(theirs)
