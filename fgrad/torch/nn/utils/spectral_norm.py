"""The former spectral normalisation: a hook divides a module's weight by its largest singular value."""

from typing import Any

from attrs import frozen

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.types.formats import contiguous_format
from fgrad.torch import linalg, ops
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import parameters_of
from fgrad.torch.nn.parameter import Parameter, UninitializedParameter


class SpectralNorm:
    """The hook, called before ``forward``; while training each call continues the power iteration."""

    _version = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight with one row for each output."""
        if self.dim != 0:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The normalised weight, from the module's singular vectors, improved first while training."""
        weight, u, v = (getattr(module, f"{self.name}_{part}") for part in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v = F.normalize(ops.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    u = F.normalize(ops.mv(matrix, v), dim=0, eps=self.eps, out=u)
                # copies, because the next call writes the buffers that backward would read
                u = u.clone(memory_format=contiguous_format)
                v = v.clone(memory_format=contiguous_format)
        return weight / ops.dot(u, ops.mv(matrix, v))

    def remove(self, module: Any) -> None:
        """Make the normalised weight a parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, *(f"{self.name}_{part}" for part in ("u", "v", "orig"))):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Any, u: Any, sigma: Any) -> Any:
        """The singular vector that belongs to ``u``, which state dicts without versions lack."""
        inverse = matrix.t().mm(matrix).pinverse()
        v = linalg.multi_dot([inverse, matrix.t(), u.unsqueeze(1)]).squeeze(1)
        return v.mul_(sigma / ops.dot(u, ops.mv(matrix, v)))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> "SpectralNorm":
        """Replace a weight by the original and its singular vectors.

        Raises:
          RuntimeError: it was already applied.
          ValueError: the weight does not exist or is not initialised.
        """
        for each in module._forward_pre_hooks.values():
            if isinstance(each, SpectralNorm) and each.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = parameters_of(module)[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization"
            )
        with no_grad():
            sizes = hook.reshape_weight_to_matrix(weight).size()
            u, v = (F.normalize(weight.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in sizes)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # a plain attribute, for access before the first call
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


@frozen(eq=False)
class SpectralNormLoadStateDictPreHook:
    """Reads state dicts from before versions, which have the normalised weight and only one vector."""

    fn: SpectralNorm

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        if version is None and key not in state_dict and all(key + s in state_dict for s in ("_orig", "_u", "_v")):
            return
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            if strict:
                missing_keys += missing
            return
        with no_grad():
            original = state_dict[f"{key}_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            matrix = self.fn.reshape_weight_to_matrix(original)
            state_dict[f"{key}_v"] = self.fn._solve_v_and_rescale(matrix, state_dict[f"{key}_u"], sigma)


@frozen(eq=False)
class SpectralNormStateDictHook:
    """Records the version in state dicts."""

    fn: SpectralNorm

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value before each call (Miyato et al., 2018).

    PyTorch recommends ``torch.nn.utils.parametrizations.spectral_norm``.

    Arguments:
      module: the module, which is returned.
      name: of the weight.
      n_power_iterations: how often power iteration is run in each call while training.
      eps: keeps norms from being zero.
      dim: the dimension of the outputs; 0, or 1 for transposed convolutions.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']

    Source: `torch.nn.utils.spectral_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.spectral_norm.html>`_.
    """
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undo ``spectral_norm``: the normalised weight is a parameter; returns the module.

    Raises:
      ValueError: the weight is not normalised.

    Source: `torch.nn.utils.remove_spectral_norm
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.remove_spectral_norm.html>`_.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    _remove(module._state_dict_hooks, SpectralNormStateDictHook, name)
    _remove(module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook, name)
    return module


def _remove(hooks: Any, kind: type[Any], name: str) -> None:
    key = next((k for k, hook in hooks.items() if isinstance(hook, kind) and hook.fn.name == name), None)
    if key is not None:
        del hooks[key]
