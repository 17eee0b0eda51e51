"""``compare``: where two programs diverge, forward and backward."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad import errors
from fgrad.api.arguments import check_function
from fgrad.questions.alignment import (
    ALLOWED,
    UNITS,
    Measured,
    align,
    are_equal,
    distance,
    divergent,
    measured,
    paired,
    tolerance,
)
from fgrad.questions.comparison import Agreement, Comparison, Difference, Place, difference, share
from fgrad.questions.layers import layers
from fgrad.questions.programs import Side, as_numbers, run_side
from fgrad.questions.rounding import has_half

#: the extra tolerance, as a factor, for another library, whose rounding is not measured here
FOREIGN = 4


def compare(one: Any, two: Any) -> Callable[..., Comparison]:
    """A function of the arguments of two programs that finds where they diverge, forward and backward.

    Arguments:
      one, two: functions of arrays, graphs (``make_graph``, ``torch.capture``), or programs on tensors of
        ``fgrad.torch`` (functions and modules), in any mix.  ``two`` may also be a dict of gradients by the names of
        the arguments (and of parameters), such as PyTorch recorded.

    Returns:
      A function that runs both and aligns their values.  Its result has the first value that differs by more than
      rounding explains, with its lines, and how the difference grows.

    Raises:
      ValueError: the programs do not return results of equal shapes, or a name in the dict is not an argument.

    >>> import fgrad, jax.numpy as jnp
    >>> def one(x):
    ...     scale = jnp.sqrt(jnp.mean(x ** 2) + 1e-3)
    ...     return jnp.sum(jnp.sin(x / scale))
    >>> def two(x):
    ...     scale = jnp.sqrt(jnp.mean(x ** 2)) + 1e-3
    ...     return jnp.sum(jnp.sin(x / scale))
    >>> comparison = fgrad.compare(one, two)(jnp.arange(3.0))
    >>> bool(comparison), comparison.first.one.name, comparison.first.two.name
    (True, 'scale', 'scale')
    >>> bool(fgrad.compare(one, one)(jnp.arange(3.0)))
    False
    """

    check_function(one, "compare: one")
    if not isinstance(two, Mapping):
        check_function(two, "compare: two")

    def question(*args: Any, **kwargs: Any) -> Comparison:
        args, kwargs = _arrays((args, kwargs))
        left = run_side(one, args, kwargs)
        if isinstance(two, Mapping):
            return _with_recorded(left, two)
        right = run_side(two, args, kwargs)
        half = has_half(left.graph) and has_half(right.graph)
        return _compared(measured(left, half), measured(right, half))

    return question


def _arrays(tree: Any) -> Any:
    for layer in layers():
        tree = layer.arrays(tree)
    return tree


def _compared(one: Measured, two: Measured) -> Comparison:
    alignment = align(one, two)
    results = _same_results(one.side, two.side)
    gradients = _same_gradients(one.side, two.side)
    of_results = [_agreement(name, one, i, two, j) for name, i, j in results]
    of_gradients = [_agreement(f"d {name}", one, i, two, j) for name, i, j in gradients]
    pairs: list[tuple[int, int]] = []
    starts: tuple[Any, Any] = (None, None)
    for named_pairs, ends in ((results, of_results), (gradients, of_gradients)):
        ends = [(i, j) for (_, i, j), end in zip(named_pairs, ends, strict=True) if not end.equal]
        if not ends:
            continue
        lefts = divergent(one.side, alignment.there, [i for i, _ in ends if i is not None])
        rights = divergent(two.side, alignment.back, [j for _, j in ends if j is not None])
        matched = paired(one, lefts, two, rights)
        matched_ends = {i for i, _ in matched}, {j for _, j in matched}
        ends = [(i, j) for i, j in ends if i is not None and j is not None]
        matched += [(i, j) for i, j in ends if i not in matched_ends[0] and j not in matched_ends[1]]
        if starts == (None, None):
            starts = _start(one, lefts), _start(two, rights)
        pairs += [pair for pair in sorted(matched) if pair not in pairs and not are_equal(one, pair[0], two, pair[1])]
    differences = [_difference(one, i, two, j) for i, j in pairs]
    return Comparison(tuple(of_results), tuple(of_gradients), tuple(differences), starts, len(alignment.there))


def _start(of: Measured, numbers: Sequence[int]) -> Place | None:
    return _place(of.side, numbers[0]) if numbers else None


def _same_results(one: Side, two: Side) -> list[tuple[str, int, int]]:
    if len(one.outputs) != len(two.outputs):
        raise ValueError(
            f"compare: the first program returns {len(one.outputs)} arrays and the second {len(two.outputs)}. Way out: "
            "compare functions that return the same."
        )
    pairs = []
    for (name, i), (_, j) in zip(one.outputs, two.outputs, strict=True):
        shapes = [np.shape(side.values[k]) for side, k in ((one, i), (two, j))]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"compare: {name} is of shape {shapes[0]} in the first program and of shape {shapes[1]} in the second. "
                "Way out: compare functions that return the same."
            )
        pairs.append((name, i, j))
    return pairs


def _same_gradients(one: Side, two: Side) -> list[tuple[str, int | None, int | None]]:
    """The gradients that both sides have: of arguments by position, and of others by name."""
    names = list(one.gradients)
    others = list(two.gradients)
    # both have the same arguments, perhaps under different names
    positions = range(min(one.arguments, two.arguments))
    pairs = [(names[k], one.gradients[names[k]], two.gradients[others[k]]) for k in positions]
    done = {name for name, _, _ in pairs}
    for name, i in one.gradients.items():
        other = _named(name, two.gradients)
        if name not in done and other is not None:
            pairs.append((name, i, two.gradients[other]))
    return [(name, i, j) for name, i, j in pairs if i is not None or j is not None]


def _named(name: str, among: Iterable[str]) -> str | None:
    """The equivalent name: ``params['layers'][0]['w']`` and ``layers.0.w``."""
    wanted = _dotted(name)
    matches = [other for other in among if _dotted(other) == wanted]
    if not matches:
        matches = [
            other for other in among if _dotted(other).endswith(f".{wanted}") or wanted.endswith(f".{_dotted(other)}")
        ]
    if not matches:  # variables for the same kind of module may have different names
        rest = wanted.partition(".")[2]
        matches = [other for other in among if rest and _dotted(other).partition(".")[2] == rest]
    return matches[0] if len(matches) == 1 else None


def _dotted(name: str) -> str:
    return re.sub(r"\[['\"]?([^'\"\]]*)['\"]?\]", r".\1", name)


def _place(side: Side, i: int) -> Place:
    node = side.makers()[i]
    return Place(
        side.names[i],
        "argument" if node is None else node.op.name,
        None if node is None else node.source,
        i not in side.forward,
        side.values[i],
    )


def _agreement(name: str, one: Measured, i: int | None, two: Measured, j: int | None) -> Agreement:
    if i is None or j is None:
        there = one.norms[i] if i is not None else two.norms[j] if j is not None else 0.0
        return Agreement(name, 0.0 if there == 0 else 1.0 if i is None else float("inf"), there == 0)
    gap = distance(one.numbers[i].ravel(), two.numbers[j].ravel())
    return Agreement(name, share(gap, two.norms[j]), gap <= tolerance(one, i, two, j))


def _difference(one: Measured, i: int, two: Measured, j: int) -> Difference:
    return difference(
        _place(one.side, i), one.numbers[i], _place(two.side, j), two.numbers[j], tolerance(one, i, two, j)
    )


# -- recorded gradients ----------------------------------------------------------------------------------------------


def _with_recorded(side: Side, recorded: Mapping[str, Any]) -> Comparison:
    """Compare a program's gradients with those recorded from another library."""
    one = measured(side, True)
    rows = []
    for key, value in recorded.items():
        name = _named(key, side.gradients)
        if name is None:
            raise ValueError(
                f"compare: no argument is called {errors.shown(key)}. The arguments are: {', '.join(side.gradients)}."
            )
        other = as_numbers(value.detach() if hasattr(value, "detach") else value)
        i = side.gradients[name]
        computed = np.zeros(other.shape) if i is None else one.numbers[i]
        if computed.shape != other.shape:
            raise ValueError(
                f"compare: the gradient of {name} is of shape {computed.shape}, and the recorded one of {other.shape}."
            )
        gap, norm = distance(computed.ravel(), other.ravel()), float(np.linalg.norm(other))
        most = 0.0 if i is None else FOREIGN * (ALLOWED * one.spreads[i] + UNITS * one.units(i) * norm)
        agreement = Agreement(f"d {name}", share(gap, norm), gap <= most)
        place = Place(f"d {name}", "zeros", None, True, computed) if i is None else _place(side, i)
        theirs = Place(f"d {name}", "recorded", None, True, value)
        rows.append((i or 0, agreement, difference(place, computed, theirs, other, most)))
    # in the order of backward
    order = sorted(rows, key=lambda entry: entry[0])
    differences = tuple([d for _, agreement, d in order if not agreement.equal])
    agreements = tuple([agreement for _, agreement, _ in rows])
    return Comparison((), agreements, differences, (None, None), sum(agreement.equal for agreement in agreements))
