"""Pruning: parameters multiplied by masks of zeros and ones.

NOTE [A pruned parameter]
Pruning ``weight`` keeps the parameter under ``weight_orig`` and the mask in the buffer ``weight_mask``; ``weight``
itself becomes their product, recomputed by a hook before every ``forward``, so that gradients reach what is left.
Pruning again considers only what is left and combines the masks.

Source: `torch.nn.utils.prune <https://docs.pytorch.org/docs/2.13/nn.html#torch.nn.utils.prune.BasePruningMethod>`_.
"""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.changes import pop_entry
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of
from fgrad.torch.nn.vectors import parameters_to_vector


class BasePruningMethod(ABC):
    """A way to choose what is pruned: subclasses write ``compute_mask`` and say their ``PRUNING_TYPE``.

    ``PRUNING_TYPE`` is "unstructured" (single elements), "structured" (whole slices) or "global".

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.nn.utils import prune
    >>> class EveryOther(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = torch.nn.Linear(2, 2)
    >>> EveryOther.apply(layer, "bias")  # doctest: +ELLIPSIS
    <...EveryOther object at ...>
    >>> layer.bias_mask
    tensor([0., 1.])
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Recompute the pruned parameter; a hook before ``forward``."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask for a tensor of importances, no less strict than ``default_mask``."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune the parameter ``name`` of a module by a method constructed from the other arguments.

        Arguments:
          importance_scores: importances of the elements; by default the parameter itself.

        Returns:
          The method, or, if the parameter was pruned before, the container of all its methods.
        """
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        earlier = [(key, hook) for key, hook in _methods(module) if hook._tensor_name == name]
        for key, hook in earlier:
            container = hook
            if not isinstance(hook, PruningContainer):
                container = PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
            del module._forward_pre_hooks[key]
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got "
                f"{importance_scores.shape} vs {original.shape}"
            )
        if not earlier:
            module.register_parameter(f"{name}_orig", original)
            pop_entry(parameters_of(module), name)
            default = ops.ones_like(original)
        else:
            default = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=default)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not earlier:
                module.register_parameter(name, getattr(module, name + "_orig"))
                pop_entry(parameters_of(module), name + "_orig")
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = self.compute_mask(importance_scores, ops.ones_like(t) if default_mask is None else default_mask)
        return t * mask

    def remove(self, module: Module) -> None:
        """Make pruning permanent: an ordinary parameter with zeros where the mask has them."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = parameters_of(module)[name + "_orig"]
        assert original is not None
        original.data = pruned.data
        pop_entry(parameters_of(module), name + "_orig")
        pop_entry(buffers_of(module), name + "_mask")
        setattr(module, name, original)


def _methods(module: Module) -> list[tuple[int, Any]]:
    return [(key, hook) for key, hook in module._forward_pre_hooks.items() if isinstance(hook, BasePruningMethod)]


class PruningContainer(BasePruningMethod):
    """Several methods in sequence, each applied to what the earlier ones left."""

    PRUNING_TYPE: str = "combined"

    def __init__(self, *args: Any):
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        first = next(iter(methods), None)
        if first is not None:
            self._tensor_name = first._tensor_name
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter.

        Raises:
          TypeError: it is not a pruning method.
          ValueError: it prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` combined with the latest method's mask of the rest."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            where: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            method_dim: int = method.dim  # type: ignore[attr-defined]
            axis = method_dim + t.dim() if method_dim < 0 else method_dim
            remaining = mask.sum(dim=[i for i in range(t.dim()) if i != axis]) != 0
            where = [slice(None)] * t.dim()
            where[axis] = remaining
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        part = method.compute_mask(t[where], default_mask=mask[where])
        new = mask.clone()
        new[where] = part.to(dtype=new.dtype)
        return new


class Identity(BasePruningMethod):
    """Prunes nothing; the parameter gets a mask of ones."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    """Methods that prune a number, or a fraction, of elements or slices."""

    def __init__(self, amount: Any):
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        is_count = isinstance(amount, numbers.Integral)
        if (is_count and amount < 0) or (not is_count and not 0.0 <= float(amount) <= 1.0):
            raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
        self.amount = amount

    def count(self, size: int) -> int:
        """The number of elements, out of ``size``, to prune."""
        if not isinstance(self.amount, numbers.Integral):
            return round(float(self.amount) * size)
        count = int(self.amount)
        if count > size:
            raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
        return count


class RandomUnstructured(_Amount):
    """Prunes single elements, chosen at random."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        count = self.count(t.nelement())
        if count:
            at = ops.topk(ops.rand_like(t).view(-1), k=count).indices
            mask.view(-1)[at] = 0
        return mask


class L1Unstructured(_Amount):
    """Prunes the single elements of least magnitude."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        count = self.count(t.nelement())
        if count:
            at = ops.topk(ops.abs(t).view(-1), k=count, largest=False).indices
            mask.view(-1)[at] = 0
        return mask


class _Slices(_Amount):
    """Methods that prune slices along an axis."""

    PRUNING_TYPE: str = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Tensor:
        """The importance of each slice."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if self.dim >= t.dim() or self.dim < -t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self.count(size)
        scores = self.scores(t)
        if not count:
            return default_mask
        kept = ops.topk(scores, k=size - count, largest=True).indices
        mask = ops.zeros_like(t)
        where: list[Any] = [slice(None)] * t.dim()
        where[self.dim] = kept
        mask[tuple(where)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Slices):
    """Prunes slices along an axis, chosen at random."""

    def scores(self, t: Tensor) -> Tensor:
        return ops.rand(t.shape[self.dim])


class LnStructured(_Slices):
    """Prunes the slices along an axis of least ``n``-norm."""

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor) -> Tensor:
        axis = self.dim + t.dim() if self.dim < 0 else self.dim
        return ops.norm(t, p=self.n, dim=[i for i in range(t.dim()) if i != axis])


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE: str = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# -- functions -------------------------------------------------------------------------------------------------------


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune ``amount`` elements of a parameter (a fraction, if it is a float), chosen at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Module:
    """Prune the ``amount`` elements of least magnitude of a parameter.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.nn.utils import prune
    >>> layer = torch.nn.Linear(2, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[0.1, -2.0]]))
    >>> _ = prune.l1_unstructured(layer, "weight", amount=1)
    >>> layer.weight_mask
    tensor([[0., 1.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune ``amount`` slices of a parameter along an axis, chosen at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the ``amount`` slices along an axis that have the least ``n``-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one.

    Arguments:
      parameters: pairs of a module and the name of its parameter.
      pruning_method: a class of type "unstructured"; further arguments are passed to it.
      importance_scores: importances by such pairs; by default the parameters themselves.

    Raises:
      TypeError: ``parameters`` is not iterable, the scores are not a dict, or the method prunes slices.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores: dict[Any, Any] = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: Sequence[tuple[Module, str]] = [(module, name) for module, name in parameters]
    importances: list[Any] = [scores.get((module, name), getattr(module, name)) for module, name in pairs]
    relevant = parameters_to_vector(importances)
    defaults: list[Any] = [
        getattr(module, name + "_mask", ops.ones_like(getattr(module, name))) for module, name in pairs
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    with no_grad():
        mask = container.compute_mask(relevant, parameters_to_vector(defaults))
    start = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        count = parameter.numel()
        custom_from_mask(module, name, mask=mask[start : start + count].view_as(parameter))
        start += count


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make pruning permanent: an ordinary parameter with zeros where its mask has them.

    Raises:
      ValueError: it is not pruned.
    """
    for key, hook in _methods(module):
        if hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of a module, or of one in it, is pruned."""
    return any(_methods(each) for each in module.modules())


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
