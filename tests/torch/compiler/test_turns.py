"""Calls that are not one program: in pieces or uncompiled, whichever is faster."""

import pytest

import fgrad
import fgrad.torch as torch
from fgrad.run.policy import active
from fgrad.torch.compiler.turns import WARM_UP, Turns


def ways(monkeypatch, seconds):
    """The ways of so many calls as last so long in pieces, and uncompiled."""
    clock, taken, turns = [0.0], [], Turns()
    monkeypatch.setattr("fgrad.torch.compiler.turns.time.perf_counter", lambda: clock[0])

    def way(which):
        def run():
            taken.append(which)
            clock[0] += seconds[which]
            return len(taken)

        return run

    for k in range(1, 31):
        assert turns.run(way(0), way(1)) == k
    return taken


@pytest.mark.parametrize("faster", [0, 1])
def test_the_faster_way_is_taken(faster, monkeypatch):
    count = active().turns
    taken = ways(monkeypatch, (1.0, 2.0) if faster == 0 else (2.0, 1.0))
    first = [0] * (WARM_UP + count) + [1] * count
    assert taken == first + [faster] * (30 - len(first))


@pytest.mark.parametrize("policy", ["reproducible", "compiled"])
def test_no_time_decides_under_other_policies(policy, monkeypatch):
    with fgrad.policy(policy):
        assert ways(monkeypatch, (2.0, 1.0)) == [0] * 30


def test_both_ways_have_the_same_effects():
    def trained(way):
        w, total = torch.ones(3, requires_grad=True), [0.0]
        optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

        @way
        def step(x):
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            total[0] += float(loss.detach())
            return loss.detach()

        losses = [step(torch.full((3,), 0.5 + k % 3)).item() for k in range(30)]
        return losses, total, w.tolist(), w._version, step

    *found, step = trained(torch.compile)
    *expected, _ = trained(lambda f: f)
    torch.testing.assert_close(found, expected)
    programs = [program for each in step._compiled.programs.values() for program in each]
    assert all(program.breaks for program in programs) and max(program.turns.calls for program in programs) > 20
