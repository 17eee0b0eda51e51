"""Bookkeeping stands with the operation that it is for."""

import jax
import jax.numpy as jnp
import pytest

import fgrad
import fgrad.torch as torch


def boxes(drawing) -> list[tuple[str, str]]:
    """The operations forward and backward."""
    return [(row[1], row[3]) for row in drawing.table().rows if row[1]]


def test_an_index_is_part_of_what_it_reads():
    def f(x, i):
        return x[i] * x[-1]

    found = boxes(fgrad.draw(f)(jnp.ones(3), 1))
    assert found == [("dynamic_slice", "d dynamic_slice"), ("slice", "d slice"), ("mul", "d mul"), ("f", "d f / d f")]


def test_a_mask_and_a_table():
    def f(table, rows):
        found = table[rows]
        return jnp.sum(jnp.where(found > 0, found, 0.0))

    forward = [box for box, _ in boxes(fgrad.draw(f)(jnp.ones((4, 2)), jnp.array([1, 2])))]
    assert forward == ["gather", "gt(·, 0.0)", "select_n", "reduce_sum", "f"]


def test_broadcasting_is_part_of_the_sum():
    def f(x, b):
        return jnp.sum(x + b)

    drawing = fgrad.draw(f)(jnp.ones((2, 3)), jnp.ones(3))
    assert boxes(drawing) == [("add", "d add"), ("reduce_sum", "d reduce_sum"), ("f", "d f / d f")]
    assert [row[4] for row in drawing.table().rows if row[4]] == ["d f / d x", "d f / d b"]


def test_a_bias_of_a_layer():
    drawing = torch.draw(torch.nn.Linear(2, 3)(torch.ones(4, 2)).sum())
    assert [backward for _, backward in boxes(drawing)] == [
        "d transpose", "d dot_general", "d add", "d reduce_sum", "d output / d output"
    ]  # fmt: skip


def test_what_has_a_name_or_a_line_of_its_own_is_drawn():
    def f(x, b):
        wide = jnp.broadcast_to(b, (2, 3))
        flat = x.reshape(2, 3)
        return jnp.sum(
            jax.lax.reshape(
                flat + wide,
                (3, 2),
            )
            * jnp.ones((3, 2))
        )

    forward = [box for box, _ in boxes(fgrad.draw(f)(jnp.ones(6), jnp.ones(3)))]
    assert {"broadcast_in_dim", "reshape"} < set(forward)


def test_what_stops_a_gradient_and_casts_are_drawn():
    def f(x):
        return jnp.sum(jax.lax.stop_gradient(x) * x.astype(jnp.float16))

    forward = [box for box, _ in boxes(fgrad.draw(f)(jnp.ones(3)))]
    assert "stop_gradient" in forward
    assert "convert_element_type [f16]" in forward


def test_parameters_say_what_is_computed():
    def f(x):
        return jnp.sum(jnp.sum(x**3, axis=1))

    assert [box for box, _ in boxes(fgrad.draw(f)(jnp.ones((2, 3))))] == [
        "integer_pow [y=3]", "reduce_sum [axes=(1,)]", "reduce_sum", "f"
    ]  # fmt: skip


def test_a_function_with_a_rule_of_its_own_is_its_name():
    x = torch.ones(3, requires_grad=True)
    drawing = torch.draw((x**3).sum())
    assert boxes(drawing)[0] == ("pow", "d pow")
    assert "for pow  12 B" in [row[2] for row in drawing.table().rows]


@pytest.mark.parametrize("index", [0, slice(1, None), (slice(None), 1)], ids=str)
def test_an_element_of_a_tensor(index):
    x = torch.ones(2, 3, requires_grad=True)
    operations = [forward for forward, _ in boxes(torch.draw(x[index].sum()))]
    assert len(operations) == 3
    assert operations[1:] == ["reduce_sum", "output"]


def test_a_gradients_gradient_is_called_by_its_name():
    def f(x):
        return jnp.sin(x * x)

    drawing = fgrad.draw(fgrad.grad(f))(jnp.float32(0.5))
    assert drawing.ladder.arguments[0].name == "d (d f / d x) / d x"
    assert not [name for name in drawing.ladder.names if "slope of mul" in name]
    assert all(row[3] for row in drawing.table().rows if row[1])
