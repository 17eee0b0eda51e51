"""User-defined operators, with their own derivatives and ``vmap`` rules.

NOTE [Custom operators]
An operator's function is opaque: it runs without recording and may use NumPy or anything else.  A call that is
recorded, or under a transformation, goes through an ``autograd.Function`` made for the operator.  Its arguments are the
operator's, lists of tensors flattened, and a last one that knows their structure.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fgrad.mutable.context.modes import modes, no_grad
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.seam import here
from fgrad.torch import ops
from fgrad.torch.autograd.function import Function, FunctionMeta
from fgrad.torch.library.schema import Schema, schema_of
from fgrad.torch.library.written import read_schema
from fgrad.torch.ops.examples import warn_of_examples

#: the operators by name
OPERATORS: dict[str, "CustomOpDef"] = {}


def _register(definition: "CustomOpDef") -> None:
    name = definition._namespace
    namespace = None if name in ops.ROOMS else getattr(ops, name)
    if not isinstance(namespace, ops.Namespace):
        raise RuntimeError(f"torch.ops has a '{name}' of its own: choose another namespace")
    OPERATORS[definition._qualname] = definition
    setattr(namespace, definition._name, definition)


class _Call:
    """The structure of one call's arguments and results, which its ``autograd.Function`` sees flattened."""

    def __init__(self, args: Sequence[Any], keywords: dict[str, Any]):
        self.keywords = keywords
        #: for each argument, the length of its list of tensors; None if it is not a list
        self.counts = [_count(x) for x in args]
        self.leaves = _flattened(args, self.counts)
        self.result_counts: list[int | None] = []
        self.several = False

    def flattened(self, result: Any) -> tuple[Any, ...]:
        """The results, lists of tensors flattened."""
        self.several = isinstance(result, tuple)
        results = result if self.several else (result,)
        self.result_counts = [_count(x) for x in results]
        return tuple(_flattened(results, self.result_counts))

    def result(self, leaves: Any) -> Any:
        """The results as the operator returns them."""
        results = tuple(_unflattened(leaves, self.result_counts))
        return results if self.several else results[0]


def _count(value: Any) -> int | None:
    return len(value) if isinstance(value, list) and all(isinstance(x, Tensor) for x in value) else None


def _flattened(values: Sequence[Any], counts: Sequence[int | None]) -> list[Any]:
    return [x for v, n in zip(values, counts, strict=True) for x in ([v] if n is None else v)]


def _unflattened(leaves: Sequence[Any], counts: Sequence[int | None]) -> list[Any]:
    remaining = iter(leaves)
    return [next(remaining) if n is None else [next(remaining) for _ in range(n)] for n in counts]


class CustomOpDef:
    """A user-defined operator: see ``custom_op``.

    >>> import fgrad.torch as torch
    >>> @torch.library.custom_op("library_doc::twice", mutates_args=())
    ... def twice(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> twice, twice(torch.ones(2))
    (<CustomOpDef(library_doc::twice)>, tensor([2., 2.]))
    """

    def __init__(self, namespace: str, name: str, schema: Schema, function: Callable[..., Any]):
        self._namespace = namespace
        self._name = name
        self._signature = schema
        self._init_fn = function
        self._kernel = function
        self._abstract_fn: Callable[..., Any] | None = None
        self._setup_context_fn: Callable[..., None] | None = None
        self._backward_fn: Callable[..., Any] | None = None
        self._vmap_fn: Callable[..., Any] | None = None
        self._function = _function_of(self)

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    @property
    def _schema(self) -> str:
        return str(self._signature)

    @property
    def default(self) -> "CustomOpDef":
        """The only overload: the operator itself."""
        return self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound, keywords = self._signature.bound(self._qualname, args, kwargs)
        call = _Call(bound, keywords)
        tracked = modes.grad and any(isinstance(x, Tensor) and is_tracked(x) for x in call.leaves)
        if not tracked and not modes.transforms:
            return self._run(bound, keywords)
        return call.result(_as_tuple(self._function.apply(*call.leaves, call)))

    def _run(self, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run the kernel, whose results must not alias its arguments."""
        result = self._kernel(*args, **keywords)
        mutated = [p.name for p in self._signature.parameters if p.mutated]
        if mutated:
            names = [p.name for p in self._signature.parameters]
            for x in [x for name, x in zip(names, args, strict=False) if name in mutated]:
                for each in x if isinstance(x, list) else [x]:
                    each._bump(self._qualname, here(2))
        tensors = [
            x for value in args for x in (value if isinstance(value, list) else [value]) if isinstance(x, Tensor)
        ]
        storages = {id(x._storage) for x in tensors}
        for value in _as_tuple(result):
            for x in value if isinstance(value, list) else [value]:
                if isinstance(x, Tensor):
                    if id(x._storage) in storages:
                        raise RuntimeError(
                            f"{self._name} (with implementation in {inspect.getmodule(self._kernel)}): {_ALIASED}"
                        )
                    storages.add(id(x._storage))
        return result

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Register another implementation for some device types; the CPU's is the one that runs.

        >>> import fgrad.torch as torch
        >>> @torch.library.custom_op("library_doc::thrice", mutates_args=())
        ... def thrice(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 3
        >>> thrice.register_kernel("cpu", lambda x: x + x + x)(torch.ones(1))
        tensor([3.])
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            if device_types is None or "cpu" in ((device_types,) if isinstance(device_types, str) else device_types):
                self._kernel = function
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the shapes of results for tracing; not needed here.

        >>> import fgrad.torch as torch
        >>> @torch.library.custom_op("library_doc::negative", mutates_args=())
        ... def negative(x: torch.Tensor) -> torch.Tensor:
        ...     return -x
        >>> @negative.register_fake
        ... def _(x):
        ...     return torch.empty_like(x)
        """
        self._abstract_fn = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """Register the derivative.

        Arguments:
          backward: from (ctx, the gradients of the results) to those of the arguments, None for those that have none.
          setup_context: called as ``setup_context(ctx, inputs, output)`` after the operator, to save what ``backward``
            needs; with ``keyword_only_inputs`` too if the operator has keyword-only arguments.

        Raises:
          RuntimeError: the operator writes its arguments.

        >>> import fgrad.torch as torch
        >>> @torch.library.custom_op("library_doc::square", mutates_args=())
        ... def square(x: torch.Tensor) -> torch.Tensor:
        ...     return torch.tensor(x.numpy() ** 2)
        >>> def setup_context(ctx, inputs, output):
        ...     ctx.save_for_backward(inputs[0])
        >>> square.register_autograd(lambda ctx, grad: grad * 2 * ctx.saved_tensors[0], setup_context=setup_context)
        >>> x = torch.tensor([3.], requires_grad=True)
        >>> square(x).backward()
        >>> x.grad
        tensor([6.])
        """
        if any(p.mutated for p in self._signature.parameters):
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._signature.declaration(self._qualname)}. Please create a functional operator and register an "
                "autograd formula for that."
            )
        self._backward_fn = backward
        self._setup_context_fn = setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Register the rule for ``torch.func.vmap``: from (info, in_dims, the arguments) to results and their axes.

        >>> import fgrad.torch as torch
        >>> @torch.library.custom_op("library_doc::half", mutates_args=())
        ... def half(x: torch.Tensor) -> torch.Tensor:
        ...     return x / 2
        >>> rule = half.register_vmap(lambda info, in_dims, x: (half(x), in_dims[0]))
        >>> torch.func.vmap(half)(torch.ones(2, 1))
        tensor([[0.5000],
                [0.5000]])
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._vmap_fn = function
            return function

        return register if func is None else register(func)


_ALIASED = (
    "The output of this custom operator (1) must not also be an input to this custom operator and (2) may not alias "
    "any inputs to this custom operator or other returns. The most common way to trigger this error is if we have y = "
    "custom_op(x) and y and x are the same Tensor. Please instead return a clone of the offending output tensor(s) "
    "(e.g. return x.clone()) or refactor the custom operator to not return y."
)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _function_of(definition: CustomOpDef) -> Any:
    """The ``autograd.Function`` of an operator: see NOTE [Custom operators]."""

    def forward(*args: Any) -> Any:
        *leaves, call = args
        with no_grad():
            return call.flattened(definition._run(_unflattened(leaves, call.counts), call.keywords))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *leaves, call = inputs
        ctx._call = call
        if definition._setup_context_fn is None:
            return
        positional, keywords = definition._signature.filled(_unflattened(leaves, call.counts), call.keywords)
        named = {"keyword_only_inputs": keywords} if keywords else {}
        definition._setup_context_fn(ctx=ctx, inputs=positional, output=call.result(output), **named)

    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx._call
        if definition._backward_fn is None:
            raise RuntimeError(
                f"Trying to backward through {definition._namespace}.{definition._name}.default but no autograd "
                "formula was registered. Please use register_autograd to add one."
            )
        needed = ctx.needs_input_grad
        ctx.needs_input_grad = tuple(_unflattened(needed[:-1], call.counts))
        try:
            gradients = _as_tuple(definition._backward_fn(ctx, *_unflattened(grads, call.result_counts)))
        finally:
            ctx.needs_input_grad = needed
        if any(n is not None for n in call.counts) and [_list_length(x) for x in gradients] != call.counts:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got lists of "
                f"{[_list_length(x) for x in gradients]} (return from backward), {call.counts} (inputs)"
            )
        return (*[g for x in gradients for g in (x if isinstance(x, list) else [x])], None)

    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Any, Any]:
        *leaves, call = args
        dims, batched = tuple(_unflattened(in_dims[:-1], call.counts)), _unflattened(leaves, call.counts)
        rule = definition._vmap_fn or _one_by_one(definition)
        result, out_dims = rule(info, dims, *batched, **call.keywords)
        flat = call.flattened(result)
        several = isinstance(out_dims, tuple)
        result_dims = list(out_dims) if several else [out_dims] * len(call.result_counts)
        spread = [
            d
            for dim, n in zip(result_dims, call.result_counts, strict=True)
            for d in (dim if isinstance(dim, list) else [dim] * (1 if n is None else n))
        ]
        return flat, tuple(spread)

    members = {"forward": forward, "setup_context": setup_context, "backward": backward, "vmap": vmap}
    name = f"GeneratedBackwardFor_{definition._namespace}_{definition._name}_default"
    return FunctionMeta(name, (Function,), {key: staticmethod(value) for key, value in members.items()})


def _list_length(value: Any) -> int | None:
    """The length of a list of gradients; None if it is not a list."""
    return len(value) if isinstance(value, list) else None


def _one_by_one(definition: CustomOpDef) -> Callable[..., Any]:
    """The default ``vmap`` rule: the operator is called for each example."""

    def example(value: Any, dim: Any, i: int) -> Any:
        if isinstance(dim, list):
            return [example(v, d, i) for v, d in zip(value, dim, strict=True)]
        return value if dim is None else value.select(dim, i)

    def rule(info: Any, in_dims: Any, *args: Any, **keywords: Any) -> tuple[Any, Any]:
        warn_of_examples(definition._qualname)
        results = [
            definition(*[example(x, d, i) for x, d in zip(args, in_dims, strict=True)], **keywords)
            for i in range(info.batch_size)
        ]
        if not isinstance(results[0], tuple):
            return _stacked(results), 0
        return tuple([_stacked(each) for each in zip(*results, strict=True)]), 0

    return rule


def _stacked(results: Sequence[Any]) -> Any:
    if isinstance(results[0], list):
        return [ops.stack(list(each)) for each in zip(*results, strict=True)]
    return ops.stack(list(results))


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Make an opaque operator of a function.

    Arguments:
      name: as "namespace::name"; the operator is also ``torch.ops.namespace.name``.
      fn: the function, whose parameters and result are annotated unless there is a ``schema``; without it, a decorator
        is returned.
      mutates_args: the names of the arguments that it writes, or "unknown".
      device_types: the device types that it is for, all if None.
      schema: the types of parameters and results, as ``"(Tensor x, int n) -> Tensor"``; inferred from annotations if
        None.

    Raises:
      ValueError: an annotation is missing or not supported.

    >>> import fgrad.torch as torch
    >>> import numpy as np
    >>> @torch.library.custom_op("library_doc::numpy_sin", mutates_args=())
    ... def numpy_sin(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(np.sin(x.numpy()))
    >>> numpy_sin(torch.zeros(2))
    tensor([0., 0.])

    Source: `torch.library.custom_op <https://docs.pytorch.org/docs/stable/library.html>`_.
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        signature = schema_of(function, mutates_args) if schema is None else read_schema(schema)
        written = {each.name for each in signature.parameters if each.mutated}
        if not isinstance(mutates_args, str) and {*mutates_args} != written:
            raise ValueError(
                f"custom_op: mutates_args={mutates_args!r} and schema={schema!r} differ: by the schema the operator "
                f"writes {sorted(written)}"
            )
        namespace, short_name = name.split("::")
        definition = CustomOpDef(namespace, short_name, signature, function)
        _register(definition)
        return definition

    return make if fn is None else make(fn)
