"""Functions that choose one of several operations, as PyTorch's overloads do, and second names of functions.

NOTE [Overloads]
PyTorch has ``pow`` of a tensor and a number, of two tensors, and of a number and a tensor: three operations with a node
of their own each.  Here each is an entry of the table under ``@overload``, and the function that users call is given
their arguments under ``@overloaded`` and returns which one is meant, followed by that one's arguments.  The in-place
twin and ``out=`` follow, for whichever was chosen.
"""

from collections.abc import Callable, Sequence
from typing import Any, Unpack

from attrs import evolve, frozen

from fgrad.mutable.context.torch_function.wrap import raw
from fgrad.mutable.operation.operation import Operation, apply
from fgrad.mutable.tensor.tensor import Tensor, find_nodes
from fgrad.mutable.types.type_names import type_name
from fgrad.mutable.write.inplace import apply_inplace, check_written
from fgrad.torch.ops.table.outputs import FOLLOWS, check_taken
from fgrad.torch.ops.table.table import (
    NUMBERS,
    TABLE,
    Array,
    Fixed,
    Said,
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

    def __call__(self, *args: Any, out: Any = None) -> Any:
        operands, params = self._split(args)
        if out is None:
            if self.wrapped is not None and all([x._inference for x in operands if isinstance(x, Tensor)]):  # noqa: C419
                return self.wrapped(*args)
            return apply(self.operation, operands, params)
        return run_into(self.operation.name, self.operation, operands, params, out)

    def write(self, *args: Any) -> Tensor:
        """Run it in place of the first argument."""
        return apply_inplace(self.operation, *self._split(args))

    def _split(self, args: tuple[Any, ...]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        """The operands and the static parameters of a call with all arguments in their places."""
        order = self.signature.orders.get(tuple(map(type, args)))
        if order is not None:
            return order.operands(args), order.params(args)
        operands, params = self.signature.split(args)
        self.signature.learn(args, {}, operands, params)
        return operands, params


#: functions whose operands may all be numbers (torch/csrc/utils/python_arg_parser.cpp)
_OF_NUMBERS = frozenset(("floor_divide", "true_divide", "divide", "multiply", "subtract"))

#: an overload and its arguments
Choice = tuple[Any, ...]


def overload(
    function: str, node: Any, *, wrapped: Callable[..., Tensor] | None = None, **settings: Any
) -> Callable[[Callable[..., Any]], Overload]:
    """Enter a function of arrays as one of the operations behind ``function``; ``settings`` as in ``operation``.

    ``wrapped`` is what PyTorch's kernel for a tensor and a number calls, with the number made a tensor.  Autograd
    passes inference tensors by, and first sees that call: the number's tensor is a normal one.
    """

    def enter(array_function: Callable[..., Any]) -> Overload:
        entered = operation(node, known_as=function, method=False, function=False, **settings)(array_function)
        return Overload(operation_of(entered), Signature(function, array_function), wrapped)

    return enter


#: the kinds of operands that numbers are not taken for
_TENSORS = (Array, Fixed)


def overloaded(
    *,
    method: bool = True,
    inplace: bool = False,
    function: bool = True,
    name: str | None = None,
    namespace: str = "",
    signatures: Sequence[str] = (),
    former: Sequence[str] = (),
    **said: Unpack[Said],
) -> Callable[[Callable[..., Choice]], Callable[..., Any]]:
    """Enter a function that chooses an overload: see NOTE [Overloads].

    Arguments:
      method, inplace, function: as in ``operation``.
      name: PyTorch's name, if not the function's.
      namespace: of a function of another namespace than ``torch`` ("special"), which is no method then.
      signatures: how PyTorch lists the overloads in its error for operands that fit none; the operands are those that
        the chooser annotates.
      former: the parameters in orders that PyTorch still takes: NOTE [Former orders].
      said: what else its row says: see ``Said``.
    """

    def enter(chooser: Callable[..., Choice]) -> Callable[..., Any]:
        own = name or chooser.__name__
        called = f"{namespace}_{own}" if namespace else own
        signature = Signature(called, chooser, former=former)
        without_tensor = of_method(signatures)
        rule = said.get("out", FOLLOWS)
        placed = sum(not only for only in signature.keyword_only)
        by_name = signature.names[placed:]

        def choose(
            signature: Signature, args: Sequence[Any], kwargs: dict[str, Any], first: Callable[..., None] | None = None
        ) -> Choice:
            """The overload, its operands and parameters; ``first`` is asked of the values before the chooser is."""
            # a method's errors leave its tensor out
            listed, skipped = (signatures, 0) if signature.first else (without_tensor, 1)
            given = (*args, *kwargs.values()) if kwargs else args
            order = signature.orders.get((*map(type, given), *kwargs))
            if order is not None:
                return ask(order.every((*given, *order.rest)), first)
            values = signature.bind(args, kwargs)
            for i in signature.operands:
                value = values[i]
                if isinstance(value, Tensor) or (value is None and signature.defaults[i] is None):
                    continue
                if signature.kinds[i] not in _TENSORS and value.__class__ in NUMBERS:
                    continue
                try:
                    values[i] = signature.check(i, signature.kinds[i], value, len(args))
                except TypeError:
                    if not signatures:
                        raise
                    types = types_of(values[skipped : max(len(args), i + 1)])
                    raise TypeError(no_match(signature.name, types, listed)) from None
            # asked of the first operand before the others: this runs at every call
            fits = isinstance(values[signature.operands[0]], Tensor) or called in _OF_NUMBERS
            if signatures and not fits and not any(isinstance(values[i], Tensor) for i in signature.operands):
                raise TypeError(no_match(signature.name, types_of(values[skipped : len(args)]), listed))
            for i in signature.statics:
                values[i] = signature.static(i, values[i], len(args))
            operands, params = ([values[i] for i in places] for places in (signature.operands, signature.statics))
            signature.learn(args, kwargs, operands, params)
            return ask(values, first)

        def ask(values: Sequence[Any], first: Callable[..., None] | None) -> Choice:
            if first is not None:
                first(*values)
            try:
                if not by_name:
                    return chooser(*values)
                return chooser(*values[:placed], **dict(zip(by_name, values[placed:], strict=True)))
            except Exception:
                find_nodes(values)
                raise

        def public_of(signature: Signature) -> Callable[..., Any]:
            def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
                if out is not None:
                    check_taken(called, rule)
                chosen, *given = choose(signature, args, kwargs)
                return chosen(*given, out=out)

            public.chooser = chooser  # type: ignore[attr-defined]
            return public

        public = public_of(signature)
        if namespace:
            return _enter(f"{namespace}.{own}", public, chooser.__doc__, **said)
        as_method = public_of(signature.of_method()) if method else None
        outer = _enter(called, public, chooser.__doc__, as_method, function, inplace, **said)
        if inplace:
            twins = signature.of_method(called + "_")

            def twin(*args: Any, **kwargs: Any) -> Any:
                chosen, *given = choose(twins, args, kwargs, check_written)
                return chosen.write(*given)

            _enter(called + "_", twin, None, twin, function)
        return outer

    return enter


def chooser_of(public: Any) -> Callable[..., Choice]:
    """What chooses the overload behind a function that users call; it takes all arguments in their places."""
    return public.chooser


def types_of(given: Sequence[Any]) -> str:
    """The types of arguments, as ``no_match`` lists them."""
    return ", ".join(map(type_name, given))


def no_match(function: str, given: str, signatures: Sequence[str]) -> str:
    """PyTorch's error for arguments of some types that fit none of the overloads.

    An overload with as many parameters as there are arguments is told which of them do not fit.
    """
    types = given.split(", ")
    text = f"{function}() received an invalid combination of arguments - got ({given}), but expected one of:\n"
    for each in signatures:
        text += f" * ({each})\n"
        wanted = [parameter.split(" ")[0] for parameter in each.split(", ")]
        if len(wanted) == len(types) and set(wanted) <= _KINDS.keys():
            marked = [t if t == _KINDS[w] else f"!{t}!" for t, w in zip(types, wanted, strict=True)]
            text += f"      didn't match because some of the arguments have invalid types: ({', '.join(marked)})\n"
    return text


#: the type of argument that an error takes to fit a parameter: PyTorch compares their names, and None is no type's
_KINDS = {"Tensor": "Tensor", "int": "int", "Number": None, "tuple": None}


def of_method(signatures: Sequence[str]) -> list[str]:
    """How PyTorch lists the overloads of a method, from those of the function."""
    listed = [each.replace(", *, Tensor out = None", "").replace(", Tensor out = None", "") for each in signatures]
    return [each.partition(", ")[2] for each in listed if not each.startswith("Number")]


def _enter(
    called: str,
    public: Callable[..., Any],
    doc: str | None,
    method: Callable[..., Any] | None = None,
    function: bool = False,
    inplace: bool = False,
    **said: Unpack[Said],
) -> Callable[..., Any]:
    for each in (public, method):
        if each is not None:
            each.__name__ = each.__qualname__ = called
            each.__doc__ = doc
    return enter_row(called, public, None, method, inplace, function, **said)


def twin_with_node(of: str, node: str) -> None:
    """Enter the in-place twin of an operation whose node is named otherwise than the operation's."""
    entry = TABLE[of]
    made = evolve(operation_of(entry.call), node=node, plans={})

    def twin(input: Array) -> Tensor:
        return apply_inplace(made, (input,))

    _enter(of.lstrip("_") + "_", twin, None, twin, True)


def also(name: str, of: str) -> None:
    """Another name for a function of the table, for its method, and for its in-place twin."""
    for suffix in ("", "_"):
        row = TABLE.get(of + suffix)
        if row is not None:
            # of the functions for lists, PyTorch has none under a second name
            said: Said = {"dispatch": row.dispatch, "autocast": row.autocast, "out": row.out}
            enter_row(name + suffix, raw(row.call), row.operation, row.method, row.inplace, row.function, **said)
