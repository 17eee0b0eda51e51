"""Views in words: the base, the way to the view with its lines, and who wrote; in errors about views, too."""

import pytest

import fgrad.torch as torch


def told(write):
    with pytest.raises(RuntimeError) as caught:
        write()
    return str(caught.value)


def test_the_chain_from_the_base_with_each_line():
    weight = torch.arange(12.0, requires_grad=True)
    hidden = weight * 2
    table = hidden.view(3, 4)
    corner = table[1:, :2].t()
    found = torch.views(corner)
    assert found and (found.name, found.base, found.base_shape) == ("corner", "hidden", (12,))
    assert [(s.operation, s.shape, s.strides, s.offset) for s in found.chain] == [
        ("view", (3, 4), (4, 1), 0),
        ("slice", (2, 4), (4, 1), 4),
        ("slice", (2, 2), (4, 1), 4),
        ("t", (2, 2), (1, 4), 4),
    ]
    assert [step.source.text for step in found.chain][::3] == [
        "table = hidden.view(3, 4)",
        "corner = table[1:, :2].t()",
    ]
    assert tuple(corner.stride()) == found.chain[-1].strides and corner.storage_offset() == found.chain[-1].offset
    lines = str(found).splitlines()
    assert lines[0] == "corner, of shape [2, 2], is a view of hidden, of shape [12]: they share memory."
    assert (
        lines[1].startswith("  'hidden', of shape [12]: made by mul, at ") and lines[2] == "      hidden = weight * 2"
    )
    assert found.forbidden is None and found.writes == ()


def test_who_wrote():
    base = torch.zeros(4)
    half = base[:2]
    other = base[1:3]
    base.add_(1)
    other.mul_(5)
    found = torch.views(half)
    assert [(w.version, w.operation, w.through, w.source.text) for w in found.writes] == [
        (1, "add_", "", "base.add_(1)"),
        (2, "mul_", "a view", "other.mul_(5)"),
    ]
    assert found.version == 2 and "Who wrote the memory:\n  version 1: add_, at " in str(found)


def test_a_tensor_that_is_no_view():
    x = torch.ones(2)
    x.add_(1)
    found = torch.views(x)
    assert not found and found.base is None and len(found.writes) == 1
    assert str(found).startswith("x is not a view: it has memory of its own.\nWho wrote it:\n  version 1: add_, at ")
    with pytest.raises(TypeError, match="views takes a tensor, such as a loss, and not list"):
        torch.views([x])


def test_a_long_chain_is_remembered_in_part():
    x = torch.ones(200)
    for _ in range(150):
        x = x[:-1]
    found = torch.views(x)
    assert 0 < len(found.chain) <= 65 and found.base_shape == (200,) and found.chain[-1].shape == (50,)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda y: y.view(2, 3).unbind()[0], "it is one of several views that one operation made"),
        (lambda y: torch.no_grad()(lambda: y[1:3])(), "it was made with recording off (torch.no_grad())"),
    ],
)
def test_why_it_may_not_be_written(made, why):
    y = torch.ones(6, requires_grad=True) * 2
    part = made(y)
    found = torch.views(part)
    assert found.forbidden.startswith(why)
    text = told(lambda: part.add_(1))
    assert "The tensor, 'part', is a view made by" in text and "of 'y' of shape [6]." in text
    assert (
        "\n  'y', of shape [6]: made by mul, at" in text and "\n      y = torch.ones(6, requires_grad=True) * 2" in text
    )
    assert "Way out: " in text


def test_an_error_on_a_view_of_a_leaf_shows_the_way_to_it():
    weight = torch.zeros(2, 3, requires_grad=True)
    turned = weight.t()
    text = told(lambda: turned[0].add_(1))
    assert text.startswith("a view of a leaf Variable that requires grad is being used in an in-place operation.\n\n")
    assert "is a view made by select, at" in text and "of 'weight' of shape [2, 3]." in text
    assert "\n  t, to shape [3, 2]: at" in text and "\n      turned = weight.t()\n" in text
    assert "\n  select, to shape [2]: at" in text


def test_an_error_of_a_view_whose_base_was_written_shows_who_wrote():
    y = torch.ones(6, requires_grad=True) * 2
    first, _ = y.view(2, 3).unbind()
    y[0].mul_(3)
    text = told(lambda: first * 1)
    assert "its base or another view of its base has been modified inplace" in text
    assert "Who wrote the memory since:\n  version 1: mul_ through a view, at" in text
    assert "\n    y[0].mul_(3)\n" in text


def test_the_writes_of_a_loop_are_one():
    y = torch.ones(6, requires_grad=True) * 2
    first, _ = y.view(2, 3).unbind()
    for i in range(4):
        y[i].mul_(3)
    text = told(lambda: first * 1)
    assert "\n  versions 1 to 4: mul_ through a view, at" in text and text.count("y[i].mul_(3)") == 1


def test_a_view_out_of_a_custom_function():
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(3, requires_grad=True) * 1
    y = Same.apply(x)
    text = told(lambda: y.add_(1))
    assert "The tensor, 'y', is a view made by Same, at" in text and "\n      y = Same.apply(x)\n" in text
    assert "clone() the output of the custom Function" in text
    assert torch.views(y).forbidden.startswith("it came out of a custom Function")


def test_a_custom_function_that_writes_a_view_of_a_leaf():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    weight = torch.ones(3, requires_grad=True)
    part = weight[1:]
    text = told(lambda: Doubled.apply(part))
    assert text.startswith("a view of a leaf Variable that requires grad")
    assert "is a view made by slice, at" in text and "\n      part = weight[1:]\n" in text


def test_a_view_that_no_variable_holds():
    class Box:
        __slots__ = ("held",)

    box = Box()
    y = torch.ones(6, requires_grad=True) * 2

    def fill():
        box.held = y.view(2, 3).unbind()[0]

    fill()
    y[0].mul_(3)
    assert "is a view made by unbind, at" in told(lambda: box.held * 1)
    assert torch.views(box.held).base == "y"
