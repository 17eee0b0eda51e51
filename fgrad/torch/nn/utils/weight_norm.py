"""The former weight normalisation: a hook computes a module's weight from its magnitude and direction."""

from typing import Any

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.changes import pop_entry
from fgrad.torch import ops
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import parameters_of
from fgrad.torch.nn.parameter import Parameter, UninitializedParameter


class WeightNorm:
    """The hook, called before ``forward``; ``dim`` keeps a norm for each of its indices, -1 is one norm."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim: int = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight from the module's current magnitudes and directions."""
        return ops._weight_norm(getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> "WeightNorm":
        """Replace a weight by its magnitude and direction.

        Raises:
          RuntimeError: it was already applied.
          ValueError: the weight is not initialised.
        """
        warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
        )
        for each in module._forward_pre_hooks.values():
            if isinstance(each, WeightNorm) and each.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization"
            )
        pop_entry(parameters_of(module), name)
        module.register_parameter(f"{name}_g", Parameter(ops.norm_except_dim(weight, 2, hook.dim).data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        pop_entry(parameters_of(module), f"{self.name}_g")
        pop_entry(parameters_of(module), f"{self.name}_v")
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Compute a weight from its norm and its direction before each call (Salimans and Kingma, 2016).

    PyTorch recommends ``torch.nn.utils.parametrizations.weight_norm`` and warns of this one.

    Arguments:
      module: the module, which is returned.
      name: of the weight.
      dim: the dimension that keeps a norm for each of its indices; None for one norm.

    >>> import fgrad.torch as torch, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight_g', 'weight_v']

    Source: `torch.nn.utils.weight_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.weight_norm.html>`_.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo ``weight_norm``: the weight is a parameter again, with its present value; returns the module.

    Raises:
      ValueError: the weight is not normalised.

    Source: `torch.nn.utils.remove_weight_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.remove_weight_norm.html>`_.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
