"""The learnt scale and shift with which normalisations end."""

from typing import Any

from fgrad.torch import ops
from fgrad.torch.nn import init
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter


class Affine(Module):
    """A module with the parameters ``weight`` and ``bias``, either of which may be None."""

    weight: Any
    bias: Any

    def _make_affine(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, is_present in (("weight", weight), ("bias", weight and bias)):
            tensor = Parameter(ops.empty(shape, device=device, dtype=dtype)) if is_present else None
            self.register_parameter(name, tensor)

    def reset_parameters(self) -> None:
        """Make the scale one and the shift zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)
