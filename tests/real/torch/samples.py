"""PyTorch's own samples of its operations, each on PyTorch and on fgrad.torch.

``python -m tests.real.torch.samples 3`` plays three samples of each operation that PyTorch's tests list, as numbers of
double precision: values, gradients, gradients of gradients and tangents.  Names after the number choose operations.
"""

import importlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch as theirs
from attrs import frozen

import fgrad
import fgrad.torch as ours
from tests.real.torch.twins import Missing, twin

#: relative and absolute
TOLERANCE = 1e-5
#: decompositions, of which the signs of vectors are free
FREE = ("linalg.eig", "linalg.svd", "svd", "pca_lowrank", "svd_lowrank")


@frozen
class Case:
    """An operation on one sample."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: what PyTorch's tests make of the result before they differentiate it
    process: Callable[[Any], Any]
    #: how often it is differentiated in reverse mode, and whether in forward mode
    order: int
    forward: bool

    def twin(self) -> "Case":
        made = [twin(x) for x in (self.function, self.args, self.kwargs, self.process)]
        return Case(self.name, made[0], made[1], made[2], made[3], self.order, self.forward)


def cases(most: int, names: Iterable[str] = (), dtype: Any = theirs.float64) -> Iterator[Case]:
    """So many samples at most of each operation, spread over those that there are."""
    chosen = set(names)
    for op in importlib.import_module("torch.testing._internal.common_methods_invocations").op_db:
        if (chosen and op.name not in chosen) or dtype not in op.supported_dtypes("cpu"):
            continue
        derived = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        order = (2 if op.supports_gradgrad else 1) if derived else 0
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=derived))
        for k in sorted(
            {int(i * len(samples) / most) for i in range(most)} if len(samples) > most else range(len(samples))
        ):
            sample = samples[k]
            name = f"{op.name}{op.variant_test_name and '.'}{op.variant_test_name}[{k}]"
            args = (sample.input, *sample.args)
            process = sample.output_process_fn_grad
            yield Case(name, op.op, args, sample.kwargs, process, order, bool(order and op.supports_forward_ad))


def played(torch: Any, case: Case) -> Iterator[tuple[str, list[np.ndarray | None]]]:
    """What a sample gives, derivative after derivative."""
    torch.manual_seed(0)
    out = case.function(*case.args, **case.kwargs)
    yield "values", [array(x) for x in tensors(torch, out)]
    inputs = [x for x in tensors(torch, [case.args, case.kwargs]) if x.requires_grad]
    found = [x for x in tensors(torch, case.process(out)) if x.requires_grad]
    for order in range(1, case.order + 1):
        if not found or not inputs:
            break
        given = [torch.tensor(numbers(array(x), k)) for k, x in enumerate(found)]
        grads = torch.autograd.grad(found, inputs, given, allow_unused=True, create_graph=order < case.order)
        yield ("", "gradients", "second gradients")[order], [None if g is None else array(g) for g in grads]
        found = [g for g in grads if g is not None and g.requires_grad]
    if case.forward:
        yield "tangents", list(tangents(torch, case))


def tangents(torch: Any, case: Case) -> Iterator[np.ndarray | None]:
    mode = torch.autograd.forward_ad

    def dual(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return mode.make_dual(x.detach(), torch.tensor(numbers(array(x), 3))) if x.requires_grad else x
        if isinstance(x, dict):
            return {key: dual(value) for key, value in x.items()}
        return type(x)(map(dual, x)) if type(x) in (tuple, list) else x

    with mode.dual_level():
        torch.manual_seed(0)
        for x in tensors(torch, case.function(*dual(case.args), **dual(case.kwargs))):
            tangent = mode.unpack_dual(x).tangent if x.is_floating_point() or x.is_complex() else None
            yield None if tangent is None else array(tangent)


def tensors(torch: Any, x: Any) -> Iterator[Any]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, tuple | list | dict):
        for y in x.values() if isinstance(x, dict) else x:
            yield from tensors(torch, y)


def array(x: Any) -> np.ndarray:
    return np.array(x.detach().numpy(force=True))


def numbers(like: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(like.shape)
    return (found + 1j * rng.standard_normal(like.shape) if like.dtype.kind == "c" else found).astype(like.dtype)


def differs(found: list[np.ndarray | None], wanted: list[np.ndarray | None], free: bool) -> bool:
    """Whether results disagree; one that is not there stands for zeros, and signs may be ``free``."""
    if len(found) != len(wanted):
        return True
    for a, b in zip(found, wanted, strict=True):
        if a is None or b is None:
            if np.any(b if a is None else a):
                return True
            continue
        if a.dtype != b.dtype or a.shape != b.shape:
            return True
        if free:
            a, b = np.abs(a), np.abs(b)
        if not np.allclose(a, b, TOLERANCE, TOLERANCE, equal_nan=True):
            return True
    return False


def compared(case: Case) -> Iterator[tuple[str, str]]:
    """Of each derivative of a sample, what came of the comparison: "same", or what is otherwise."""
    try:
        mine = _until_error(played(ours, case.twin()))
    except Missing as error:
        yield "values", f"missing {error}"
        return
    for what, wanted in _until_error(played(theirs, case)):
        _, found = next(mine, (what, []))
        if isinstance(wanted, Exception) and isinstance(found, Exception):
            yield what, "both raise"
        elif isinstance(found, Exception):
            yield what, f"refused: {type(found).__name__}: {found}"[:300]
        elif isinstance(wanted, Exception):
            yield what, "more than PyTorch"
        else:
            yield what, "differs" if differs(found, wanted, case.name.startswith(FREE)) else "same"


def _until_error(steps: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    try:
        yield from steps
    except Exception as error:
        yield "error", error


def main(arguments: list[str]) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    with fgrad.policy("numpy"):  # which compiles nothing where NumPy can run it
        for case in cases(int(arguments[0]), arguments[1:]):
            for what, outcome in compared(case):
                kind = outcome.partition(":")[0].split()[0]
                counts[what, kind] += 1
                if kind in ("differs", "refused", "missing"):
                    print(f"{case.name}, {what}: {outcome}", flush=True)
    for (what, kind), count in sorted(counts.items()):
        print(f"{what}: {count} {kind}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    main(sys.argv[1:])
