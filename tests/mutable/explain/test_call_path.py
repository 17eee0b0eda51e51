"""The calls that led to a line, found again from the graph: they are those that anomaly mode has noted."""

import re
import warnings

import pytest

import fgrad.torch as torch
from fgrad.graph.source import Source
from fgrad.mutable.explain.call_path import call_path


def linear(x, p):
    return x @ p["w"] + p["b"]


def norm(x):
    return x / x.pow(2).mean().sqrt()


def attention(x, p):
    q = linear(x, p["q"])
    k, v = linear(x, p["k"]), linear(x, p["v"])
    return torch.softmax(q @ k.mT, -1) @ v


def mlp(x, p):
    h = torch.relu(linear(x, p["up"]))
    return linear(h, p["down"])


def block(x, p):
    x = x + attention(norm(x), p["attn"])
    return x + mlp(norm(x), p["mlp"])


def transformer(x):
    def layer():
        return {"w": torch.eye(2, requires_grad=True), "b": torch.zeros(2, requires_grad=True)}

    for _ in range(2):
        x = block(x, {"attn": {name: layer() for name in "qkv"}, "mlp": {"up": layer(), "down": layer()}})
    return x


def slope(y, rate):
    return -rate * y


def midpoint(y, rate, step):
    half = y + 0.5 * step * slope(y, rate)
    return y + step * slope(half, rate)


def integrated(y):
    for _ in range(3):
        y = midpoint(y, 0.3, 0.1)
    return y


def twice(y, depth):
    if depth == 0:
        return slope(y, 2.0)
    return twice(twice(y, depth - 1), depth - 1)


def recursive(y):
    return twice(y, 2)


def renamed(y):
    other = slope
    return other(other(y, 1.0), 2.0) + slope(y, 3.0)


def mapped(y):
    return sum(slope(y, rate) for rate in (1.0, 2.0))


def in_branches(y):
    made = [None, None]
    for k in (0, 1):
        if k:
            made[k] = slope(y, 1.0)
        else:
            made[k] = slope(y, 2.0)
    return y * 2 + made[0] + made[1]


def never_run(y):
    made = []
    y = y * 2
    while len(made) < 2:
        made.append(slope(y, 1.0))
        continue
    if not made:
        made.append(slope(y, 2.0))
    return y + made[0] + made[1]


def thrown_away(y):
    y = y * 2
    slope(y, 1.0)
    a = slope(y, 2.0)
    (b,) = [slope(y, rate) for rate in (3.0,)]
    return y + a + b


def by_another(y):
    return slope(y, 4.0)


def without_history(y):
    z = y.detach()
    y = y * 2
    slope(z, 1.0)
    a = by_another(y)
    b = slope(y, 2.0)
    return y + a + b


def caught(y):
    y = y * 2
    try:
        a = slope(None, 1.0)
    except TypeError:
        a = by_another(y)
    return y + a + slope(y, 2.0)


def grown(y, times):
    for _ in range(times):
        y = y.exp()
    return y


def twice_and_never(y):
    y = y * 2
    a = grown(y, 2)
    b = grown(y, 0)
    return y + a + b


def noted(node):
    """The calls as anomaly mode has them, the innermost first, without the node's own line."""
    found = [re.search(r"line (\d+), in (\S+)", entry) for entry in node._attached.forward_trace]
    return [(match[2], int(match[1])) for match in found][-2::-1]


def told(node, nodes):
    sources = [Source(*call.source) for call in call_path(node, nodes)]
    return [(source.function.split(".")[-1], source.line) for source in sources]


@pytest.mark.parametrize(
    ("program", "least"),
    # what runs no operation itself, as ``integrated``, cannot be found
    [(transformer, 0.9), (integrated, 0.3), (recursive, 0.0), (renamed, 0.0), (mapped, 0.0)]
    + [(each, 0.0) for each in (in_branches, never_run, thrown_away, without_history, caught, twice_and_never)],
)
def test_no_call_is_told_that_was_not_there(program, least):
    with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
        warnings.simplefilter("ignore")
        y = program(torch.ones(2, 2, requires_grad=True))
    nodes, todo = set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node not in nodes and node._source is not None:
            nodes.add(node)
            todo += [each[0] for each in node.next_functions if each[0] is not None]
    found = 0
    inner = [node for node in nodes if noted(node)[0][0] != "test_no_call_is_told_that_was_not_there"]
    for node in inner:
        calls = told(node, list(nodes))
        assert calls == noted(node)[: len(calls)]
        found += bool(calls)
    assert found >= least * len(inner)


def test_an_error_of_a_line_that_ran_many_times_tells_the_calls():
    def grown(v):
        return torch.exp(v)

    def program(y):
        first = grown(y * 2)
        second = grown(first * 0.5)
        second += 1
        return grown(second * 0.1).sum()

    with pytest.raises(RuntimeError) as caught:
        program(torch.ones(2, requires_grad=True)).backward()
    text = str(caught.value)
    assert "(run 2 of the 3 of this line in the graph)\n  called at " in text
    assert "\n    second = grown(first * 0.5)\n" in text
    assert "The tensor is 'second'." in text


def test_what_may_have_led_to_a_line_is_told_as_such():
    def scaled(v):
        return v.exp()

    def layer(v):
        first = scaled(v)
        first += 1
        return first

    with pytest.raises(RuntimeError) as caught:
        layer(layer(torch.ones(2, requires_grad=True))).sum().backward()
    text = str(caught.value)
    assert "\n  may have been called at " in text and "\n    first = scaled(v)\n" in text
