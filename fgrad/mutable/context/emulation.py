"""Choices in emulating PyTorch: what a write does to saved values, and which release is emulated."""

from fgrad.mutable.context.modes import Switch, modes


class inplace(Switch):
    """Sets what a write does to saved values: PyTorch's rule, or nothing.

    Called, it sets the mode of the thread; as a context manager or decorator it sets it for a block.

    Arguments:
      mode: "strict": as PyTorch, backward raises if a saved value was written since; the default.  "snapshot": saved
        values are kept as they were, so that the gradient is simply right.  No copies are made for it.

    Raises:
      ValueError: another mode.

    >>> import fgrad.torch as torch
    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> with torch.inplace("snapshot"):
    ...     y = x.exp()
    ...     z = y.sum()
    ...     y += 1
    ...     z.backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, mode: str):
        if not isinstance(mode, str) or mode not in ("strict", "snapshot"):
            raise ValueError(f'inplace() takes "strict" or "snapshot", not {mode!r}.')
        self.mode = mode
        self.set(snapshot=mode == "snapshot")

    def clone(self) -> "inplace":
        return inplace(self.mode)

    def __enter__(self) -> None:
        super().__enter__()
        modes.snapshot = self.mode == "snapshot"


class compat(Switch):
    """Which release of PyTorch is emulated where they differ: "2.13", the default, or "1.x".

    Under "1.x" an assignment to ``.data`` leaves saved values alone, which in 2.13 follow the tensor, and the error of
    a write in place has the words of that time.

    Arguments:
      release: "2.13" or "1.x".

    Raises:
      ValueError: another release.

    >>> import fgrad.torch as torch
    >>> def gradient():
    ...     w, x = torch.tensor(2.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    ...     product = w * x
    ...     w.data = torch.tensor(5.0)
    ...     product.backward()
    ...     return x.grad
    >>> gradient()
    tensor(5.)
    >>> with torch.compat("1.x"):
    ...     gradient()
    tensor(2.)
    """

    def __init__(self, release: str):
        if not isinstance(release, str) or release not in ("2.13", "1.x"):
            raise ValueError(f'compat() takes "2.13" or "1.x", not {release!r}.')
        self.release = release
        self.set(release=release)

    def clone(self) -> "compat":
        return compat(self.release)

    def __enter__(self) -> None:
        super().__enter__()
        modes.release = self.release
