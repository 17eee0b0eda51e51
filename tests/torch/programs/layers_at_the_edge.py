"""Layers at the edge: no elements, other layouts, settings and tangents that are refused."""

import fgrad.torch as torch
import fgrad.torch.nn.functional as F
from fgrad.torch.autograd import forward_ad


def show(name, call):
    try:
        found = call()
    except (RuntimeError, TypeError) as error:
        found = f"{type(error).__name__}: {error}".split("\n\n")[0]
    print(f"{name}: {found}")


def gradients(layer, *sizes):
    """The result's shape and the gradients' sums."""
    inputs = [torch.ones(size, requires_grad=True) for size in sizes]
    out = layer(*inputs)
    out.sum().backward()
    return tuple(out.shape), [x.grad.sum().item() for x in inputs]


print("no elements")
for x, grid in (((0, 2, 3, 4), (0, 2, 2, 2)), ((2, 0, 3, 4), (2, 2, 2, 2)), ((0, 2, 3, 4, 5), (0, 2, 2, 2, 3))):
    show("grid_sample", lambda: gradients(lambda *xs: F.grid_sample(*xs, align_corners=False), x, grid))
for dims in (1, 2, 3):
    max_pool, max_unpool, adaptive_max_pool = [
        getattr(F, f"{name}{dims}d") for name in ("max_pool", "max_unpool", "adaptive_max_pool")
    ]
    show(
        "unpool", lambda: gradients(lambda x: max_unpool(*max_pool(x, 2, return_indices=True), 2), (0, 3, *[4] * dims))
    )
    show("no window in the input", lambda: gradients(lambda x: max_pool(x, 2, 1, 1, 2), (1, 1, *[1] * dims)))
    show("no channels", lambda: gradients(lambda x: adaptive_max_pool(x, 2), (0, *[4] * dims)))
    show("to nothing", lambda: tuple(adaptive_max_pool(torch.ones(2, 3, *[4] * dims), 0).shape))
show("no volumes", lambda: gradients(lambda x: F.adaptive_avg_pool3d(x, 2), (0, 4, 4, 4)))
for sizes in ((0, 1), (1, 0)):
    show("fractional", lambda: gradients(lambda x: F.fractional_max_pool2d(x, 2, sizes), (2, 3, 5, 5)))
for size in ((2, 0, 5, 5), (2, 3, 5, 0), (0, 5, 5), (0, 3, 5, 5)):
    show("fractional", lambda: gradients(lambda x: F.fractional_max_pool2d(x, 2, 2), size))

print("settings")
for size in ((0, 3, 2), (1, 3, 2), (2, 4, 2), (2, 3, 1)):
    samples = torch.full(size, 0.5)
    show("samples", lambda: F.fractional_max_pool2d(torch.ones(2, 3, 5, 5), 2, 2, _random_samples=samples).shape)
for x, grid in (
    ((1, 2, 2), (1, 1, 1, 2)),
    ((1, 2, 2), (1, 1, 1, 1)),
    ((1, 1, 2, 2), (1, 1, 2)),
    ((1, 1, 2, 2), (1, 1, 1, 3)),
    ((1, 2, 2), (2, 1, 1, 2)),
):
    show("grid_sample", lambda: F.grid_sample(torch.ones(x), torch.ones(grid), align_corners=False))
for factor in (-1e20, 1e20, float("inf"), float("nan"), 1e8):
    for mode in ("bilinear", "nearest"):
        show("interpolate", lambda: F.interpolate(torch.ones(1, 1, 16, 16), scale_factor=factor, mode=mode))
show("fold", lambda: F.fold(torch.ones(1, 12, 12), (4, 5), 2, dilation=8))
show("avg_pool1d", lambda: F.avg_pool1d(torch.ones(1, 2, 4), 2, stride=0))
one = torch.ones(1, 1, 1, 1, 1)
show("max_unpool3d", lambda: F.max_unpool3d(one, one.long(), [1, 1]))
for mode in ("sum", "mean", "max"):
    for padding in (None, 0):
        show("bag", lambda: F.embedding_bag(torch.tensor([[3, 12]]), torch.ones(10, 2), mode=mode, padding_idx=padding))
for lower, upper in ((-5.0, 1.0), (-1.0, 2.0)):
    show("rrelu_", lambda: gradients(lambda x: F.rrelu_(x.clone(), lower, upper), (2,)))
show("threshold_", lambda: F.threshold_(torch.arange(3.0).expand(2, 3), 1.5, 0.5))

print("layouts")
weight, bias = torch.ones(3, 4, requires_grad=True), torch.ones(3, requires_grad=True)
for name, x in (
    ("contiguous", torch.ones(2, 5, 4)),
    ("transposed", torch.ones(5, 2, 4).transpose(0, 1)),
    ("expanded", torch.ones(1, 5, 4).expand(2, 5, 4)),
    ("cut", torch.ones(2, 7, 4)[:, :5]),
):
    out = F.linear(x, weight, bias)
    print(name, out.grad_fn.name(), out.grad_fn.next_functions[0][0].name(), out.stride(), out._version)
show("half", lambda: F.linear(torch.ones(5, 2, 4).transpose(0, 1), weight, bias.half()).dtype)
show("half", lambda: F.linear(torch.ones(5, 2, 4), weight, bias.half()).dtype)
image = torch.ones(2, 4, 6, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
volume = torch.ones(2, 4, 6, 6, 6).contiguous(memory_format=torch.channels_last_3d).requires_grad_()
for name, out in (
    ("shuffled", F.pixel_shuffle(image, 2)),
    ("unshuffled", F.pixel_unshuffle(image, 2)),
    ("one window", F.adaptive_avg_pool2d(image, 1)),
    ("one window", F.adaptive_avg_pool3d(volume, 1)),
    ("windows", F.avg_pool2d(image, 2)),
    ("windows", F.avg_pool3d(volume, 2)),
    ("maxima", F.max_pool3d(volume, 2)),
    ("adaptive", F.adaptive_avg_pool3d(volume, 2)),
    ("adaptive", F.adaptive_max_pool3d(volume, 2)),
):
    image.grad = volume.grad = None
    out.backward(torch.ones(out.shape))
    print(name, out.grad_fn.name(), out.stride(), out._version, (volume if image.grad is None else image).grad.stride())

print("tangents")
for training in (False, True):
    for with_tangent in ((0,), (1,), (0, 1), (0, 2)):
        with forward_ad.dual_level():
            inputs = [torch.ones(3, 2), torch.zeros(2), torch.ones(2)]
            for i in with_tangent:
                inputs[i] = forward_ad.make_dual(inputs[i], torch.ones_like(inputs[i]))
            show((training, with_tangent), lambda: tuple(F.batch_norm(*inputs, training=training).shape))
