"""The table of operations, and how functions, methods and in-place twins are made from its entries.

NOTE [Writing an operation]
An entry is a function of arrays under ``@operation``.  The annotations say what its parameters are:

* ``Array``: a tensor; ``Operand``: a tensor or a Python number, both with a derivative;
* ``Fixed``: a tensor without one (an index, a mask);
* ``Number``: a Python number that is an input of the program; ``Float``, ``Integer``: one that PyTorch takes as such;
* ``Arrays``: any number of tensors, given as a sequence;
* ``Ints``: a static tuple of integers, which may be given one by one if they are a method's only argument;
* ``Dims``: static axes: one, several, or None for all;
* anything else is a static parameter: hashable, with a plan for each value, so no number that may vary from call to
  call.  For one annotated ``int`` or ``bool``, other values raise PyTorch's error.

The function may raise PyTorch's errors: it is traced, on shapes and types, for each new combination of operand types.
A function made of other operations stands under ``@composite``.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from attrs import frozen

from fgrad.deferred import Table
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.torch_function.wrap import binds
from fgrad.mutable.layout.gradient_views import Passing
from fgrad.mutable.operation.joins import Join
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.operation.traits import Absent, Computing, Gradients, Sequential, Writing
from fgrad.mutable.operation.views import ViewOperation, apply_view
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.transforms.forward import tangent_of
from fgrad.mutable.types.dtypes import bool_
from fgrad.mutable.write.copying import write_out
from fgrad.mutable.write.inplace import apply_inplace
from fgrad.torch import return_types
from fgrad.torch.ops.families import put_method
from fgrad.torch.ops.table.dispatch import Autocast, Dispatch, as_method, dispatched, of_method
from fgrad.torch.ops.table.outputs import FROM_OPERATION, Output, check_outputs, with_dtype_of
from fgrad.torch.ops.table.signature import (
    INTEGER,
    NUMBERS as NUMBERS,
    UNDERIVED,
    Array as Array,
    Arrays as Arrays,
    Binding as Binding,
    Dims as Dims,
    Fixed as Fixed,
    Float as Float,
    Integer as Integer,
    Ints as Ints,
    Number as Number,
    Operand as Operand,
    Signature as Signature,
    SymInt as SymInt,
)


class RowOptions(TypedDict, total=False):
    """The options of a function's row besides what it computes.

    Attributes:
      dispatch: how calls are dispatched to ``__torch_function__``, if that does not follow from the name.
      autocast: what ``torch.autocast`` does with the arguments.
      out: what is accepted as ``out=``, if that does not follow from the operation.
      foreach: whether ``torch._foreach_*`` has the function and its in-place twin for lists of tensors.
    """

    dispatch: Dispatch | None
    autocast: Autocast | None
    out: Output
    foreach: bool


@frozen(eq=False)
class Entry:
    """A row of the table: a public function, the operation behind it, and its options (``RowOptions``)."""

    name: str
    call: Callable[..., Any]
    operation: Operation | None
    method: Callable[..., Any] | None
    inplace: bool
    function: bool
    dispatch: Dispatch | None = None
    autocast: Autocast | None = None
    out: Output = FROM_OPERATION
    foreach: bool = False


TABLE: Table[Entry] = Table()


def enter_row(
    called: str,
    public: Any,
    op: Operation | None,
    method: Any = None,
    inplace: bool = False,
    function: bool = True,
    **options: Unpack[RowOptions],
) -> Any:
    """Enter a function in the table, and as a method of tensors; returns the function as users call it."""
    dispatch, autocast = options.get("dispatch"), options.get("autocast")
    if function or "." in called:
        public = dispatched(called, public, dispatch, autocast)
    TABLE[called] = Entry(called, public, op, method, inplace, function, **options)
    if method is not None:
        # methods are wrapped for ``__torch_function__`` all at once, after the last has been entered
        if dispatch is not None or autocast is not None:
            as_method(of_method(dispatch), autocast)(method)
        put_method(called, method)
    return public


def operation(
    node: str | Callable[..., str] | None = None,
    *,
    name: str | None = None,
    error_name: str | None = None,
    promote: Any = None,
    strides: Any = None,
    outputs: tuple[str, ...] = ("result",),
    saved: tuple[str, ...] = (),
    backward_node: str | Callable[..., str] | None = None,
    always_saved: tuple[str, ...] = (),
    auxiliary: tuple[str, ...] = (),
    workspace: tuple[str, ...] = (),
    overlap: Callable[[Tensor, Sequence[Any]], None] | None = None,
    constants: tuple[tuple[str, Any], ...] = (),
    overloads: tuple[str, str] = ("", ""),
    sequence: Sequential | None = None,
    unrecorded: bool = False,
    in_float32: bool = False,
    many: Callable[..., Join | None] | None = None,
    gradient_views: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    gradient_strides: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
    gradient_saved_first: bool = False,
    gradient_columns: tuple[str, ...] = (),
    undefined: Callable[..., bool] | None = None,
    not_derived: Mapping[str, str] = MappingProxyType({}),
    refuse: Callable[..., None] | None = None,
    passing: Passing = "itself",
    absent: Absent = "dependent",
    former: Sequence[str] = (),
    method: bool = True,
    inplace: bool = False,
    function: bool = True,
    **options: Unpack[RowOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of arrays in the table; returns the function of tensors.

    Arguments:
      node: the name of its ``grad_fn``, or a function from (operand types, static parameters) to it.
      name: PyTorch's name, if not the function's.
      error_name: the operation's name in errors, if it is not that of its row.
      promote, strides, in_float32, many: see ``Computing``.
      outputs: the names of the outputs, for ``_saved_*``.
      saved: the names of the operands in ``_saved_*``, if they are not those of the parameters.
      backward_node, always_saved, auxiliary, workspace, constants, gradient_views, gradient_strides,
        gradient_saved_first, gradient_columns, undefined, not_derived, refuse, passing, absent: see ``Gradients``.
      overlap, overloads, sequence, unrecorded: see ``Writing``.
      former: the parameters in the orders of NOTE [Former orders].
      method, inplace, function: whether it is a method of tensors, has a twin that writes its first operand, and is a
        function of ``torch``.
      options: the further options of its row: see ``RowOptions``.
    """

    def enter(array_function: Callable[..., Any]) -> Callable[..., Any]:
        called = name or array_function.__name__
        signature = Signature((error_name or called).replace(".", "_"), array_function, former=former)
        op = Operation(
            error_name or called,
            _by_name(array_function, signature),
            node,
            saved or tuple(["self" if n == "input" else n for i in signature.operands for n in (signature.names[i],)]),
            tuple([signature.names[i] for i in signature.statics]),
            frozenset(k for k, i in enumerate(signature.operands) if signature.kinds[i] in UNDERIVED),
            outputs,
            Computing(promote, strides, in_float32, many),
            Gradients(
                backward_node,
                always_saved,
                auxiliary,
                workspace,
                constants,
                gradient_views,
                gradient_strides,
                gradient_saved_first,
                gradient_columns,
                undefined,
                not_derived,
                refuse,
                passing,
                absent,
            ),
            Writing(overlap, overloads, sequence, unrecorded),
        )
        public = _public(called, signature, op, array_function)
        if inplace:
            _enter_twin(called, signature, op, function)
        bound = _public(called, signature.of_method(), op, array_function) if method else None
        return enter_row(called, public, op, bound, inplace, function, **options)

    return enter


def view(
    node: str,
    geometry: Callable[..., Any],
    *,
    name: str | None = None,
    method: bool = True,
    function: bool = True,
    passing: Passing = "alias",
    **options: Unpack[RowOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an operation whose results are views; ``geometry``: see ``ViewOperation``; ``passing``: ``Gradients``."""

    def enter(array_function: Callable[..., Any]) -> Callable[..., Any]:
        called = name or array_function.__name__
        signature = Signature(called, array_function)
        if not function:
            signature.only = signature.only_integers()
        op = ViewOperation(
            called,
            _by_name(array_function, signature),
            node,
            tuple(["self" if n == "input" else n for i in signature.operands for n in (signature.names[i],)]),
            tuple([signature.names[i] for i in signature.statics]),
            frozenset(k for k, i in enumerate(signature.operands) if signature.kinds[i] in UNDERIVED),
            gradients=Gradients(passing=passing),
            geometry=geometry,
        )

        def public_of(signature: Signature) -> Callable[..., Any]:
            def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
                return signature.split(signature.bind(args, kwargs), len(args))

            known = signature.by_integers

            def public(*args: Any, **kwargs: Any) -> Any:
                tensor, rest = args[0] if args else None, args[1:]
                # most calls of views are these, and ``remembered`` would take a fifteenth of their time
                if not kwargs and isinstance(tensor, Tensor) and INTEGER.issuperset(map(type, rest)):
                    binding = known.get(rest)
                    if binding is not None:
                        return apply_view(op, [tensor, *binding[0]], binding[1])
                operands, params = split(args, kwargs) if kwargs else signature.remembered(args, split)
                return apply_view(op, operands, params)

            _describe(public, called, array_function)
            return public

        bound = public_of(signature.of_method()) if method else None
        return enter_row(called, public_of(signature), op, bound, False, function, **options)

    return enter


def composite(
    method: bool = True,
    function: bool = True,
    name: str | None = None,
    namespace: str = "",
    **options: Unpack[RowOptions],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of tensors that is made of other operations.

    A function outside ``torch`` ("nn.functional") has its dotted name in the table.  Annotated operands are bound like
    those of operations: also by NumPy's names, and with PyTorch's errors.
    """

    def enter(public: Callable[..., Any]) -> Callable[..., Any]:
        called = f"{namespace}.{name or public.__name__}" if namespace else name or public.__name__
        in_python = called.startswith("nn.functional.")
        signature = Signature(name or public.__name__ if in_python else called.replace(".", "_"), public)
        if in_python:
            # these are Python functions in PyTorch, which do not check their arguments
            signature.kinds = [None if kind in (int, bool, SymInt) else kind for kind in signature.kinds]
        bound = public
        if signature.operands or (signature.checked and not in_python):
            bound = _checked(called, signature.of_method(), public)
            public = _checked(called, signature, public) if function or "." in called else bound
        return enter_row(called, public, None, bound if method else None, False, function, **options)

    return enter


def _checked(called: str, signature: Signature, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors whose arguments are bound as those of operations."""
    checked = [i for i in signature.statics if signature.kinds[i] is not None]
    bindings = signature.bindings
    # PyTorch's Python functions do not accept ``out``
    accepts_out = "out" not in signature.names and not called.startswith("nn.functional.")

    @functools.wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            if tuple(map(type, args)) in bindings:
                return function(*args)
        elif (*map(type, args), *map(type, kwargs.values()), *kwargs) in bindings:
            return function(*args, **kwargs)
        positional_count = len(args)
        out = kwargs.pop("out", None) if accepts_out else None
        if out is not None:
            kwargs = with_dtype_of(out, called, _output(called), kwargs)
        values = signature.bind(args, kwargs)
        operands = signature.spread(values, positional_count)
        for i in checked:
            values[i] = signature.static(i, values[i], positional_count)
        if out is None:
            signature.learn(args, kwargs, operands, [values[i] for i in signature.statics])
        count = signature.positional
        keywords = dict(zip(signature.names[count:], values[count:], strict=True))
        if out is None:
            return function(*values[:count], **keywords)
        returned = function(*values[:count], **keywords)
        _check_untracked(signature.name, operands, returned, out)
        return write_outputs(called, None, operands, returned, out)

    return public


def operation_of(public: Callable[..., Any]) -> Operation:
    """The table's operation behind a public function."""
    return public.operation  # type: ignore[attr-defined]


def _by_name(function: Callable[..., Any], signature: Signature) -> Callable[..., Any]:
    """The array function, taking operands by position and parameters by name."""
    variadic = [i for i in signature.operands if signature.kinds[i] is Arrays]
    if not variadic:
        names = [signature.names[i] for i in signature.operands]
        return lambda *arrays, **static: function(**dict(zip(names, arrays, strict=True)), **static)
    before = [signature.names[i] for i in signature.operands if i < variadic[0]]
    sequence = signature.names[variadic[0]]
    return lambda *arrays, **static: function(
        **dict(zip(before, arrays, strict=False)), **{sequence: arrays[len(before) :]}, **static
    )


def _public(called: str, signature: Signature, op: Operation, array_function: Callable[..., Any]) -> Any:
    bindings, bound = signature.bindings, _bound_to(op, apply)

    def split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        operands, params = signature.split(signature.bind(args, kwargs), len(args))
        signature.learn(args, kwargs, operands, params)
        return operands, params

    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None:
            kwargs = with_dtype_of(out, called, _output(called), kwargs)
            operands, params = signature.split(signature.bind(args, kwargs), len(args))
            return run_into(called, op, operands, params, out)
        values = (*args, *kwargs.values()) if kwargs else args
        binding = bindings.get((*map(type, values), *kwargs))
        if binding is not None:
            return bound(binding, values)
        operands, params = signature.remembered(args, split) if args[1:] and not kwargs else split(args, kwargs)
        return apply(op, operands, params)

    binds(public, bindings, bound)
    _describe(public, called, array_function)
    public.operation = op  # type: ignore[attr-defined]
    public.split = signature.split_known  # type: ignore[attr-defined]
    return public


def _bound_to(op: Operation, apply: Callable[..., Any]) -> Callable[[Binding, tuple[Any, ...]], Any]:
    """The function that applies an operation to arguments that are bound."""

    def bound(binding: Binding, values: tuple[Any, ...]) -> Any:
        if binding.whole:
            return apply(op, values)
        values += binding.defaults
        return apply(op, binding.operands(values), binding.params(values))

    return bound


def run_into(
    called: str,
    op: Operation,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    out: Any,
    rule: Output | None = None,
) -> Any:
    """Run an operation with ``out=``: the given tensors are resized if need be, and written; see ``write_outputs``."""
    returned = apply(op, operands, params)
    _check_untracked(called, operands, returned, out)
    return write_outputs(called, op, operands, returned, out, rule)


def _output(called: str) -> Output:
    """What a function accepts as ``out=``, according to its row."""
    return TABLE[called].out if called in TABLE else FROM_OPERATION


def writes_out(
    called: str, op: Operation | None = None, rule: Output = FROM_OPERATION, forward: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``out=`` to a function of tensors that binds its arguments itself.

    Arguments:
      called: the function's name in errors.
      op: the operation behind it, if it is one.
      rule: what it accepts as ``out=``, if that does not follow from the operation.
      forward: the name, in errors, of the kernel that has no derivative with ``out=``, if it differs.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if out is None:
                return function(*args, **kwargs)
            operands = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            returned = function(*args, **kwargs)
            _check_untracked(forward or called, operands, returned, out)
            return write_outputs(called, op, operands, returned, out, rule)

        return public

    return enter


def _not_derived(operands: Sequence[Any], returned: Any) -> bool:
    """Whether a function has no derivative: its results are truth values, or indices among floating-point numbers."""
    results = returned if isinstance(returned, tuple) else (returned,)
    of_floats = any(isinstance(x, Tensor) and x._type.inexact for x in operands)
    return all(r._type.dtype is bool_ or (of_floats and not r._type.inexact) for r in results)


def _check_untracked(called: str, operands: Sequence[Any], returned: Any, out: Any) -> None:
    """Raise PyTorch's error for a call with ``out=`` that would be differentiated."""
    if _not_derived(operands, returned):
        return
    outs = out if isinstance(out, tuple | list) else (out,)
    if modes.dual_level >= 0 and any(isinstance(x, Tensor) and tangent_of(x) is not None for x in (*operands, *outs)):
        raise NotImplementedError(
            f"Trying to use forward AD with {called}_out that does not support it because it is an out= function"
        )
    if modes.grad and any(isinstance(x, Tensor) and is_tracked(x) for x in (*operands, *outs)):
        raise RuntimeError(
            f"{called}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )


def write_outputs(
    called: str, op: Operation | None, operands: Sequence[Any], returned: Any, out: Any, rule: Output | None = None
) -> Any:
    """Write what a function returned to the tensors given as ``out=``, and return these.

    ``rule`` is what is accepted as ``out=``, if that does not stand in the row of this name.
    """
    several = isinstance(returned, tuple)
    results, outs = returned if several else (returned,), out if several and isinstance(out, tuple | list) else (out,)
    check_outputs(called, rule or _output(called), op, operands, results, outs)
    grad = modes.grad
    modes.grad = grad and not _not_derived(operands, returned)
    try:
        for target, result in zip(outs, results, strict=True):
            write_out(target, result)
    finally:
        modes.grad = grad
    # several are returned in the function's own named tuple
    return return_types.written(returned, outs) if several else out


def _enter_twin(called: str, signature: Signature, op: Operation, function: bool) -> None:
    name = called + "_"
    of_method = signature.of_method(name)

    bindings, bound = of_method.bindings, _bound_to(op, apply_inplace)

    def twin(*args: Any, **kwargs: Any) -> Any:
        values = (*args, *kwargs.values()) if kwargs else args
        binding = bindings.get((*map(type, values), *kwargs))
        if binding is not None:
            return bound(binding, values)
        operands, params = of_method.split(of_method.bind(args, kwargs), len(args))
        of_method.learn(args, kwargs, operands, params)
        return apply_inplace(op, operands, params)

    binds(twin, bindings, bound)
    _describe(twin, name, None)
    enter_row(name, twin, op, twin, False, function)


def _describe(public: Callable[..., Any], called: str, source: Callable[..., Any] | None) -> None:
    public.__name__ = public.__qualname__ = called
    public.__doc__ = None if source is None else source.__doc__
