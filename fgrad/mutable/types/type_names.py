"""How PyTorch's errors name the type of an argument: classes written in C with their module, others without."""

#: ``Py_TPFLAGS_HEAPTYPE``: the class was made by a ``class`` statement, so its C name holds no module
MADE_IN_PYTHON = 1 << 9


def type_name(value: object) -> str:
    """The name of a value's type as PyTorch prints it in "argument 'other' must be Tensor, not ...".

    A class that replaces one of PyTorch's C classes has the name in its attribute ``__torch_name__``.

    >>> import collections
    >>> type_name(1.5), type_name(collections.OrderedDict())
    ('float', 'collections.OrderedDict')

    Source: PyTorch prints CPython's ``tp_name``.
    """
    cls = type(value)
    name = cls.__dict__.get("__torch_name__")
    if name is not None:
        return name
    if cls.__module__ == "builtins" or cls.__flags__ & MADE_IN_PYTHON:
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


#: the element types of which errors name a class of tensors
_NAMED_TENSORS = ("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")


def tensor_type_name(scalar_name: str) -> str:
    """The type of tensors as errors of PyTorch's kernels name it, from the name of the element type.

    >>> tensor_type_name("Float"), tensor_type_name("Bool")
    ('torch.FloatTensor', 'CPUBoolType')
    """
    return f"torch.{scalar_name}Tensor" if scalar_name in _NAMED_TENSORS else f"CPU{scalar_name}Type"
