"""Learning-rate schedulers against PyTorch's: rates, momentum, states, warnings and errors."""

import copy
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as ft
from tests.torch.oracle import outcome

Make = Callable[[Any, Any], Any]


def optimizer_of(lib: Any, name: str = "SGD", rate: Any = 0.5, **options: Any) -> Any:
    groups = [{"params": [lib.ones(1, requires_grad=True)]}, {"params": [lib.ones(1, requires_grad=True)], "lr": 0.1}]
    return getattr(lib.optim, name)(groups, lr=rate, **options)


class Rising:
    """A callable with a state of its own."""

    def __init__(self) -> None:
        self.slope = 0.5

    def __call__(self, epoch: float) -> float:
        return 1 + self.slope * epoch


def sequential(s: Any, o: Any) -> Any:
    parts = [s.ConstantLR(o, factor=0.1, total_iters=3), s.ExponentialLR(o, gamma=0.9), s.StepLR(o, 2)]
    return s.SequentialLR(o, parts, milestones=[3, 6])


SCHEDULERS: dict[str, Make] = {
    "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, Rising()]),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9),
    "step": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "milestones": lambda s, o: s.MultiStepLR(o, [2, 2, 5], gamma=0.5),
    "milestone at 0": lambda s, o: s.MultiStepLR(o, [0, 3], gamma=0.5),
    "constant": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=4),
    "linear": lambda s, o: s.LinearLR(o, start_factor=0.2, end_factor=0.7, total_iters=6),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.8),
    "polynomial": lambda s, o: s.PolynomialLR(o, total_iters=7, power=2.0),
    "cosine": lambda s, o: s.CosineAnnealingLR(o, T_max=4, eta_min=0.01),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=0.01),
    "equal restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=4),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.1, [1.0, 2.0], step_size_up=3, step_size_down=2),
    "cyclic2": lambda s, o: s.CyclicLR(o, 0.1, 1.0, step_size_up=2, mode="triangular2"),
    "cyclic range": lambda s, o: s.CyclicLR(o, 0.1, 1.0, step_size_up=2, mode="exp_range", gamma=0.9),
    "cyclic of one's own": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 2, scale_fn=Rising(), scale_mode="iterations"),
    "cyclic by a function": lambda s, o: s.CyclicLR(o, 0.1, 1.0, 2, scale_fn=lambda x: 1 / x, cycle_momentum=False),
    "one cycle": lambda s, o: s.OneCycleLR(o, max_lr=[1.0, 2.0], total_steps=15),
    "one cycle in three": lambda s, o: s.OneCycleLR(
        o, max_lr=1.0, epochs=3, steps_per_epoch=5, three_phase=True, anneal_strategy="linear", pct_start=0.4
    ),
    "sequential": sequential,
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, factor=0.1, total_iters=3), s.ExponentialLR(o, 0.9)]),
}


def history(lib: Any, make: Make, optimizer: Any, steps: int = 12) -> list[Any]:
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    seen = []
    for _ in range(steps):
        rates = [group["lr"] for group in optimizer.param_groups]
        seen.append([float(rate) for rate in (*rates, *scheduler.get_last_lr())])
        seen.append([group.get("momentum", group.get("betas")) for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return seen


@pytest.mark.parametrize("name", ["SGD", "Adam"])
@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
def test_rates(make: Make, name: str):
    torch = pytest.importorskip("torch")
    own, theirs = [history(lib, make, optimizer_of(lib, name)) for lib in (ft, torch)]
    assert own == theirs


@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
def test_rates_that_are_tensors(make: Make):
    torch = pytest.importorskip("torch")
    histories = []
    for lib in (ft, torch):
        rate = lib.tensor(0.5)
        optimizer = lib.optim.SGD(
            [{"params": [lib.ones(1)]}, {"params": [lib.ones(1)], "lr": lib.tensor(0.1)}], lr=rate
        )
        seen = history(lib, make, optimizer)
        assert optimizer.param_groups[0]["lr"] is rate
        histories.append([x for entry in seen[::2] for x in entry])
    assert histories[0] == pytest.approx(histories[1], rel=1e-5, abs=1e-7)


def test_sequences_in_sequences():
    """The inner one makes its first step twice, and says so in PyTorch, too."""
    torch = pytest.importorskip("torch")
    seen = []
    for lib in (ft, torch):
        with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step"):
            seen.append(
                history(
                    lib,
                    lambda s, o: s.SequentialLR(o, [sequential(s, o), s.ExponentialLR(o, 0.5)], milestones=[8]),
                    optimizer_of(lib),
                )
            )
    assert seen[0] == seen[1]


def plain(state: Any) -> Any:
    """A state without what differs by nature: bound methods and the addresses of functions."""
    return {key: [plain(s) if isinstance(s, dict) else s for s in value] if isinstance(value, list) else value
            for key, value in state.items()}  # fmt: skip


@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
def test_states(make: Make):
    torch = pytest.importorskip("torch")
    states = []
    for lib in (ft, torch):
        optimizer = optimizer_of(lib)
        scheduler = make(lib.optim.lr_scheduler, optimizer)
        for _ in range(4):
            optimizer.step()
            scheduler.step()
        states.append(plain(scheduler.state_dict()))
    assert states[0] == states[1]


@pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
def test_loading_goes_on_where_saving_stopped(make: Make):
    optimizer, other = optimizer_of(ft), optimizer_of(ft)
    scheduler = make(ft.optim.lr_scheduler, optimizer)
    for _ in range(4):
        optimizer.step()
        scheduler.step()
    resumed = make(ft.optim.lr_scheduler, other)
    state = copy.deepcopy(scheduler.state_dict())
    resumed.load_state_dict(state)
    other.load_state_dict(optimizer.state_dict())
    assert state.keys() == scheduler.state_dict().keys()
    for _ in range(4):
        for o, s in ((optimizer, scheduler), (other, resumed)):
            o.step()
            s.step()
        assert scheduler.get_last_lr() == resumed.get_last_lr()


CLOSED = ["step", "milestones", "constant", "linear", "exponential", "polynomial", "cosine", "lambda", "cyclic"]


@pytest.mark.parametrize("name", CLOSED)
def test_going_to_an_epoch(name: str):
    torch = pytest.importorskip("torch")
    seen = []
    for lib in (ft, torch):
        optimizer = optimizer_of(lib)
        scheduler = SCHEDULERS[name](lib.optim.lr_scheduler, optimizer)
        optimizer.step()
        with pytest.warns(UserWarning) as caught:
            scheduler.step(5)
        seen.append((scheduler.get_last_lr(), [str(w.message) for w in caught], caught[0].filename))
    assert seen[0] == seen[1]


def test_restarts_at_fractions_of_epochs():
    torch = pytest.importorskip("torch")
    seen = []
    for lib in (ft, torch):
        for multiple in (1, 2):
            scheduler = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer_of(lib), 3, multiple)
            for epoch in (0.5, 3, 4.25, 10.5, 1):
                scheduler.step(epoch)
                seen.append((scheduler.get_last_lr(), scheduler.T_cur, scheduler.T_i))
    assert seen[:10] == seen[10:]


@pytest.mark.parametrize("make", [SCHEDULERS[name] for name in ("step", "exponential", "linear", "cosine", "cyclic")])
def test_resuming(make: Make):
    torch = pytest.importorskip("torch")
    rates = []
    for lib in (ft, torch):
        optimizer = optimizer_of(lib)
        for group in optimizer.param_groups:
            group["initial_lr"] = 1.0
        scheduler = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.9, last_epoch=3)
        optimizer.step()
        scheduler.step()
        rates.append(scheduler.get_last_lr())
    assert rates[0] == rates[1]


# What is said when calls are out of order


def said(act: Callable[[], Any]) -> list[tuple[str, str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    return [(str(w.message), w.filename) for w in caught]


def wrong_order(lib: Any) -> None:
    lib.optim.lr_scheduler.StepLR(optimizer_of(lib), 2).step()


def replaced_step(lib: Any) -> None:
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    scheduler.step()


def get_lr_outside(lib: Any) -> None:
    lib.optim.lr_scheduler.StepLR(optimizer_of(lib), 2).get_lr()


def right_order(lib: Any) -> None:
    optimizer = optimizer_of(lib)
    scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    scheduler.step()
    scheduler.step()


@pytest.mark.parametrize("act", [wrong_order, replaced_step, get_lr_outside, right_order])
def test_warnings(act: Callable[[Any], None]):
    torch = pytest.importorskip("torch")
    own, theirs = [said(lambda lib=lib: act(lib)) for lib in (ft, torch)]
    assert [text for text, _ in own] == [text for text, _ in theirs]
    assert len(own) == (act is not right_order)
    assert all(file == __file__ for _, file in own)


def added_group(s: Any, o: Any) -> None:
    scheduler = s.ReduceLROnPlateau(o, patience=0, min_lr=[0.1, 0.1])
    o.param_groups.append(dict(o.param_groups[0]))
    scheduler.step(1.0)
    scheduler.step(1.0)


def too_many_steps(s: Any, o: Any) -> None:
    scheduler = s.OneCycleLR(o, max_lr=1.0, total_steps=2)
    for _ in range(5):
        o.step()
        scheduler.step()


REFUSED: dict[str, Make] = {
    "no optimiser": lambda s, o: s.StepLR(3, 1),
    "no optimiser for a plateau": lambda s, o: s.ReduceLROnPlateau(3),
    "no optimiser for a cycle": lambda s, o: s.CyclicLR(3, 0.1, 1.0),
    "resuming without a start": lambda s, o: s.StepLR(o, 1, last_epoch=2),
    "count of lambdas": lambda s, o: s.LambdaLR(o, [lambda e: 1.0]),
    "count of multiplicative lambdas": lambda s, o: s.MultiplicativeLR(o, [lambda e: 1.0]),
    "no function": lambda s, o: s.MultiplicativeLR(o, 3),
    "constant above 1": lambda s, o: s.ConstantLR(o, factor=2.0),
    "linear from 0": lambda s, o: s.LinearLR(o, start_factor=0),
    "linear to 2": lambda s, o: s.LinearLR(o, end_factor=2),
    "T_0": lambda s, o: s.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, T_mult=0),
    "eta_min": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1, eta_min="0"),
    "negative epoch": lambda s, o: s.CosineAnnealingWarmRestarts(o, 1).step(-1),
    "mode": lambda s, o: s.CyclicLR(o, 0.1, 1.0, mode="no"),
    "count of rates": lambda s, o: s.CyclicLR(o, [0.1], 1.0),
    "total_steps": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=0),
    "epochs": lambda s, o: s.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=1),
    "steps_per_epoch": lambda s, o: s.OneCycleLR(o, 1.0, epochs=1, steps_per_epoch=1.5),
    "no steps": lambda s, o: s.OneCycleLR(o, 1.0),
    "pct_start": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=3, pct_start=2.0),
    "strategy": lambda s, o: s.OneCycleLR(o, 1.0, total_steps=3, anneal_strategy="no"),
    "too many steps": too_many_steps,
    "no schedulers": lambda s, o: s.SequentialLR(o, [], []),
    "count of milestones": lambda s, o: s.SequentialLR(o, [s.StepLR(o, 1)], [1]),
    "no scheduler in a sequence": lambda s, o: s.SequentialLR(o, [3], []),
    "a plateau in a sequence": lambda s, o: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
    "nothing to chain": lambda s, o: s.ChainedScheduler([]),
    "a plateau in a chain": lambda s, o: s.ChainedScheduler([s.StepLR(o, 1), s.ReduceLROnPlateau(o)]),
    "factor": lambda s, o: s.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda s, o: s.ReduceLROnPlateau(o, "no"),
    "threshold mode": lambda s, o: s.ReduceLROnPlateau(o, threshold_mode="no"),
    "count of min_lr": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1]),
    "added group": added_group,
    "base": lambda s, o: s.LRScheduler(o),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_refused(make: Make):
    torch = pytest.importorskip("torch")
    own, theirs = [outcome(make, lib.optim.lr_scheduler, optimizer_of(lib)) for lib in (ft, torch)]
    assert own == theirs
    assert own.raised is not None


def test_refused_for_want_of_momentum():
    torch = pytest.importorskip("torch")
    for make in (SCHEDULERS["cyclic"], SCHEDULERS["one cycle"]):
        own, theirs = [outcome(make, lib.optim.lr_scheduler, optimizer_of(lib, "Adagrad")) for lib in (ft, torch)]
        assert own == theirs
        assert own.raised is ValueError


def test_refused_schedulers_of_another_optimizer():
    for make in (
        lambda s, o, other: s.SequentialLR(o, [s.StepLR(o, 1), s.StepLR(other, 1)], [1]),
        lambda s, o, other: s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(other, 1)]),
    ):
        with pytest.raises(ValueError, match="to belong to the same optimizer"):
            make(ft.optim.lr_scheduler, optimizer_of(ft), optimizer_of(ft))


# The plateau

METRICS = [5.0, 4.0, 4.0, 4.1, 3.9999, *[4.2] * 3, *[3.0] * 4, 3.5, *[2.0] * 6, float("nan")]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "factor": 0.5},
        {"patience": 1, "threshold": 0.5, "threshold_mode": "abs"},
        {"mode": "max", "patience": 2},
        {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 1},
        {"patience": 0, "min_lr": [0.2, 0.05], "factor": 0.5},
        {"patience": 0, "min_lr": 0.01, "eps": 0.01},
    ],
    ids=str,
)
def test_plateau(options: dict[str, Any]):
    torch = pytest.importorskip("torch")
    seen: list[Any] = [[], []]
    for i, lib in enumerate((ft, torch)):
        scheduler = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(lib), **options)
        for metric in METRICS:
            scheduler.step(lib.tensor(metric, dtype=lib.float64))
            seen[i].append((scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.in_cooldown))
        state = scheduler.state_dict()
        other = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(lib))
        other.load_state_dict(state)
        seen[i].append(sorted(state))
        seen[i].append(other.state_dict())
    assert seen[0] == seen[1]


def test_plateau_with_an_epoch():
    scheduler = ft.optim.lr_scheduler.ReduceLROnPlateau(optimizer_of(ft))
    with pytest.warns(UserWarning, match="The epoch parameter in"):
        scheduler.step(1.0, epoch=7)
    assert scheduler.last_epoch == 7


def test_a_scheduler_of_ones_own():
    class Halving(ft.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            return [rate / 2**self.last_epoch for rate in self.base_lrs]

    optimizer = optimizer_of(ft)
    scheduler = Halving(optimizer)
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    assert scheduler.get_last_lr() == [0.125, 0.025]


def test_an_optimizer_is_freed_with_its_scheduler():
    optimizer = optimizer_of(ft)
    scheduler = ft.optim.lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    seen = weakref.ref(optimizer)
    gc.collect()
    gc.disable()
    try:
        del optimizer, scheduler
        assert seen() is None
    finally:
        gc.enable()
