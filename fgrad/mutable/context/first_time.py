"""Warnings that come once in a process, as PyTorch's ``TORCH_WARN_ONCE``; ``set_warn_always`` repeats them."""

from attrs import define, field


@define
class _Once:
    always: bool = False
    given: set[str] = field(factory=set)


once: _Once = _Once()


def due(warning: str) -> bool:
    """Whether a warning is to be given now; from then on it has been.

    Source: `torch.set_warn_always <https://docs.pytorch.org/docs/2.13/generated/torch.set_warn_always.html>`_.
    """
    if once.always:
        return True
    fresh = warning not in once.given
    once.given.add(warning)
    return fresh
