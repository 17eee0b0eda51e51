"""The layouts of tensors in files: by their names, through the function that PyTorch's files call for them."""

from fgrad.mutable.types.formats import layout


def _get_layout(name: str) -> layout:
    """The layout that prints so."""
    return next(each for each in layout if str(each) == name)
