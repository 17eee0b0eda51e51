"""Which gradients of a pull-back are views of incoming ones, and which views."""

import numpy as np
import pytest
from jax import lax

from fgrad.mutable.layout.geometry import Geometry
from fgrad.mutable.layout.gradient_views import gradient_views
from fgrad.mutable.types.dtypes import float32
from fgrad.mutable.values.evaluation import array_type, recorded

pytestmark = pytest.mark.fast


def views_of(function, *shapes, before=0):
    types = [array_type(shape, np.dtype(np.float32)) for shape in shapes]
    return gradient_views(recorded(function, types), before)


def test_a_gradient_that_is_passed_on_is_the_incoming_one():
    assert views_of(lambda g: [g], (2, 3)) == ((0, None),)


def test_a_gradient_that_is_computed_is_no_view():
    assert views_of(lambda g: [g * 2, g], (2, 3)) == (None, (0, None))


def test_a_saved_value_is_no_gradient():
    assert views_of(lambda saved, g: [saved, g], (3,), (3,), before=1) == (None, (0, None))


@pytest.mark.parametrize(
    ("move", "sizes", "strides", "offset"),
    [
        (lambda g: lax.transpose(g, (1, 0)), (3, 2), (1, 3), 0),
        (lambda g: lax.reshape(g, (6,)), (6,), (1,), 0),
        (lambda g: lax.slice(g, (0, 1), (2, 3)), (2, 2), (3, 1), 1),
        (lambda g: lax.broadcast_in_dim(g, (4, 2, 3), (1, 2)), (4, 2, 3), (0, 3, 1), 0),
        (lambda g: lax.reshape(lax.slice(g, (1, 0), (2, 3)), (3,)), (3,), (1,), 3),
    ],
    ids=["transposed", "flat", "columns", "expanded", "a row"],
)
def test_movements_are_followed_in_the_geometry(move, sizes, strides, offset):
    ((place, motion),) = views_of(lambda g: [move(g)], (2, 3))
    assert place == 0
    found = motion(Geometry((2, 3), (3, 1), 0, float32))
    assert found == Geometry(sizes, strides, offset, float32)
    assert motion.keeps_all == (offset == 0 and int(np.prod(sizes)) >= 6)


def test_what_strides_cannot_say_is_no_view():
    ((_, motion),) = views_of(lambda g: [lax.reshape(lax.transpose(g, (1, 0)), (6,))], (2, 3))
    assert motion(Geometry((2, 3), (3, 1), 0, float32)) is None
    assert motion(Geometry((2, 3), (1, 2), 0, float32)) is not None
