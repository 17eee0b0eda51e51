"""``torch.utils.swap_tensors``."""

from typing import NoReturn

from fgrad.mutable.tensor.attributes import fields_of
from fgrad.mutable.tensor.changes import changes
from fgrad.mutable.tensor.tensor import Tensor

POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
    "backward on a tensor that was swapped. For a module m with "
    "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of the "
    "module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please only change "
    "the device/dtype before running forward (or after both forward and backward)."
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Give each of two tensors the class, elements, history and attributes of the other.

    A graph that has one of them as a leaf can no longer be run backward, and one that has saved one finds it changed.

    >>> import fgrad.torch as torch
    >>> a, b = torch.zeros(1), torch.nn.Parameter(torch.ones(2))
    >>> torch.utils.swap_tensors(a, b)
    >>> type(a).__name__, b
    ('Parameter', tensor([0.]))

    Source: PyTorch's ``torch/utils/__init__.py``.
    """
    for tensor in (t1, t2):
        if tensor._requires_grad and tensor._accumulator is not None and (node := tensor._accumulator()) is not None:
            node.register_prehook(_refuse)
            tensor._accumulator = None
    # so that a node that has saved one of the handles finds another version
    version = 1 + max(t1._counter.value, t2._counter.value)
    now = object()
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(fields_of(t1)), dict(fields_of(t2))
    for fields, others in ((fields_of(t1), second), (fields_of(t2), first)):
        fields.clear()
        fields.update(others)
    t1._counter.value = t2._counter.value = version
    changes.fields = now


def _refuse(grads: object) -> NoReturn:
    raise RuntimeError(POISONED)
