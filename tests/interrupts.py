"""Programs that are interrupted, and what has to hold afterwards: used by the test beside it, and a campaign by itself.

``python -m tests.interrupts 5000`` interrupts programs with a timer's signal at random moments, and raises as many
errors in hooks, rules and callbacks; a second number is a seed.  ``python -m tests.interrupts --everywhere`` does it at
every place where a signal could be handled; names of programs may follow.  After each the thread's state must be as
before, a program run next must give the right numbers, and what was being written must have been written whole or not
at all.
"""

import dis
import functools
import gc
import inspect
import random
import signal
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fgrad
import fgrad.torch as torch
from fgrad.jaxcore import current_trace, restore_trace, restoring_trace
from fgrad.mutable.backward.engine import running
from fgrad.mutable.context.modes import Modes, modes
from fgrad.mutable.context.torch_function.protocol import watch
from fgrad.mutable.types import devices
from fgrad.torch.amp.casting import settings
from fgrad.torch.utils import checkpoint as checkpoints

#: what interrupts, and what is asked of the program's own tensors afterwards
Made = tuple[Callable[[], Any], Callable[[], None]]


def state() -> dict[str, Any]:
    """All that one program could leave behind for the next, of this thread."""
    found = {f"modes.{name}": getattr(modes, name) for name in vars(Modes) if not name.startswith("__")}
    return found | {
        "tasks": running.tasks,
        "threads": watch.within(),
        "locked": watch.lock._is_owned(),  # type: ignore[attr-defined]
        "autocast": (dict(settings().targets), dict(settings().dtypes), settings().nesting, settings().cache_enabled),
        "devices": tuple(devices.default_devices.entered),
        "checkpoint": (checkpoints._settings.early_stop, checkpoints._settings.debug),
        "trace": current_trace(),
        "wide": jax.config.jax_enable_x64,  # type: ignore[attr-defined]
    }


_jitted = jax.jit(lambda z: z + 1)
_gradient = fgrad.grad(lambda z: jnp.sum(jnp.sin(z) * z))


def probe() -> None:
    """A program of both kinds, whose results are known."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * x
    y[0].mul_(2.0)
    (y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [4.0, 8.0, 18.0])
    n = torch.arange(3) + 2**40
    assert n.dtype is torch.int64 and n.tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    np.testing.assert_allclose(_gradient(2.0), np.sin(2.0) + 2 * np.cos(2.0), 1e-5)
    np.testing.assert_allclose(_jitted(1.0), 2.0)


# -- programs --------------------------------------------------------------------------------------------------------
# each takes a size, which makes the shapes new, and gives what is to be interrupted


def nothing() -> None:
    pass


def gradient(n: int) -> Made:
    x = jnp.linspace(0.0, 1.0, n)
    return lambda: fgrad.grad(lambda z: jnp.sum(jnp.tanh(z) * z))(x), nothing


def jitted(n: int) -> Made:
    x = jnp.linspace(0.0, 1.0, n)
    # a function of ``jit`` is ``jax.jit``'s own, which may leave its trace behind
    return lambda: restoring_trace(
        fgrad.jit(fgrad.value_and_grad(lambda z: jnp.sum(jnp.exp(z) / (1.0 + z)))), x
    ), nothing


def nested(n: int) -> Made:
    x = jnp.linspace(0.0, 1.0, n)
    return lambda: fgrad.jvp(fgrad.grad(lambda z: jnp.prod(jnp.cos(z) + 2.0)), (x,), (x,)), nothing


def ruled(n: int) -> Made:
    @jax.custom_vjp
    def f(z: Any) -> Any:
        return jnp.sin(z)

    def f_fwd(z: Any) -> Any:
        return jnp.sin(z), z

    f.defvjp(f_fwd, lambda z, ct: (ct * jnp.cos(z),))
    x = jnp.linspace(0.0, 1.0, n)
    return lambda: fgrad.grad(lambda z: jnp.sum(f(z) if z[0] < 2 else z))(x), nothing


def looped(n: int) -> Made:
    x = jnp.linspace(0.0, 1.0, n)
    return lambda: fgrad.grad(lambda z: jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), z).sum())(x), nothing


def trained(n: int) -> Made:
    model = torch.nn.Linear(n, 2)
    x = torch.ones(3, n)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def run() -> None:
        for _ in range(2):
            optimiser.zero_grad()
            torch.tanh(model(x)).sum().backward()
            optimiser.step()

    return run, nothing


def accumulated(n: int) -> Made:
    x = torch.full((n,), 2.0, requires_grad=True)
    (x * x).sum().backward()
    before = x.grad._version

    def check() -> None:
        done = x.grad._version - before
        assert done in (0, 1)
        assert x.grad.tolist() == [4.0 + 4.0 * done] * n

    return lambda: (x * x).sum().backward(), check


def written(n: int) -> Made:
    x = torch.full((n,), 3.0, requires_grad=True)
    y = x * x
    part = y[1:]

    def check() -> None:
        done = y._version
        assert done in (0, 1) and part._version == done
        assert y.tolist() == [9.0] + [18.0 if done else 9.0] * (n - 1)
        assert y.grad_fn.name() == ("torch::autograd::CopySlices" if done else "MulBackward0")
        y.sum().backward()
        assert x.grad.tolist() == [6.0] + [12.0 if done else 6.0] * (n - 1)

    return lambda: part.mul_(2.0), check


def written_whole(n: int) -> Made:
    x = torch.full((n,), 3.0, requires_grad=True)
    y = x * x
    y.retain_grad()

    def check() -> None:
        done = y._version
        assert y.tolist() == [18.0 if done else 9.0] * n
        y.sum().backward()
        assert y.grad.tolist() == [1.0] * n
        assert x.grad.tolist() == [12.0 if done else 6.0] * n

    return lambda: y.mul_(2.0), check


def waited(n: int) -> Made:
    """Values that wait until they are read."""
    n += 1 << 15
    x = torch.full((n,), 3.0, requires_grad=True)
    y = x * x
    z = (y + 1).sum()

    def run() -> None:
        z.backward()
        y.tolist()

    def check() -> None:
        assert (y[0].item(), y[-1].item(), z.item()) == (9.0, 9.0, 10.0 * n)
        assert x.grad is None or x.grad[-1].item() == 6.0

    return run, check


def unrecorded(n: int) -> Made:
    x = torch.zeros(n, requires_grad=True)

    def run() -> None:
        with torch.no_grad():
            x.add_(1.0)
        with torch.inference_mode():
            x * 2
        with torch.no_grad(), torch.enable_grad():
            x * 3

    def check() -> None:
        assert x.tolist() == [float(x._version)] * n
        assert x.requires_grad and x.is_leaf

    return run, check


def hooked(n: int) -> Made:
    x = torch.ones(n, requires_grad=True)

    def run() -> None:
        y = x * 2
        y.register_hook(lambda grad: grad * 2)
        x.register_post_accumulate_grad_hook(lambda leaf: None)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            z = (y * y).sum()
        torch.autograd.grad(z, x, create_graph=True)
        z.backward()

    return run, nothing


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


def custom(n: int) -> Made:
    x = torch.ones(n, requires_grad=True)
    return lambda: Cube.apply(x).sum().backward(), nothing


def transformed(n: int) -> Made:
    x = torch.ones(3, n)

    def run() -> None:
        torch.func.vmap(torch.func.grad(lambda z: (z * z.exp()).sum()))(x)
        torch.func.jvp(torch.func.vjp(lambda z: z.sin().sum(), x[0])[1], (torch.tensor(1.0),), (torch.tensor(1.0),))

    return run, nothing


def forward_mode(n: int) -> Made:
    x = torch.ones(n)

    def run() -> None:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, x)
            torch.autograd.forward_ad.unpack_dual(dual * dual)

    return run, nothing


def recomputed(n: int) -> Made:
    x = torch.ones(n, requires_grad=True)

    def run() -> None:
        for reentrant in (True, False):
            torch.utils.checkpoint.checkpoint(lambda z: z.sin().exp(), x, use_reentrant=reentrant).sum().backward()

    return run, nothing


def captured(n: int) -> Made:
    x = torch.ones(n)

    def f(z: Any) -> Any:
        y = z.clone()
        y[0].mul_(3.0)
        return y * z

    return lambda: torch.func.functionalize(f)(x), nothing


def cast(n: int) -> Made:
    x = torch.ones(n, n, requires_grad=True)

    def run() -> None:
        with torch.autocast("cpu"):
            y = x @ x
        y.float().sum().backward()

    return run, nothing


class Doubled(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def overridden(n: int) -> Made:
    x = torch.ones(n)

    def run() -> None:
        with Doubled(), torch.device("cpu"):
            torch.ones(n) + x * 2

    return run, nothing


def wide(n: int) -> Made:
    x = torch.arange(n)
    return lambda: (x * x).cumsum(0)[x.flip(0)].double().exp(), nothing


class Count:
    """What a compiled step has counted."""

    def __init__(self, n: int) -> None:
        self.total, self.calls, self.log = 0.0, 0, list[float]()
        self.w = torch.zeros(n)


def counted(n: int) -> Made:
    """A compiled step that stores numbers which only its program knows, and adds to a list."""
    count = Count(n)

    @torch.compile
    def step(x: Any) -> Any:
        count.w.add_(x)
        count.calls += 1
        count.total += x.sum().item()
        count.log.append(count.w[0].item())
        return count.w.sum().item()

    x = torch.ones(n)
    for _ in range(5):
        step(x)

    def check() -> None:
        done = len(count.log)
        assert done in (5, 6)
        assert count.log == [float(k + 1) for k in range(done)]
        assert (count.w[0].item(), count.w._version, count.calls, count.total) == (done, done, done, done * n)
        assert step(x) == n * (done + 1)

    return lambda: step(x), check


def in_pieces(n: int) -> Made:
    """A compiled step that runs in pieces: of its statements, the first ones have been executed, each of them whole."""
    return _after(n, 1, [(-2.0, 4.0), (-1.0, 4.0), (-1.0, 3.0), (-1.0, 6.0), (-7.0, 6.0)])


def continued(n: int) -> Made:
    """The first call of such a step, which is recorded, and continues in pieces."""
    return _after(n, 0, [(1.0, 0.0), (2.0, 0.0), (2.0, 2.0), (2.0, 4.0), (-2.0, 4.0)])


def _after(n: int, calls: int, values: Sequence[tuple[float, float]]) -> Made:
    w, v = torch.ones(n), torch.zeros(n)

    @torch.compile
    def step() -> None:
        w.add_(1)
        total = w.sum().item()
        if total > -100 * n:
            v.add_(w).mul_(2)
        w.sub_(v.sum() / n)

    for _ in range(calls):
        step()

    def check() -> None:
        found = w.tolist(), v.tolist(), w._version + v._version
        assert found in [([a] * n, [b] * n, 4 * calls + k) for k, (a, b) in enumerate(values)], found
        step()
        assert v.tolist() == [2 * (found[1][0] + found[0][0] + 1)] * n

    return step, check


PROGRAMS: tuple[Callable[[int], Made], ...] = (
    gradient, jitted, nested, ruled, looped, trained, accumulated, written, written_whole, waited, unrecorded, hooked,
    custom, transformed, forward_mode, recomputed, captured, cast, overridden, wide, counted, in_pieces, continued,
)  # fmt: skip

_sizes = iter(range(5, 1 << 30))


def fresh(program: Callable[[int], Made], warm: bool) -> Made:
    """A program with shapes that nothing has been kept for, or with some that have been met."""
    return program(4 if warm else next(_sizes))


# -- at every place where Python looks for signals -------------------------------------------------------------------

#: the instructions after which it does; it does too where a function begins, and where a generator goes on
_LOOKS = frozenset(
    n for n, name in enumerate(dis.opname) if name.startswith(("CALL", "JUMP_BACKWARD")) and "NO_INTERRUPT" not in name
)
_LOOKS_OF_GENERATORS = _LOOKS | {dis.opmap["RESUME"]}
_WATCHED = ("/fgrad/", "/tests/interrupts.py", "/contextlib.py", "/jax/_src/core.py", "/jax/_src/config.py")

Place = tuple[Any, int]


class Struck(KeyboardInterrupt):
    """Raised by the tests, at a place of their choice."""


def watched(run: Callable[[], Any], reach: Callable[[Place], None]) -> None:
    """Call a function, and ``reach`` at each place where a signal could be handled in what it calls."""

    def begin(frame: Any, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not any(part in code.co_filename for part in _WATCHED) or code in _OWN:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if code.co_flags & inspect.CO_GENERATOR:  # it may also be closed, where nothing looks
            asks = _LOOKS_OF_GENERATORS
        else:
            asks = _LOOKS
            reach((code, -1))
        looked: int | None = None
        opcodes = code.co_code

        def follow(frame: Any, event: str, arg: Any) -> Any:
            nonlocal looked
            if event == "opcode":
                at = frame.f_lasti
                # raised here it must go where it would go from the instruction itself, which may be the last of a block
                if looked is not None and _handler(code, looked) == _handler(code, at):
                    reach((code, at))
                looked = at if opcodes[at] in asks else None
            return follow

        return follow

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()  # what it runs, and where, depends on all that ran before
    sys.settrace(begin)
    try:
        run()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()


@functools.cache
def _handler(code: types.CodeType, at: int) -> int | None:
    """Where an error goes that an instruction raises."""
    covered = dis._parse_exception_table(code)  # type: ignore[attr-defined]  # it is written nowhere else
    return next((part.target for part in covered if part.start <= at < part.end), None)


#: the functions of this file that do not belong to the programs
_OWN = {f.__code__ for f in (watched, state, probe)}


def places(program: Callable[[int], Made], warm: bool) -> Counter[Place]:
    """Where a program could be interrupted, and how often it comes there."""
    found: Counter[Place] = Counter()
    run, _ = fresh(program, warm)

    def reach(place: Place) -> None:
        found[place] += 1

    watched(run, reach)
    return found


def strike(run: Callable[[], Any], place: Place, times: int) -> bool:
    """Interrupt a program when it is at a place for the so-manieth time; whether it came there."""
    left = times

    def reach(here: Place) -> None:
        nonlocal left
        if here == place:
            left -= 1
            if not left:
                raise Struck

    def unraisable(report: Any) -> None:
        # an interrupt while Python closes a generator that nobody finished is only reported, never raised
        if not isinstance(report.exc_value, Struck):
            before(report)

    before = sys.unraisablehook
    sys.unraisablehook = unraisable
    try:
        watched(run, reach)
    except Struck:
        pass
    finally:
        sys.unraisablehook = before
    return not left


def is_delicate(place: Place) -> bool:
    return place[0].co_name in ("__enter__", "__exit__", "write", "rebase", "bump", "run_backward")


def is_exposed(place: Place) -> bool:
    """Whether it is the beginning of an ``__exit__`` that is written in Python."""
    code, at = place
    return code.co_name == "__exit__" and at == -1 and code.co_filename.endswith("/devices.py")


def told(place: Place) -> str:
    code, at = place
    line = next((line for start, end, line in code.co_lines() if start <= at < end), code.co_firstlineno)
    return f"{code.co_filename.rpartition('site-packages/')[2]}:{line} {code.co_name} at {at}"


def differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def faults(check: Callable[[], None], before: dict[str, Any]) -> list[str]:
    """What an interrupted program has left wrong; it is put right for the next."""
    found = [f"{name}: {old} became {new}" for name, (old, new) in differences(before, state()).items()]
    for each in (check, probe):
        try:
            each()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and not isinstance(error, Struck):
                raise
            found.append(f"{each.__qualname__}: {type(error).__name__}: {str(error)[:300]}")
    if found:
        restore_trace(before["trace"])
        modes.__dict__.clear()
    return found


def sampled(
    program: Callable[[int], Made], warm: bool, count: int, chance: random.Random
) -> Iterator[tuple[Place, int]]:
    """Places of a program to interrupt it at, the delicate ones first, and the how-manieth time there."""
    found = places(program, warm)
    for place in [place for place in found if is_exposed(place)]:
        del found[place]
    delicate = [place for place in found if is_delicate(place)]
    others = [place for place in found if not is_delicate(place)]
    half = min(len(delicate), max(count // 2, count - len(others)))
    for place in chance.sample(delicate, half) + chance.sample(others, min(len(others), count - half)):
        yield place, chance.randint(1, found[place])


def everywhere(names: Sequence[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Interrupt programs with shapes that have been met at each of their places, the first and the last time there.

    Gives the name of each program, how often it was interrupted, and the faults.
    """
    before = state()
    for program in [f for f in PROGRAMS if not names or f.__name__ in names]:
        for _ in range(3):
            program(4)[0]()
        wrong, struck = [], 0
        for place, times in places(program, True).items():
            for nth in () if is_exposed(place) else {1, times}:
                run, check = program(4)
                struck += strike(run, place, nth)
                wrong += [f"{told(place)}, time {nth}: {fault}" for fault in faults(check, before)]
        yield program.__name__, struck, wrong


# -- at random moments, by a signal ----------------------------------------------------------------------------------


def timed(run: Callable[[], Any], delay: float) -> bool:
    """Interrupt a program by a timer's signal after some seconds; whether it was still running."""
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        run()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Struck:
        return True
    except ValueError as error:  # XLA's caches wrap what is raised while they compare keys
        if Struck.__name__ not in str(error):
            raise
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def _strike(number: int, frame: Any) -> None:
    code = frame.f_code
    if frame.f_lineno != code.co_firstlineno or not is_exposed((code, -1)):
        raise Struck


def by_signals(count: int, seed: int) -> tuple[int, list[str]]:
    """Interrupt programs by signals: how many were hit, and what went wrong."""
    chance = random.Random(seed)
    signal.signal(signal.SIGALRM, _strike)
    lengths: dict[Any, float] = {}
    for program in PROGRAMS:
        program(4)[0]()
    before = state()
    hit, wrong = 0, []
    while hit < count:
        program, warm = chance.choice(PROGRAMS), chance.random() < 0.8
        run, check = fresh(program, warm)
        start = time.perf_counter()
        struck = timed(run, max(1e-6, chance.random() * lengths.get((program, warm), 0.01)))
        if not struck:
            lengths[program, warm] = time.perf_counter() - start
            continue
        hit += 1
        wrong += [f"{program.__name__}, {'warm' if warm else 'new'}: {fault}" for fault in faults(check, before)]
    return hit, wrong


# -- by errors in what the user has given ----------------------------------------------------------------------------


class Refused(Exception):
    """Raised by a hook, a rule or a callback."""


class Fragile:
    """Raises at one of its calls."""

    def __init__(self, at: int):
        self.left = at

    def __call__(self, value: Any = None, *rest: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise Refused
        return value


class Breaking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, fragile: Fragile) -> Any:
        ctx.save_for_backward(fragile(x))
        ctx.fragile = fragile
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.fragile(grad) * 2, None


def hooks(x: Any, fragile: Fragile) -> None:
    y = torch.sin(x)
    y.register_hook(fragile)
    y.grad_fn.register_prehook(fragile)
    y.grad_fn.register_hook(fragile)
    handle = x.register_hook(fragile)
    with torch.autograd.graph.saved_tensors_hooks(fragile, fragile):
        z = y * y
    try:
        z.sum().backward(create_graph=False)
    finally:
        handle.remove()


def functions(x: Any, fragile: Fragile) -> None:
    with torch.no_grad():
        fragile()
    Breaking.apply(x, fragile).sum().backward()


def transforms(x: Any, fragile: Fragile) -> None:
    torch.func.vmap(torch.func.grad(lambda z: fragile(z * z)))(x.detach())
    torch.func.jvp(lambda z: fragile(z.sin()), (x.detach(),), (x.detach(),))
    with torch.autograd.forward_ad.dual_level(), torch.inference_mode(False):
        fragile()


def checkpoints_again(x: Any, fragile: Fragile) -> None:
    for reentrant in (True, False):
        y = torch.utils.checkpoint.checkpoint(lambda z: fragile(z.sin()), x, use_reentrant=reentrant)
        y.sum().backward()


def optimisers(x: Any, fragile: Fragile) -> None:
    optimiser = torch.optim.SGD([x], lr=0.0)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = fragile((x * x).sum())
        loss.backward()
        fragile()
        return loss

    optimiser.step(closure)


def overrides_and_casts(x: Any, fragile: Fragile) -> None:
    class Asked(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            fragile()
            return func(*args, **(kwargs or {}))

    with torch.autocast("cpu"), Asked(), torch.device("cpu"):
        torch.ones(2) + x[:1]


def core_rules(x: Any, fragile: Fragile) -> None:
    @fgrad.custom_vjp
    def f(z: Any) -> Any:
        fragile()
        return jnp.sin(z)

    def forward(z: Any) -> Any:
        fragile()
        return jnp.sin(z), z

    def backward(z: Any, ct: Any) -> Any:
        fragile()
        return (ct * jnp.cos(z),)

    f.defvjp(forward, backward)
    fgrad.grad(lambda z: jnp.sum(fragile(f(z)) * z))(jnp.ones(len(x)))


def core_callbacks(x: Any, fragile: Fragile) -> None:
    @jax.custom_jvp
    def f(z: Any) -> Any:
        fragile()
        return z * z

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        fragile()
        return f(*primals), 2 * primals[0] * tangents[0]

    def looped(z: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda i, c: fragile(f(c)), z)

    fgrad.jvp(fgrad.grad(lambda z: looped(z)), (float(len(x)),), (1.0,))


ERRING: tuple[Callable[[Any, Fragile], None], ...] = (
    hooks, functions, transforms, checkpoints_again, optimisers, overrides_and_casts, core_rules, core_callbacks,
)  # fmt: skip


def by_errors(count: int, seed: int) -> tuple[int, list[str]]:
    """Raise errors in what the user gives: how many there were, and what went wrong."""
    chance = random.Random(seed)
    before = state()
    raised, wrong = 0, []
    while raised < count:
        program, at = chance.choice(ERRING), chance.randint(1, 9)
        x = torch.ones(chance.randint(1, 4), requires_grad=True)
        try:
            program(x, Fragile(at))
        except Refused:
            raised += 1
            found = faults(nothing, before)
            x.grad = None
            program(x, Fragile(0))
            wrong += [f"{program.__name__}, call {at}: {fault}" for fault in found]
    return raised, wrong


def main(count: int, seed: int = 0) -> None:
    for name, campaign in (("errors", by_errors), ("signals", by_signals)):
        start = time.process_time()
        done, wrong = campaign(count, seed)
        print(f"{name}: {done}, faults: {len(wrong)}, {time.process_time() - start:.0f} s of CPU")
        for fault, times in Counter(wrong).most_common(20):
            print(f"  {times} times: {fault}")


if __name__ == "__main__":
    gc.freeze()
    if sys.argv[1:2] == ["--everywhere"]:
        for what, times, found in everywhere(sys.argv[2:]):
            print(f"{what}: {times}, faults: {len(found)}", *found, sep="\n  ", flush=True)
    else:
        main(*map(int, sys.argv[1:3] or ("500",)))
