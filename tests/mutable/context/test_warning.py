"""Where warnings are said to come from, and which come once."""

import warnings

import fgrad.torch as torch
from fgrad.mutable.context.warning import once


def _caught(*calls) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in calls:
            call()
    return caught


def test_a_warning_has_the_users_line_as_its_place():
    def program():
        torch.nn.functional.mse_loss(torch.ones(2, 1), torch.ones(2))
        torch.nn.Sequential(torch.nn.Dropout2d())(torch.ones(2, 2))

    assert [w.filename for w in _caught(program)] == [__file__] * 2


def test_a_deprecation_is_reported_once_in_a_process(monkeypatch):
    monkeypatch.setattr(once, "issued", set())
    calls = [lambda: torch.ones(2, 3, 4).T, lambda: torch.ones(3).T, lambda: torch.ones(2, 2).T]
    assert [w.filename for w in _caught(*calls)] == [__file__]
    monkeypatch.setattr(once, "always", True)
    assert len(_caught(*calls)) == 2
