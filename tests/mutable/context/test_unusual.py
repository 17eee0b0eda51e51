"""The one flag that says whether operations have to ask for rare modes: on while a thread is in one of them."""

import threading

import pytest

import fgrad.torch as torch
from fgrad.mutable.context.modes import unusual


def double(x):
    return x * 2


def in_a_thread(work):
    """What a function gives in a thread of its own, which has set no mode."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_the_first_operation_after_a_block_finds_that_it_is_over():
    def work():
        with torch.inference_mode():
            within = unusual.on and threading.get_ident() in unusual.threads
        double(torch.ones(2))
        return within, threading.get_ident() in unusual.threads

    assert in_a_thread(work) == (True, False)


def test_a_mode_set_back_for_a_block_is_there_again_behind_it():
    x = torch.ones(2)
    with torch.inference_mode():
        with torch.inference_mode(False):
            assert not double(x).is_inference()
        assert double(x).is_inference()
    assert not double(x).is_inference()


def test_what_a_function_sets_lasts():
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    torch.inplace("snapshot")
    try:
        with torch.inplace("strict"):
            double(y)
        kept = x * y
        y.add_(1)
        kept.sum().backward()
    finally:
        torch.inplace("strict")
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "switch, on, off",
    [
        (torch.autograd.set_detect_anomaly, True, False),
        (torch.inplace, "snapshot", "strict"),
        (torch.compat, "1.x", "2.13"),
    ],
)
def test_what_functions_set_and_set_back_is_over(switch, on, off):
    def work():
        switch(on)
        double(torch.ones(2))
        switch(off)
        double(torch.ones(2))
        return threading.get_ident() in unusual.threads

    assert not in_a_thread(work)


def test_a_level_set_aside_is_found_again():
    x, tangent = torch.ones(2), torch.full((2,), 3.0)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, tangent)
        for _ in range(2):
            found = torch.autograd.forward_ad.unpack_dual(double(dual)).tangent
            assert found.tolist() == [6.0, 6.0]


def test_the_modes_of_one_thread_are_not_those_of_another():
    inside, done = threading.Event(), threading.Event()
    found = []

    def work():
        with torch.inference_mode():
            inside.set()
            done.wait()
            found.append(double(torch.ones(2)).is_inference())

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    assert not double(torch.ones(2)).is_inference()
    done.set()
    thread.join()
    assert found == [True]
