"""A program shows the same in every lane: whichever back end runs its graphs, and from the first run to the 300th."""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.run.policy import POLICIES, active
from tests import documents
from tests.lanes import LANES, in_lane, lane_of
from tests.torch import shapes
from tests.torch.mirror import Player, alike, described
from tests.torch.ops.playing import SAMPLES, assert_close, call, gradients
from tests.torch.ops.sample import Sample
from tests.torch.test_mirror import RECORDED
from tests.torch.test_programs import PROGRAMS, neutral

RECORDED_PROGRAMS = json.loads(gzip.decompress(RECORDED.read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
def test_recorded_programs(lane: str):
    """What torch showed of random programs of mutation; each lane has programs of its own."""
    for program, wanted in RECORDED_PROGRAMS[LANES.index(lane) :: 100]:
        player = Player(torch)
        with in_lane(lane):
            for at, (step, expected) in enumerate(zip(program, wanted, strict=True)):
                seen = player.play(tuple(step))
                assert alike(seen, expected), described(program, at, seen, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("lane", LANES)
def test_all_recorded_programs(lane: str):
    for program, wanted in RECORDED_PROGRAMS:
        player = Player(torch)
        with in_lane(lane):
            for at, (step, expected) in enumerate(zip(program, wanted, strict=True)):
                seen = player.play(tuple(step))
                assert alike(seen, expected), described(program, at, seen, expected)


@pytest.mark.slow
@pytest.mark.parametrize("lane", LANES)
def test_awkward_shapes(lane: str):
    """Sizes 0 and 1, operands across memory, broadcast seeds."""
    for seed in range(LANES.index(lane), 200, 40):
        with in_lane("interpreted"):
            wanted = attempt(lambda seed=seed: shapes.played(seed, torch, 3))
        with in_lane(lane):
            found = attempt(lambda seed=seed: shapes.played(seed, torch, 3))
        assert type(found) is type(wanted), (seed, found, wanted)
        if not isinstance(wanted, Exception):
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"seed {seed}")


def test_awkward_shapes_are_torchs():
    theirs = pytest.importorskip("torch")
    for seed in range(60):
        shapes.check(seed, torch, theirs)


def attempt(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (RuntimeError, IndexError) as error:
        return error


def result(sample: Sample) -> tuple[list[Any], list[Any]] | str:
    found, outs, inputs = call(torch, sample)
    if isinstance(found, Exception):
        return f"{type(found).__name__}: {found}"
    if not sample.order:
        return outs, []
    return outs, [g for each in gradients(torch, outs, inputs, min(sample.order, 1)) for g in each]


def in_turns() -> list[Any]:
    """Each sample in one lane; all but one in 121 are thorough."""
    return [
        pytest.param(
            sample,
            lane_of(zlib.crc32(f"{sample.id}{i}".encode())),
            id=f"{sample.id}-{i}",
            marks=[pytest.mark.thorough] if i % 121 else [],
        )
        for i, sample in enumerate(SAMPLES)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("sample", "lane"), in_turns())
def test_operations(sample: Sample, lane: str):
    wanted = result(sample)
    for _ in range(2):
        with in_lane(lane):
            found = result(sample)
        if isinstance(wanted, str):
            assert found == wanted
            continue
        for mine, other, tolerance in zip(found, wanted, (sample.tolerance, 10 * sample.tolerance), strict=True):
            for a, b in zip(mine, other, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    assert a.dtype == b.dtype
                    assert a.stride() == b.stride()
                    assert_close(a, b, max(tolerance, 1e-6), lane)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs(program: Path):
    """The programs that print what real torch prints, each in one lane."""
    torch.set_warn_always(True)
    try:
        with in_lane(lane_of(PROGRAMS.index(program))):
            printed = documents.program(program)
    finally:
        torch.set_warn_always(False)
    assert neutral(printed) == program.with_suffix(".txt").read_text()


# -- long loops ------------------------------------------------------------------------------------------------------

STEPS = 300


def one_output() -> Callable[[], torch.Tensor]:
    layer, x = torch.nn.Linear(4, 1), torch.randn(5, 4)
    return lambda: trained(layer, lambda: layer(x).mean() - layer(x).sum() / 9)


def trained(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
    """One step of gradient descent by hand, and the loss before it."""
    model.zero_grad()
    value = loss()
    value.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.01 * parameter.grad
    return value.detach()


def regression() -> Callable[[], torch.Tensor]:
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, y = torch.randn(7, 3), torch.randn(7, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.mse_loss(model(x), y)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def one_example() -> Callable[[], torch.Tensor]:
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid(), torch.nn.Linear(1, 3), torch.nn.LayerNorm(3))
    x, label = torch.randn(1, 2), torch.tensor([1])
    return lambda: trained(model, lambda: torch.nn.functional.cross_entropy(model(x), label))


def accumulated() -> Callable[[], torch.Tensor]:
    w = torch.nn.Parameter(torch.randn(1, 3))
    x = torch.randn(3, 2)

    def step() -> torch.Tensor:
        (w @ x @ x.t()).mean().backward()
        torch.addmm(torch.zeros(1), w, x).sum().backward()
        return w.grad / w.grad.norm()

    return step


def recurrent() -> Callable[[], torch.Tensor]:
    cell, head = torch.nn.RNNCell(2, 3), torch.nn.Linear(3, 1)
    model = torch.nn.ModuleList([cell, head])
    x = torch.randn(4, 1, 2)

    def loss() -> torch.Tensor:
        h = torch.zeros(1, 3)
        seen = torch.zeros(4, 1)
        for t in range(4):
            h = cell(x[t], h)
            seen[t] = head(h)[0]
        return (seen - 0.3).square().mean()

    return lambda: trained(model, loss)


LOOPS = (one_output, regression, one_example, accumulated, recurrent)


def losses(make: Callable[[], Callable[[], torch.Tensor]], steps: int) -> list[float]:
    torch.manual_seed(0)
    step = make()
    return [step().sum().item() for _ in range(steps)]


@pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)
def test_long_loops(make: Callable[[], Callable[[], torch.Tensor]]):
    """From the first step to the 300th, through every change of back ends."""
    with in_lane("interpreted"):
        wanted = losses(make, STEPS // 10)
    found = losses(make, STEPS)
    np.testing.assert_allclose(found[: len(wanted)], wanted, rtol=1e-3, atol=1e-4)
    assert np.isfinite(found).all()
    with in_lane("numpy"):
        np.testing.assert_allclose(losses(make, STEPS), found, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)
def test_reproducible(make: Callable[[], Callable[[], torch.Tensor]]):
    """The same inputs give the same bits at every call."""
    with in_lane("reproducible"):
        first = losses(make, 5)
        for _ in range(20):
            assert losses(make, 5) == first


def test_deterministic_algorithms_are_reproducible():
    default = active()
    torch.use_deterministic_algorithms(True)
    try:
        assert active() == POLICIES["reproducible"]
    finally:
        torch.use_deterministic_algorithms(False)
    assert active() == default


def test_a_product_turned_round_takes_broadcast_operands():
    """The seed of a mean comes with axes of size 1; its product is made the other way round."""
    with in_lane("numpy"):
        layer, x = torch.nn.Linear(4, 1), torch.ones(5, 4)
        layer(x).mean().backward()
        assert layer.weight.grad.tolist() == [[1, 1, 1, 1]]
