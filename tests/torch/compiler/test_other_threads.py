"""Threads that use a call's tensors while it is recorded: they see arrays, and what they write stays."""

from threading import Thread

import pytest

import fgrad.torch as torch


def elsewhere(function):
    results = []

    def run():
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


def step_and_parameters():
    w, v = torch.ones(2, requires_grad=True), torch.full((2,), 3.0)
    optimizer = torch.optim.SGD([w], lr=0.5)
    return w, v, optimizer


@pytest.mark.parametrize("in_pieces", [False, True])
def test_another_thread_reads_arrays(in_pieces):
    w, v, optimizer = step_and_parameters()
    seen = []

    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum() + v.sum()
        seen.append(elsewhere(lambda: [w.tolist(), (w.detach() * v).sum().item(), w[1:].clone().tolist()]))
        if in_pieces and loss > 0:
            seen.append(elsewhere(lambda: [w.tolist(), (w.detach() * v).sum().item(), w[1:].clone().tolist()]))
        loss.backward()
        optimizer.step()

    compiled = torch.compile(step)
    for k in range(4):
        before = [w.tolist(), (w.detach() * v).sum().item(), w[1:].tolist()]
        count = len(seen)
        compiled(torch.ones(2))
        assert all(each == before for each in seen[count:])
        assert w.tolist() == [1 - 0.5 * (k + 1)] * 2
    assert seen


def test_what_another_thread_writes_stays():
    w, v, _ = step_and_parameters()

    def step(x):
        result = w.detach() * x
        elsewhere(lambda: v.copy_(torch.tensor([5.0, 6.0])))
        return result + v

    torch.compile(step)(torch.ones(2))
    assert v.tolist() == [5, 6]
