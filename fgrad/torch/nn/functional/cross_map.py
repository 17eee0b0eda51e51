"""Images divided by a norm of neighbouring channels, with the sums of PyTorch's ``CrossMapLRN2d``."""

from typing import Any

from fgrad.torch import ops
from fgrad.torch.autograd import Function


class CrossMapLRN2d(Function):
    @staticmethod
    def forward(ctx: Any, input: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ctx.size, ctx.alpha, ctx.beta = size, alpha, beta
        reach = int((size - 1) / 2 + 1)
        source = ops.arange(input.size(1))
        target = source.unsqueeze(1)
        # each sums its neighbours, and the first channel, which is never subtracted
        summed = (source < target + reach) & ((source > target - reach) | (source == 0))
        sums = ops.einsum("oc,nchw->nohw", summed.to(input.dtype), input.pow(2))
        ctx.scale = sums.mul(alpha / size).add(k)
        output = ctx.scale.pow(-beta).mul(input)
        ctx.save_for_backward(input, output)
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        input, output = ctx.saved_tensors
        channels = input.size(1)
        shape = (input.size(0), channels + ctx.size - 1, input.size(2), input.size(3))
        padded = input.new_zeros(shape)
        ratio = padded.narrow(1, int(ctx.size - (ctx.size - 1) / 2), channels)
        # in place, as in PyTorch: this gradient cannot be differentiated
        ops.mul(grad_output, output, out=ratio)
        ratio.div_(ctx.scale)
        factor = 2 * ctx.alpha * ctx.beta / ctx.size
        gradient = ctx.scale.pow(-ctx.beta).mul(grad_output)
        return gradient.addcmul(input, padded.unfold(1, ctx.size, 1).sum(-1), value=-factor), None, None, None, None
