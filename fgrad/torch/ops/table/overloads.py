"""Functions with several overloads, and second names of functions.

NOTE [Overloads]
PyTorch has ``pow`` of a tensor and a number, of two tensors, and of a number and a tensor: three operations, each with
its own node.  Here each is an entry of the table under ``@overload``.  The function under ``@overloaded`` takes the
user's arguments and returns the overload, followed by its arguments.  The in-place twin and ``out=`` follow from that.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from attrs import evolve, field, frozen

from fgrad.mutable.context.torch_function.wrap import binds, raw
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.write.inplace import apply_inplace, check_written
from fgrad.torch.ops.table.outputs import FROM_OPERATION, Output, check_accepted
from fgrad.torch.ops.table.table import (
    NUMBERS,
    TABLE,
    Array,
    Binding,
    Fixed,
    RowOptions,
    Signature,
    enter_row,
    operation,
    operation_of,
    run_into,
)


@frozen(eq=False)
class Overload:
    """One of the operations behind a function."""

    operation: Operation
    signature: Signature
    wrapped: Callable[..., Tensor] | None
    #: what it accepts as ``out=``, if not what the row of the function says
    out: Output | None = None

    def __call__(self, *args: Any, out: Any = None) -> Any:
        operands, params = self.signature.split_known(args)
        if out is None:
            if self.wrapped is not None and all([x._inference for x in operands if isinstance(x, Tensor)]):  # noqa: C419
                return self.wrapped(*args)
            return apply(self.operation, operands, params)
        return run_into(self.operation.name, self.operation, operands, params, out, self.out)

    def write(self, *args: Any) -> Tensor:
        """Run it in place of the first argument."""
        return apply_inplace(self.operation, *self.signature.split_known(args))


#: an overload and its arguments
Choice = tuple[Any, ...]


def overload(
    function: str,
    node: Any,
    *,
    wrapped: Callable[..., Tensor] | None = None,
    out: Output | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], Overload]:
    """Enter a function of arrays as one of the operations behind ``function``; ``settings`` as in ``operation``.

    ``wrapped`` is the function that PyTorch's kernel calls with the number as a tensor.  Autograd skips inference
    tensors, so it sees only that inner call, in which the number's tensor is a normal one.

    ``out`` is what it accepts as ``out=``, if not what the row of ``function`` says.
    """

    def enter(array_function: Callable[..., Any]) -> Overload:
        public = operation(node, error_name=function, method=False, function=False, **settings)(array_function)
        return Overload(operation_of(public), Signature(function, array_function), wrapped, out)

    return enter


#: the kinds of operands that cannot be numbers
_TENSORS = (Array, Fixed)


@frozen(eq=False)
class _Resolver:
    """Binds the arguments of a call and chooses its overload: see NOTE [Overloads].

    Attributes:
      choose: from the arguments to the overload and its arguments.
      signature: of the function, its method or its in-place twin.
      listed: how PyTorch's error lists the overloads; where empty, an operand that fits none is refused by itself.
      numbers: whether all operands may be numbers.
      check: called with the arguments before ``choose``.
    """

    choose: Callable[..., Choice]
    signature: Signature
    listed: Sequence[str]
    numbers: bool
    check: Callable[..., None] | None = None
    #: the arguments that it is called with by name
    _by_name: tuple[str, ...] = field(init=False)

    @_by_name.default  # type: ignore[attr-defined, misc]
    def _(self) -> tuple[str, ...]:
        return tuple(self.signature.names[self.signature.positional :])

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice:
        """The overload of a call, its operands and parameters."""
        signature = self.signature
        arguments = (*args, *kwargs.values()) if kwargs else args
        binding = signature.bindings.get((*map(type, arguments), *kwargs))
        if binding is not None:
            return self.bound(binding, arguments)
        values = signature.bind(args, kwargs)
        self._check_operands(values, len(args))
        for i in signature.statics:
            values[i] = signature.static(i, values[i], len(args))
        operands, params = ([values[i] for i in part] for part in (signature.operands, signature.statics))
        signature.learn(args, kwargs, operands, params)
        return self._choose(values)

    def bound(self, binding: Binding, arguments: tuple[Any, ...]) -> Choice:
        """The same for arguments that are bound."""
        return self._choose(binding.values(arguments + binding.defaults))

    def _choose(self, values: Sequence[Any]) -> Choice:
        if self.check is not None:
            self.check(*values)
        try:
            if not self._by_name:
                return self.choose(*values)
            count = self.signature.positional
            return self.choose(*values[:count], **dict(zip(self._by_name, values[count:], strict=True)))
        except Exception:
            find_nodes(values)
            raise

    def _check_operands(self, values: list[Any], positional_count: int) -> None:
        """Convert numbers among the operands to Python numbers."""
        signature = self.signature
        skipped = 1 - signature.first  # a method's errors leave its tensor out
        for i in signature.operands:
            value = values[i]
            if isinstance(value, Tensor) or (value is None and signature.defaults[i] is None):
                continue
            if signature.kinds[i] not in _TENSORS and value.__class__ in NUMBERS:
                continue
            try:
                values[i] = signature.check(i, signature.kinds[i], value, positional_count)
            except TypeError:
                if not self.listed:
                    raise
                types = types_of(values[skipped : max(positional_count, i + 1)])
                raise TypeError(no_match(signature.name, types, self.listed)) from None
        if not self.listed or self.numbers:
            return
        if not any(isinstance(values[i], Tensor) for i in signature.operands):
            raise TypeError(no_match(signature.name, types_of(values[skipped:positional_count]), self.listed))


def overloaded(
    *,
    method: bool = True,
    inplace: bool = False,
    function: bool = True,
    name: str | None = None,
    namespace: str = "",
    signatures: Sequence[str] = (),
    numbers: bool = False,
    former: Sequence[str] = (),
    **options: Unpack[RowOptions],
) -> Callable[[Callable[..., Choice]], Callable[..., Any]]:
    """Enter a function that chooses an overload: see NOTE [Overloads].

    Arguments:
      method, inplace, function: as in ``operation``.
      name: PyTorch's name, if not the function's.
      namespace: the namespace of a function outside ``torch`` ("special"); it has no method.
      signatures: how PyTorch's error for operands that fit no overload lists them; the operands are those that the
        function annotates.
      numbers: whether these may all be numbers (torch/csrc/utils/python_arg_parser.cpp).
      former: the parameters in the orders of NOTE [Former orders].
      options: the further options of its row: see ``RowOptions``.
    """

    def enter(chooser: Callable[..., Choice]) -> Callable[..., Any]:
        short_name = name or chooser.__name__
        called = f"{namespace}_{short_name}" if namespace else short_name
        signature = Signature(called, chooser, former=former)
        rule = options.get("out", FROM_OPERATION)

        def public_of(signature: Signature, listed: Sequence[str]) -> Callable[..., Any]:
            resolver = _Resolver(chooser, signature, listed, numbers)

            def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
                if out is not None:
                    check_accepted(called, rule)
                chosen, *arguments = resolver.resolve(args, kwargs)
                return chosen(*arguments, out=out)

            def bound(binding: Binding, args: tuple[Any, ...]) -> Any:
                chosen, *arguments = resolver.bound(binding, args)
                return chosen(*arguments)

            binds(public, signature.bindings, bound)
            public.chooser = chooser  # type: ignore[attr-defined]
            return public

        public = public_of(signature, signatures)
        if namespace:
            return _enter(f"{namespace}.{short_name}", public, chooser.__doc__, **options)
        as_method = public_of(signature.of_method(), of_method(signatures)) if method else None
        outer = _enter(called, public, chooser.__doc__, as_method, function, inplace, **options)
        if inplace:
            own_signature = signature.of_method(called + "_")
            writer = _Resolver(chooser, own_signature, of_method(signatures), numbers, check_written)

            def twin(*args: Any, **kwargs: Any) -> Any:
                chosen, *arguments = writer.resolve(args, kwargs)
                return chosen.write(*arguments)

            def bound(binding: Binding, args: tuple[Any, ...]) -> Any:
                chosen, *arguments = writer.bound(binding, args)
                return chosen.write(*arguments)

            binds(twin, own_signature.bindings, bound)
            _enter(called + "_", twin, None, twin, function)
        return outer

    return enter


def chooser_of(public: Any) -> Callable[..., Choice]:
    """The function that chooses the overload behind a public function."""
    return public.chooser


def types_of(arguments: Sequence[Any]) -> str:
    """The types of arguments, as ``no_match`` lists them."""
    return ", ".join(map(type_name, arguments))


def no_match(function: str, argument_types: str, signatures: Sequence[str]) -> str:
    """PyTorch's error for arguments that fit none of the overloads, ``argument_types`` as ``types_of`` has them.

    Of an overload with as many parameters as there are arguments, it marks those that do not fit.
    """
    types = argument_types.split(", ")
    text = f"{function}() received an invalid combination of arguments - got ({argument_types}), but expected one of:\n"
    for signature in signatures:
        text += f" * ({signature})\n"
        expected = [parameter.split(" ")[0] for parameter in signature.split(", ")]
        if len(expected) == len(types) and set(expected) <= _KINDS.keys():
            marked = [t if t == _KINDS[w] else f"!{t}!" for t, w in zip(types, expected, strict=True)]
            text += f"      didn't match because some of the arguments have invalid types: ({', '.join(marked)})\n"
    return text


#: by the parameter's type, the argument's type that is not marked: PyTorch compares names, and None equals no name
_KINDS = {"Tensor": "Tensor", "int": "int", "Number": None, "tuple": None}


def of_method(signatures: Sequence[str]) -> list[str]:
    """How PyTorch lists the overloads of a method, given its list for the function."""
    without_out = [s.replace(", *, Tensor out = None", "").replace(", Tensor out = None", "") for s in signatures]
    return [s.partition(", ")[2] for s in without_out if not s.startswith("Number")]


def _enter(
    called: str,
    public: Callable[..., Any],
    doc: str | None,
    method: Callable[..., Any] | None = None,
    function: bool = False,
    inplace: bool = False,
    **options: Unpack[RowOptions],
) -> Callable[..., Any]:
    for each in (public, method):
        if each is not None:
            each.__name__ = each.__qualname__ = called
            each.__doc__ = doc
    return enter_row(called, public, None, method, inplace, function, **options)


def twin_with_node(of: str, node: str, not_derived: str = "") -> None:
    """Enter the in-place twin of an operation, with a node of another name.

    ``not_derived`` is what PyTorch's error calls the twin's derivative, if it has none.
    """
    op = operation_of(TABLE[of].call)
    gradients = evolve(op.gradients, not_derived={"self": not_derived}) if not_derived else op.gradients
    op = evolve(op, node=node, gradients=gradients)

    def twin(input: Array) -> Tensor:
        return apply_inplace(op, (input,))

    _enter(of.lstrip("_") + "_", twin, None, twin, True)


def add_alias(name: str, of: str) -> None:
    """Give a function of the table, its method and its in-place twin a second name."""
    for suffix in ("", "_"):
        row = TABLE.get(of + suffix)
        if row is not None:
            # without ``foreach``: PyTorch has no ``_foreach_*`` under a second name
            options: RowOptions = {"dispatch": row.dispatch, "autocast": row.autocast, "out": row.out}
            enter_row(name + suffix, raw(row.call), row.operation, row.method, row.inplace, row.function, **options)
