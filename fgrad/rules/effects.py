"""Rules for calls out of the traced program: what Python or foreign code computes has no derivative known here."""

from fgrad.rules.kinds import Undefined, Zero, define

define("debug_callback debug_print", Zero("it has no output"))
define("create_token after_all", Zero("a token carries no number"))

define(
    "pure_callback io_callback buffer_callback",
    Undefined(
        "the callback runs Python code, which fgrad does not see. Wrap the function that calls it in fgrad.custom_vjp "
        "(or fgrad.custom_jvp) and give its derivative, or pass it fgrad.stop_gradient(x)"
    ),
)
define(
    "ffi_call",
    Undefined(
        "the call runs foreign code, which fgrad does not see. Wrap the function that calls it in fgrad.custom_vjp "
        "(or fgrad.custom_jvp) and give its derivative, or pass it fgrad.stop_gradient(x)"
    ),
)
