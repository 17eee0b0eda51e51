"""The layouts of tensors in files, by the function that PyTorch's files call."""

from fgrad.mutable.types.formats import layout


def _get_layout(name: str) -> layout:
    """The layout with a ``repr``."""
    return next(each for each in layout if str(each) == name)
