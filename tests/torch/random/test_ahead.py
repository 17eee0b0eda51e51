"""NOTE [Numbers ahead]: what is made ahead is what would have been drawn, and any other draw makes it void."""

from collections.abc import Callable

import numpy as np
import pytest

from fgrad.torch.random.generator import Generator
from fgrad.torch.random.normal import normal

FLOAT32 = np.dtype(np.float32)
SIZES = [1024, 16, 8192, 32, 4096, 4096, 4096, 48, 8192, 8192, 8192, 1024]


def in_a_row(generator: Generator, between: Callable[[], object] = lambda: None) -> list[np.ndarray]:
    values = []
    for size in SIZES:
        values.append(normal((size,), FLOAT32, generator, 0.5, 2.0))
        between()
    return values


def test_draws_in_a_row_are_the_draws_one_by_one():
    ahead, one_by_one = Generator().manual_seed(3), Generator().manual_seed(3)

    def forget() -> None:
        one_by_one.ahead = None

    np.testing.assert_array_equal(np.concatenate(in_a_row(ahead)), np.concatenate(in_a_row(one_by_one, forget)))
    assert ahead.ahead is not None
    assert one_by_one.ahead is None
    np.testing.assert_array_equal(ahead.get_state(), one_by_one.get_state())


@pytest.mark.parametrize(
    "other",
    [
        lambda generator: generator.words(1),
        lambda generator: generator.doubles(2),
        lambda generator: normal((3,), FLOAT32, generator),
        lambda generator: generator.manual_seed(1),
        lambda generator: generator.set_state(Generator().manual_seed(5).get_state()),
    ],
)
def test_any_other_draw_makes_them_void(other: Callable[[Generator], object]):
    generator, fresh = Generator().manual_seed(3), Generator()
    for _ in range(3):
        normal((64,), FLOAT32, generator)
    assert generator.ahead is not None
    assert len(generator.ahead.numbers)
    other(generator)
    fresh.set_state(generator.get_state())
    np.testing.assert_array_equal(normal((64,), FLOAT32, generator), normal((64,), FLOAT32, fresh))


def test_looking_at_the_state_leaves_it_as_it_is():
    generator = Generator().manual_seed(3)
    before = generator.get_state()
    generator.peeked(5000)
    np.testing.assert_array_equal(generator.get_state(), before)
