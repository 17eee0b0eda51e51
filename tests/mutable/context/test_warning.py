"""Where warnings are said to come from."""

import warnings

import fgrad.torch as torch


def test_a_warning_has_the_users_line_as_its_place():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _ = torch.ones(2, 3, 4).T
        torch.nn.functional.mse_loss(torch.ones(2, 1), torch.ones(2))
        torch.nn.Sequential(torch.nn.Dropout2d())(torch.ones(2, 2))
    assert [w.filename for w in caught] == [__file__] * 3
