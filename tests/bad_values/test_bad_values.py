"""The calls with the bad values: a sample here, all of them by ``-m thorough``."""

import importlib.util
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.test_util
import pytest

import fgrad
import fgrad.torch
from tests.bad_values import functional, mutable
from tests.bad_values.outcomes import fault, outcome, outcome_apart
from tests.bad_values.values import ENDLESS, VALUES

# what a thread that JAX has broken leaves behind, see ENDLESS
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)

Make = Callable[[Any], Any]

#: JAX takes these where it does not look at values
UNSEEN = {"spec", "deleted"}
#: refused at once, and by JAX, if at all, where it is used first
EARLY = (
    "custom_jvp: fun",
    "custom_vjp: fun",
    "custom_vjp: nondiff_argnums",
    "checkpoint: policy",
    "checkpoint: prevent_cse",
    "jit: inline",
)
#: otherwise than JAX or PyTorch, on purpose
MEANT: set[tuple[str, str]] = {
    ("grad: argnums", "True"),
    ("jacfwd: argnums", "True"),
    ("jacrev: argnums", "True"),
    # docs/differences.md: a cotangent of another dtype
    ("custom_vjp: bwd output[0]", "array of bool"),
    ("custom_vjp: bwd output[0]", "array of complex"),
    # called on the class with what is no tensor
    *(("detach: self", name) for name in [*VALUES, *ENDLESS, *mutable.TENSORS]),
    # an order of 10**400 is an infinite one
    ("norm: p", "10**400"),
    ("SGD: momentum", "nan"),
    ("save: obj", "lambda"),
    # docs/torch_semantics.md: no integer is beyond 64 bits, and no tangent of a real tensor complex
    *(
        (key, "2**63")
        for key in (
            "add: other",
            "radd: other",
            "pow: exponent",
            "eq: other",
            "lt: other",
            "mul_: other",
            "masked_fill: value",
            "clamp: min",
            "fill_: value",
        )
    ),
    ("func.jvp: tangents[0]", "tensor of complex"),
    # JAX looks at these where they are used, and takes what it does not use
    ("fwd_and_bwd: argnums", "True"),
    ("fwd_and_bwd: argnums", "empty str"),
    ("getitem: index", "deque"),
    ("setitem: index", "deque"),
}
#: PyTorch's errors for wrong types are of several classes here
CLASSES = (
    "tensor: device", "arange: end", "grad: outputs", "grad: inputs", "func.vmap: out_dims", "getitem: index",
    "setitem: index", "as_strided: size", "einsum: equation", "norm: p", "Adam: betas",
)  # fmt: skip
#: PyTorch's messages for these depend on which of its functions unpacks them
HUGE = {"2**63", "-2**63-1", "10**400"}


def values(extra: dict[str, Make]) -> dict[str, Make]:
    return {name: lambda lib, make=make: make() for name, make in (VALUES | ENDLESS).items()} | extra


def sampled(key: str, name: str, part: int) -> bool:
    """Whether a pair is in the sample of one in ``part``."""
    return zlib.crc32(f"{key} {name}".encode()) % part == 0


def faults(
    calls: dict[str, Callable[[Any, Any], Any]], extra: dict[str, Make], ours: Any, theirs: Any, part: int
) -> Iterator[str]:
    for key, call in calls.items():
        for name, make in values(extra).items():
            if not sampled(key, name, part) or (key, name) in MEANT or (key.endswith(": fun") and name == "deleted"):
                continue
            run = outcome_apart if name in ENDLESS else outcome
            peer = None if theirs is None else run(lambda: call(theirs, make(theirs)))
            found = fault(run(lambda: call(ours, make(ours))), peer)
            if (
                found is not None
                and not (found.startswith("refused") and (name in UNSEEN or key in EARLY))
                and not (theirs is not jax and (name in HUGE or key in CLASSES) and found.startswith("not"))
            ):
                yield f"{key} = {name}: {found}"


# jaxlib leaves the recursion counter of Python 3.13 wrong after dicts that hold themselves, and pytest fails on that
@pytest.mark.slow
@pytest.mark.parametrize("part", [25, pytest.param(1, marks=pytest.mark.thorough)])
def test_functional_layer(part: int):
    found = [*faults(functional.SHARED, {}, fgrad, jax, part), *faults(functional.OWN, {}, fgrad, None, part)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("part", [15, pytest.param(1, marks=pytest.mark.thorough)])
def test_mutable_layer(part: int):
    theirs = pytest.importorskip("torch")  # what PyTorch refuses in the same way is no fault
    importlib.import_module("torch.utils.checkpoint")
    found = list(faults(mutable.CALLS, mutable.TENSORS, fgrad.torch, theirs, part))
    assert not found, "\n".join(found)
