"""Errors of traced values: which value it is, what it depends on, and what to do instead."""

import gc
from typing import Any

from fgrad.errors import CopiedOutError, LeakedTracerError, NotConcreteError, NumPyFunctionError
from fgrad.jaxcore import Tracer
from fgrad.record.origin import argument_name, because, dependencies, listed, origin


def leaked(tracer: Any, what: str = "was used") -> LeakedTracerError:
    """A value was used, or is ``what``, after its recording had ended."""
    recording = tracer._trace
    name = argument_name(tracer)
    made = f"made at {origin(tracer)}" if name is None else f"the argument {name}"
    of = "" if recording.call is None else f" The function is {recording.call}."
    return LeakedTracerError(
        f"A traced value {tracer.aval.str_short()} {what} after the function that was being {recording.purpose} "
        f"had returned.{of}\n"
        f"It is {made}, and was kept in a global, an attribute or a list from there.\n"
        "Way out: return the value from the function (grad and value_and_grad take has_aux=True), or, where the "
        "function is not staged, store the number: x.item() or np.asarray(fgrad.stop_gradient(x)). "
        "jax.debug.print shows it."
    )


def check_leaks(recording: Any) -> None:
    """Refuse values of a finished recording that somebody keeps, as ``jax.checking_leaks`` asks for."""
    gc.collect()  # what only a cycle keeps is not a leak
    for value in gc.get_referrers(recording):
        if isinstance(value, Tracer) and value._trace is recording:
            raise leaked(value, "leaked, and is kept")


#: by operation that needs a number, what to write instead
_INSTEAD = {
    "bool()": "jnp.where or jax.lax.cond instead of Python's if, jax.lax.while_loop instead of while",
    "int()": "x.astype(int), which stays an array",
    "an integer index": "jax.lax.fori_loop instead of range(), jax.lax.dynamic_slice_in_dim(x, start, size) instead of "
    "a slice",
    ".item()": "return the value and read it outside, or show it with jax.debug.print",
    "numpy.asarray()": "the functions of jax.numpy instead of NumPy's",
}
_FLOAT = "x.astype(float), which stays an array, and the functions of jax.numpy instead of those of math"


def not_concrete(tracer: Any, what: str) -> NotConcreteError:
    """The value of a tracer was needed, but only its type is known."""
    return NotConcreteError(
        f"{what} needs the number behind a traced value {tracer.aval.str_short()}, and here only its type is known.\n"
        f"{because(tracer)}\n"
        f"Ways out: {_static(tracer)}; {_INSTEAD.get(what, _FLOAT)}; "
        "or call the function without jit: fgrad.grad alone keeps values concrete."
    )


def _static(tracer: Any) -> str:
    """How to make the value known: as a static argument, by name if possible."""
    call = tracer._trace.call
    inputs = dependencies(tracer._trace, tracer.number)
    names = [] if call is None or call.what != "jit" else [call.argument(number) for number, _ in inputs]
    if not names or not all(name.isidentifier() and not t.shape for name, (_, t) in zip(names, inputs, strict=True)):
        # arrays are not hashable, and containers rarely are
        return "take the number as a static argument (static_argnums), if it takes few values"
    one = len(names) == 1
    argnames = repr(*names) if one else str(tuple(names))
    return f"jit(..., static_argnames={argnames}) (or static_argnums), if {listed(names)} take{'s' * one} few values"


def copied_out(tracer: Any, what: str) -> CopiedOutError:
    """A number would be copied out of a recording, and its derivative lost."""
    return CopiedOutError(
        f"{what} would copy the number out of a traced value {tracer.aval.str_short()}, and no derivative would pass "
        f"through the copy.\nThe value comes from {origin(tracer)}.\n"
        "Ways out: use jax.numpy, jax.scipy or NumPy's own functions, which are differentiated: jnp.stack([x, y]) "
        "instead of np.array([x, y]), y = y.at[i].set(x) of a jax.numpy array instead of y[i] = x, jnp.sin instead of "
        "math.sin.\nWhere no derivative is wanted, convert fgrad.stop_gradient(x) (jax.lax.stop_gradient). "
        "x.item() shows a number."
    )


def numpy_function(tracer: Any, name: str, why: str, instead: str) -> NumPyFunctionError:
    """A function of NumPy's cannot be recorded."""
    return NumPyFunctionError(
        f"{name} cannot be recorded on a traced value {tracer.aval.str_short()}: {why}.\n"
        f"The value comes from {origin(tracer)}.\n"
        f"Ways out: {instead}; or, where no derivative is wanted, apply it to fgrad.stop_gradient(x) "
        "(jax.lax.stop_gradient)."
    )


def not_of_jax() -> NotImplementedError:
    """Code that looks for the tracers of ``jax.jvp`` runs in a recording."""
    return NotImplementedError(
        "This library's code looks for tracers of jax.jvp among its values, as equinox.filter_jvp does, and runs in "
        "fgrad's place of it: it would take each value for a constant, and its tangent for zero.\n"
        "Way out: replace jax.jvp by fgrad.jvp in your own code, and leave jax.jvp itself as it is (no "
        "jax.jvp = fgrad.jvp)."
    )
