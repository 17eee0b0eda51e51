"""Modules moved and cast: ``to`` and its relatives replace every parameter's data in place, so optimisers keep them."""

from collections.abc import Callable
from itertools import chain
from typing import Any, Self

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.changes import set_entry
from fgrad.mutable.types.devices import device as device_type
from fgrad.torch import ops
from fgrad.torch.__future__ import get_overwrite_module_params_on_conversion, get_swap_module_params_on_conversion
from fgrad.torch.methods.to_arguments import to_arguments
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of
from fgrad.torch.nn.modules.traversal import Traversal
from fgrad.torch.nn.parameter import Parameter, is_lazy
from fgrad.torch.utils.swapping import swap_tensors


class Conversion(Traversal):
    """Applying a function to every tensor of a module."""

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in parameters_of(self).items():
            if param is not None:
                set_entry(parameters_of(self), name, _converted(param, fn))
        for name, buffer in buffers_of(self).items():
            if buffer is not None:
                set_entry(buffers_of(self), name, _converted(buffer, fn) if is_lazy(buffer) else fn(buffer))
        return self

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Cast all floating-point parameters and buffers to ``float32``."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Cast all floating-point parameters and buffers to ``float64``.

        >>> import fgrad.torch as torch
        >>> torch.nn.Linear(1, 1).double().weight.dtype
        torch.float64
        """
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Cast all floating-point parameters and buffers to ``float16``."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Cast all floating-point parameters and buffers to ``bfloat16``."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move all parameters and buffers to ``device`` without their values."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory shared between processes (see ``Tensor.share_memory_``)."""
        for tensor in chain(self.parameters(), self.buffers()):
            tensor.share_memory_()
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and cast: ``to(device, dtype)``, ``to(dtype)``, ``to(tensor)``, ``to(memory_format=...)``.

        Returns:
          The module itself.  Only floating-point and complex parameters and buffers are cast.

        Raises:
          TypeError: ``dtype`` is neither floating-point nor complex, or the arguments fit none of the forms.

        >>> import fgrad.torch as torch
        >>> torch.nn.BatchNorm1d(1).to(torch.float64).num_batches_tracked.dtype
        torch.int64
        """
        target, dtype, non_blocking, copy, memory_format = to_arguments(args, kwargs)
        if copy is not None:
            raise RuntimeError(".to() does not accept copy argument")
        device = None if target is None else device_type(target)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warn(
                "Complex modules are a new feature under active development whose design may change, and some modules "
                "might not work as expected when using complex tensors as parameters or buffers. Please file an issue "
                "at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not "
                "work as expected.",
            )

        def convert(t: Any) -> Any:
            to_dtype = dtype if t.is_floating_point() or t.is_complex() else None
            options = {"memory_format": memory_format} if memory_format is not None and t.dim() in (4, 5) else {}
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            return t.to(device, to_dtype, non_blocking, **options)

        return self._apply(convert)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters are trained."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or with ``set_to_none=False`` to zeros in place."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
                continue
            if parameter.grad.grad_fn is not None:
                parameter.grad.detach_()
            else:
                parameter.grad.requires_grad_(False)
            parameter.grad.zero_()


def _converted(param: Any, fn: Callable[[Any], Any]) -> Any:
    """The parameter with ``fn`` applied to its data and gradient: the same object where its data can be replaced."""
    grad = param.grad
    with no_grad():
        # an uninitialised parameter converts the empty tensor that holds its dtype and device
        data = fn(param.data if is_lazy(param) else param)
    if get_swap_module_params_on_conversion():
        param.grad = None
        swap_tensors(param, Parameter(data, param.requires_grad))
        new = param
    elif _exchangeable(param, data) and not get_overwrite_module_params_on_conversion():
        param.data = data
        new = param
    else:
        new = Parameter(data, param.requires_grad)
    if grad is None:
        return new
    with no_grad():
        data = fn(grad)
    if new.grad is not None and _exchangeable(grad, data):
        new.grad.data = data
    else:
        new.grad = data.requires_grad_(grad.requires_grad)
    return new


def _exchangeable(old: Any, new: Any) -> bool:
    """Whether PyTorch lets ``old.data = new``: not between a meta tensor and one that has values."""
    return old.is_meta == new.is_meta
