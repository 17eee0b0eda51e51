"""All of fgrad's own errors: what went wrong, where, and the way out.

The classes derive from the built-in or JAX error that users of JAX would catch in the same situation.

This is one long list, in which a user finds every class that can be caught, with its text.  The texts of errors that
depend on a recording are in ``record/refusals.py``.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import jax


class LeakedTracerError(jax.errors.UnexpectedTracerError):
    """A traced value was used after the function that computed it had returned.

    Return the value (``has_aux=True`` makes room for it) instead of storing it outside.

    >>> import fgrad, jax.numpy as jnp
    >>> kept = []
    >>> def f(x):
    ...     kept.append(jnp.sin(x))
    ...     return x * x
    >>> _ = fgrad.grad(f)(1.0)
    >>> kept[0] + 1.0  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.LeakedTracerError: ...
    """

    def __init__(self, message: str):
        Exception.__init__(self, message)


class NotConcreteError(
    jax.errors.TracerBoolConversionError, jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError
):
    """The number behind a value was needed, but only its type is known (under ``jit``, ``vmap`` or ``make_graph``).

    >>> import fgrad
    >>> fgrad.jit(lambda x: x if x > 0 else -x)(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.NotConcreteError: ...
    """

    def __init__(self, message: str):
        TypeError.__init__(self, message)


class CaptureError(NotConcreteError):
    """A program on tensors needs a number while it is captured as one graph.

    >>> import fgrad.torch as torch
    >>> torch.capture(lambda x: x if x.sum() > 0 else -x)(torch.ones(2))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.CaptureError: ...
    """


class CopiedOutError(jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
    """A traced value would be copied out of its recording as a plain number, and its derivative silently lost.

    >>> import fgrad, numpy as np
    >>> fgrad.grad(lambda x: np.asarray(x).sum())(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.CopiedOutError: ...
    """

    def __init__(self, message: str):
        TypeError.__init__(self, message)


class NumPyFunctionError(CopiedOutError, NotImplementedError):
    """A function of NumPy or SciPy that cannot be recorded was called on a traced value.

    >>> import fgrad, numpy as np
    >>> fgrad.grad(lambda x: np.sum(x, out=np.zeros(())))(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.NumPyFunctionError: ...
    """


class PositionError(ValueError, TypeError):
    """``argnums`` names an argument that the call does not have, or one twice.

    JAX raises a TypeError for a position too large or repeated and a ValueError for one too small; this is both.
    """


class MissingRuleError(NotImplementedError, ValueError):
    """A primitive has no derivative rule.

    Give it one with ``fgrad.define_rule``, or keep the operation out of the differentiated part with
    ``fgrad.stop_gradient``.
    """


def missing_rule(name: str) -> MissingRuleError:
    return MissingRuleError(
        f"The primitive {name!r} has no derivative rule: none of fgrad's, and none that was registered with JAX "
        "(jax.interpreters.ad.primitive_jvps).\n"
        f"Ways out: give it one, fgrad.define_rule({name!r}, vjp=...) (docs/custom_rules.md shows how), or apply "
        "fgrad.stop_gradient to its inputs if no derivative is wanted through it."
    )


class NoTransposeError(MissingRuleError, ValueError):
    """Reverse mode has to transpose a primitive that has no rule for that.

    It is a ``ValueError`` too, like JAX's error when it cannot linearize.

    >>> from fgrad import errors
    >>> issubclass(errors.NoTransposeError, ValueError)
    True
    """


def missing_transpose(name: str) -> NoTransposeError:
    return NoTransposeError(
        f"Reverse mode has to transpose the primitive {name!r}, and no rule for that was registered with JAX "
        "(jax.interpreters.ad.primitive_transposes).\n"
        f"Ways out: register one, give the primitive a rule for reverse mode, fgrad.define_rule({name!r}, vjp=...) "
        "(docs/custom_rules.md shows how), or use forward mode (fgrad.jvp, fgrad.jacfwd)."
    )


def no_transpose(name: str, why: Any) -> NoTransposeError:
    return NoTransposeError(
        f"Reverse mode has to transpose the primitive {name!r}, and the rule for that which was registered with JAX "
        f"refuses: {why!r}.\n"
        f"Ways out: give the primitive a rule for reverse mode, fgrad.define_rule({name!r}, vjp=...) "
        "(docs/custom_rules.md shows how), or write the function around it with a fgrad.custom_vjp; use forward mode "
        "(fgrad.jvp, fgrad.jacfwd)."
    )


def inseparable(name: str) -> NoTransposeError:
    return NoTransposeError(
        f"The values of {name!r} are computed in one call with their tangents, by a rule that was registered with JAX, "
        "and here they are needed earlier (linearize, jacfwd, vjp).\nWay out: fgrad.jvp."
    )


def blame(error: Exception, name: str, mode: str, rule: Any) -> None:
    """Add to an error that it was raised in a rule that a primitive's author registered with JAX."""
    code = getattr(rule, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    error.add_note(
        f"This was raised in the {mode} rule {getattr(rule, '__name__', repr(rule))!r}{where} of the primitive "
        f"{name!r}, which its author registered with JAX."
    )


class MissingCustomRuleError(MissingRuleError, AttributeError):
    """A function declared with ``custom_jvp`` or ``custom_vjp`` was called before its rule was defined."""


def missing_custom_rule(function: str, kind: str) -> MissingCustomRuleError:
    call = "f.defjvp(rule) or f.defjvps(...)" if kind == "custom_jvp" else "f.defvjp(fwd, bwd)"
    return MissingCustomRuleError(
        f"The {kind} function {function!r} has no rule yet. Way out: call {call} once, right after its definition."
    )


class UndefinedDerivativeError(NotImplementedError, TypeError, ValueError):
    """The derivative of an operation that has none was needed."""


def undefined(name: str, reason: str) -> UndefinedDerivativeError:
    return UndefinedDerivativeError(f"The operation {name!r} cannot be differentiated here: {reason}")


class UnrecordedError(TypeError):
    """A graph was run with an operation whose program was not recorded.

    >>> import fgrad.torch as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> w = torch.ones(2, requires_grad=True)
    >>> graph = torch.graph_of(Double.apply(w).sum())
    >>> graph({"w": w.detach().numpy()}, {})
    Traceback (most recent call last):
      ...
    fgrad.errors.UnrecordedError: ...
    """


def unrecorded(label: str) -> UnrecordedError:
    return UnrecordedError(
        f"{label!r} cannot be run: the graph behind a tensor knows its name and its types, but not what its forward "
        "does. Way out: torch.capture(function)(*args) records the function that calls it, forward and backward."
    )


def mutable_reference(name: str) -> UndefinedDerivativeError:
    return undefined(
        name,
        "it takes a reference (jax.new_ref), and fgrad does not know what it reads and writes there. "
        "Way out: make new values instead, with x.at[i].set(y) or as the carry of jax.lax.scan.",
    )


def written_outside() -> UndefinedDerivativeError:
    return undefined(
        "swap",
        "a value that is being differentiated is written into a reference (jax.new_ref) from outside of the "
        "differentiated function, where its derivative would be lost. Way out: make the reference inside of the "
        "function, or write jax.lax.stop_gradient(x) to keep only the number.",
    )


def rule_closes_over_reference(label: str) -> UndefinedDerivativeError:
    return undefined(
        label,
        "its rule uses a jax.new_ref that it closes over, in jit, a loop or a branch. Way out: make it an argument.",
    )


def passed_and_closed_over() -> UndefinedDerivativeError:
    return undefined(
        "get",
        "a reference (jax.new_ref) that is an argument of the differentiated function, or its tangent, is read or "
        "written there in another way too: closed over. Way out: use the argument.",
    )


def high_type(name: str) -> UndefinedDerivativeError:
    return undefined(
        name,
        "it takes or gives a value of a type of the user's own (a jax.experimental.hijax.HiType), and fgrad records "
        "arrays only: the rules of such types would be lost. Way out: keep the arrays that make up such a value, and "
        "give the function of these its derivative with fgrad.custom_vjp.",
    )


class RuleTypeError(TypeError, ValueError):
    """A derivative rule returned a value with the wrong structure, shape or dtype."""


def bad_rule(name: str, got: str, expected: str) -> RuleTypeError:
    return RuleTypeError(
        f"The derivative rule of {name!r} returned a value of type {got} where {expected} is expected "
        "(a cotangent has the type of its input, a tangent that of its output)."
    )


def bad_custom_rule(rule: str, function: str, path: str, expected: str, got: str) -> RuleTypeError:
    return RuleTypeError(
        f"The {rule} rule of {function!r} returned something else than it must at {path}.\n"
        f"  expected: {expected}\n  got:      {got}"
    )


class ClosedOverError(jax.errors.UnexpectedTracerError):
    """A function with a rule of its own would be differentiated with respect to a closed-over value."""

    def __init__(self, message: str):
        Exception.__init__(self, message)


def closed_over(kind: str, name: str) -> ClosedOverError:
    return ClosedOverError(
        f"Detected differentiation of a {kind} function (its rule: {name!r}) with respect to a closed-over value. The "
        "rule says only how to differentiate it with respect to its arguments, and the gradient would silently lack a "
        "part.\n"
        "Ways out: pass the value as an argument, and let the rule give its derivative too; or, if it has none, apply "
        "fgrad.stop_gradient to it outside of the function."
    )


class NotLinearError(ValueError, NotImplementedError):
    """A function that should be linear in some inputs is not."""


def not_linear(name: str) -> NotLinearError:
    return NotLinearError(
        f"The operation {name!r} is not linear in the inputs with respect to which the function is transposed.\n"
        "Way out: fgrad.vjp, or fgrad.linearize first, whose linear function can be transposed."
    )


class ArgumentTypeError(TypeError):
    """An argument has a type that cannot be differentiated or traced."""


def not_an_array(path: str, value: Any, what: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{what}: {path} is not an array or a number but {shown(value)} of type {type(value).__name__}.\n"
        f"{_ways(value)} close over it (functools.partial or a lambda), or keep it out of argnums; only arrays and "
        "numbers are differentiated."
    )


class ReferenceArgumentError(ArgumentTypeError, ValueError):
    """An argument or a result is a reference (``jax.new_ref``)."""


def reference_argument(path: str, what: str) -> ReferenceArgumentError:
    return ReferenceArgumentError(
        f"{what}: {path} is a reference (jax.new_ref), and has no gradient of its own.\n"
        "Ways out: pass what it holds, ref[...], and make a reference of it inside the function; or close over it, "
        "which makes what it holds a constant; or fgrad.jvp, fgrad.linearize or fgrad.vjp, which take references."
    )


def reference_cotangent(path: str) -> ReferenceArgumentError:
    return ReferenceArgumentError(
        f"vjp's function: {path} is a reference (jax.new_ref), and so is its cotangent.\n"
        "Way out: vjp_fun.with_refs(...)(ct), with a reference in this place that holds the cotangent of what the "
        "primal holds in the end (and afterwards of what it held at first), or jax.ad.DontWant()."
    )


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor, of ``fgrad.torch`` or of PyTorch."""
    return hasattr(value, "requires_grad") and hasattr(value, "grad_fn")


class MaskedArrayError(ArgumentTypeError, ValueError):
    """An argument is a NumPy masked array, whose mask would be lost."""


def masked_array(path: str, what: str) -> MaskedArrayError:
    return MaskedArrayError(
        f"{what}: {path} is a masked array, and what its mask hides would count like the rest.\n"
        "Way out: pass x.filled(value), or the data and the mask as two arrays and jnp.where(mask, 0, data)."
    )


def _ways(value: Any) -> str:
    """The first ways out; for a class that JAX does not know, how to register it."""
    kind = type(value)
    if is_tensor(value):
        return "Ways out: pass its numbers, x.detach().numpy(); ask the function of this name in fgrad.torch;"
    if kind.__module__ in ("builtins", "numpy") or callable(value) or not hasattr(value, "__dict__"):
        return "Way out:"
    fields = [name for name, x in vars(value).items() if not isinstance(x, str | bool | None) and not callable(x)]
    others = [name for name in vars(value) if name not in fields]
    return (
        f"Ways out: if {kind.__name__} holds arrays that are to be differentiated, register it once, right after its "
        f"definition: jax.tree_util.register_dataclass({kind.__name__}, data_fields={fields}, meta_fields={others}) "
        "if its constructor takes these fields by name, else jax.tree_util.register_pytree_node; or"
    )


class PytreeError(ValueError, SystemError):
    """An argument or a result is not a pytree: it contains itself, or has a dict whose keys cannot be sorted.

    >>> import fgrad
    >>> fgrad.grad(lambda d: d["a"])({"a": 1.0, 2: 3.0})
    Traceback (most recent call last):
    ...
    fgrad.errors.PytreeError: grad: args has a dict whose keys cannot be sorted (...). Way out: ...
    """


def integer_input(path: str, kind: str, what: str, named: str = "") -> ArgumentTypeError:
    if kind.startswith("key<") or kind == "uint32[2]":
        ways = (
            f"{'It is' if kind.startswith('key<') else 'It looks like'} a PRNG key, which has no derivative.\n"
            f"Ways out: pass the key as an argument of its own that argnums does not name, {what}(loss)(params, key), "
            "or pass allow_int=True for a float0 gradient."
        )
    else:
        ways = (
            "Ways out: pass a float (1.0 instead of 1, x.astype(float)), leave the argument out of argnums, or pass "
            "allow_int=True for a float0 gradient."
        )
    also = f" (it is {named})" if named else ""
    return ArgumentTypeError(
        f"{what} needs floating-point or complex inputs, but {path} has type {kind}{also}.\n{ways}"
    )


def integer_output(what: str, dtype: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{what} needs a floating-point output, got dtype {dtype}: the function's result is an integer or boolean, "
        "which has no derivative.\n"
        "Ways out: differentiate a smooth stand-in: a cross entropy for a count of hits, jax.nn.softmax for "
        "jnp.argmax, jax.nn.sigmoid for a comparison."
    )


def output_not_scalar(what: str, got: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{what} needs a function with a scalar output (shape ()), but it returned {got}.\n"
        "Ways out: reduce it to a scalar (jnp.sum, jnp.mean), or use fgrad.vjp or fgrad.jacrev for the derivative of a "
        "function with many outputs."
    )


class UnhashableStaticError(TypeError, ValueError):
    """A static argument of a jitted function is unhashable.

    >>> import fgrad
    >>> fgrad.jit(lambda x, n: x * n[0], static_argnums=1)(1.0, [2])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    fgrad.errors.UnhashableStaticError: ...
    """


def unhashable_static(path: str, value: Any, what: str) -> UnhashableStaticError:
    return UnhashableStaticError(
        f"{what}: the static argument {path} is of the unhashable type {type(value).__name__}. Static arguments select "
        "a compiled program and so must be hashable: pass a tuple instead of a list, or leave the argument out of "
        "static_argnums and static_argnames to have it traced."
    )


class MismatchError(TypeError, ValueError):
    """A tangent or cotangent does not have the structure, shape or dtype of its primal."""


def mismatch(path: str, expected: str, got: str, of: str) -> MismatchError:
    hint = ""
    if "float0" in expected:
        hint = "\nThe value is an integer or boolean: its (co)tangent is numpy.zeros(shape, jax.dtypes.float0)."
    return MismatchError(f"{path} has the wrong type.\n  expected: {expected} (that of {of})\n  got:      {got}{hint}")


class GradientCheckError(AssertionError):
    """A derivative and a finite difference disagree (``fgrad.testing.check_grads``)."""


class KinkError(GradientCheckError):
    """The function has no derivative at the point of a check: its one-sided slopes differ."""


def wrong_gradient(
    what: str, mode: str, order: int, where: str, expected: Any, got: Any, step: float
) -> GradientCheckError:
    return GradientCheckError(
        f"{what}: the derivative of order {order} in {mode} mode is wrong at {where}.\n"
        f"  expected: {expected} (finite difference, step {step:.2g})\n  got:      {got}"
    )


def kink(what: str, where: str, left: Any, right: Any, order: int) -> KinkError:
    of = "function" if order == 1 else f"derivative of order {order - 1}"
    return KinkError(
        f"{what}: the point is a kink or a jump of the {of} at {where}: its slope is {left} from the left and {right} "
        "from the right, so no finite difference can confirm a derivative there.\n"
        "Way out: check at a point beside it. (At a kink itself fgrad gives one of the slopes, or their mean, as JAX.)"
    )


class RuleCheckError(GradientCheckError):
    """A rule defined with ``define_rule`` disagrees with another one or with finite differences."""


def rules_disagree(name: str, first: str, second: str, expected: Any, got: Any) -> RuleCheckError:
    return RuleCheckError(
        f"The {first} rule of {name!r} disagrees with {second}.\n  expected: {expected} ({second})\n"
        f"  got:      {got} ({first})"
    )


def shown(value: Any) -> str:
    """A short text for a user's value in a message, even if its own ``repr`` fails.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..."
    """
    try:
        text = repr(value)
    except Exception:
        text = object.__repr__(value)
    return text if len(text) <= 60 else text[:57] + "..."


class ReverseWhileError(ValueError, NotImplementedError):
    """Reverse mode was needed of a ``while_loop`` inside staged code, whose number of steps is unknown."""


def reverse_while() -> ReverseWhileError:
    return ReverseWhileError(
        "Reverse-mode differentiation does not work through lax.while_loop or lax.fori_loop with a number of steps "
        "that is known only when it runs: the values of every step would have to be kept.\n"
        "Ways out: lax.scan, or lax.fori_loop with Python ints as bounds; fgrad.bounded_while, if you know how many "
        "steps there are at most; forward mode (fgrad.jvp, fgrad.jacfwd); or, outside jit, a Python while loop, which "
        "fgrad differentiates as it ran."
    )


class LoopBoundError(RuntimeError):
    """A loop had not ended after its maximal number of steps."""


def loop_bound(max_steps: int) -> LoopBoundError:
    return LoopBoundError(
        f"bounded_while: cond still holds after {max_steps} steps, which is all that max_steps allows.\n"
        "Ways out: a larger max_steps; or a cond that ends sooner. Under jit, where this is not known yet, the result "
        "is NaN."
    )


class InvalidGraphError(ValueError):
    """A graph is not well formed, through a fault of a pass or because it was built by hand.

    >>> from fgrad.graph.check import check
    >>> from fgrad.graph.graph import Graph
    >>> check(Graph((), (), (), (0,)))
    Traceback (most recent call last):
    fgrad.errors.InvalidGraphError: The graph is not well formed: output 0 is the value %0, which does not exist.
    """


def invalid_graph(where: str, what: str, node: str | None, source: Any) -> InvalidGraphError:
    message = f"The {where} is not well formed: {what}."
    if node is not None:
        message += f"\n  node: {node}"
    if source is not None:
        message += f"\n  from: {source} (in {source.function})"
    return InvalidGraphError(message)


class GraphFileError(ValueError):
    """A graph cannot be written to a file, or a file has no graph that can be read.

    Nothing in a graph file is ever executed while it is read; a damaged or hostile one raises this error.

    >>> import io
    >>> from fgrad.graph.saving import load
    >>> load(io.BytesIO(b"not a graph"))
    Traceback (most recent call last):
    fgrad.errors.GraphFileError: <BytesIO> is not a graph file that can be read: File is not a zip file
    """


def bad_graph_file(name: str, what: str) -> GraphFileError:
    return GraphFileError(f"{name} is not a graph file that can be read: {what}")


def unsaveable(where: str, what: str) -> GraphFileError:
    return GraphFileError(f"This graph cannot be written to a file: {where}: {what}")


class GraphArgumentError(TypeError, ValueError):
    """A graph was called on arguments with another structure, shape or dtype than it was made for."""


def graph_structure(expected: Any, got: Any, names: Sequence[str]) -> GraphArgumentError:
    shown = ", ".join([*names[:12], *[f"and {len(names) - 12} more"] * (len(names) > 12)])
    return GraphArgumentError(
        "The arguments do not have the structure that the graph was made for.\n"
        f"  expected: {expected}\n  got:      {got}\n"
        f"It takes: {shown}\n"
        "Way out: call the graph as the function was called in make_graph, without its static arguments."
    )


def graph_argument(path: str, expected: str, got: str) -> GraphArgumentError:
    return GraphArgumentError(
        f"The argument {path} has another type than the graph was made for.\n"
        f"  expected: {expected}\n  got:      {got}\n"
        "Ways out: convert it (x.astype, jnp.reshape), or make another graph for this type with make_graph."
    )


def locate(error: Exception, source: Any, asked: Any) -> None:
    """Add to a derivative rule's error, once, the user's line of the operation and of the call that needs its
    derivative."""
    if source is None or getattr(error, "located", False):
        return
    lines = [f"The operation was called at {source.file}:{source.line} (in {source.function})."]
    lines += [f"    {source.text}"] * bool(source.text)
    if asked is not None:
        lines.append(f"Its derivative was asked for at {asked.file}:{asked.line} (in {asked.function}).")
        lines += [f"    {asked.text}"] * bool(asked.text)
    _lengthen(error, "\n".join(lines))
    error.located = True  # type: ignore[attr-defined]


def in_rule(error: Exception, rule: str, name: str, function: Any) -> None:
    """Add to an error, once, which of the user's rules raised it or returned a wrong value."""
    if getattr(error, "in_rule", False):
        return
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    where = f", at {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
    _lengthen(error, f"This was in the {rule} rule of {name!r}: {getattr(function, '__qualname__', function)}{where}.")
    error.in_rule = True  # type: ignore[attr-defined]


def _lengthen(error: Exception, where: str) -> None:
    """Add to the text of one of our errors, or as a note to any other."""
    if isinstance(error, REFUSALS) and error.args:
        error.args = (f"{error.args[0]}\n{where}", *error.args[1:])
    else:
        error.add_note(where)


#: the errors that refuse a derivative, to which the passes add the line of the operation
REFUSALS = (MissingRuleError, UndefinedDerivativeError, ReverseWhileError, RuleTypeError, NotLinearError)
