"""Views explained: the base, the steps from it to the view with their lines, and the writes to the shared memory."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from attrs import frozen

from fgrad.mutable.explain.names import location, name_of, name_of_node
from fgrad.mutable.explain.wording import check_tensor, line_of, made_by, operation_of, place_of
from fgrad.mutable.tensor.storage import Write
from fgrad.mutable.tensor.tensor import DEEPEST_VIEW, Tensor, ViewOf
from fgrad.seam import Answer, RawSource, Source

#: why a view may not be written while gradients are recorded
_FORBIDDEN = {
    "no_grad": "it was made with recording off (torch.no_grad()), and is written with recording on",
    "inference": "it was made in torch.inference_mode()",
    "multi_output": "it is one of several views that one operation made",
    "custom": "it came out of a custom Function, whose backward a write would replace",
}


@frozen
class Step:
    """One step from a base to a view of it.

    Attributes:
      operation: the operation that made the view.
      shape, strides, offset: the elements of the base's memory that it shows.
      source: the user's line.
    """

    operation: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    source: Source | None


@frozen
class Written:
    """One write to the memory.

    Attributes:
      version: the version after the write.
      operation: the operation that wrote: ``add_``, ``optimizer step``.
      through: "a view" if it wrote through one.
      source: the user's line.
    """

    version: int
    operation: str
    through: str
    source: Source | None


@frozen(repr=False)
class Views(Answer):
    """What a tensor is a view of; false for a tensor that is not a view.

    Attributes:
      name: the user's name for the tensor, if known.
      base: the user's name for its base.
      base_shape: the base's shape.
      chain: the steps from the base to the tensor.
      writes: the last writes to the memory, through any view.
      version: the number of writes.
      forbidden: why it may not be written in place, if so.
    """

    name: str | None
    base: str | None
    base_shape: tuple[int, ...]
    chain: tuple[Step, ...]
    writes: tuple[Written, ...]
    version: int
    forbidden: str | None
    _lines: tuple[str, ...]

    def findings(self) -> Sequence[Step]:
        return self.chain

    def parts(self) -> Iterator[str]:
        yield "\n".join(self._lines)


def views(tensor: Tensor) -> Views:
    """Explain what a tensor is a view of: its base, each step from there with its line, and the writes to the memory.

    Arguments:
      tensor: any tensor.

    Returns:
      ``Views``, which prints as a paragraph and is false if the tensor is not a view.

    Raises:
      TypeError: it is not a tensor.

    >>> import fgrad.torch as torch
    >>> x = torch.arange(6.)
    >>> rows = x.view(2, 3)
    >>> last = rows[1]
    >>> _ = x.add_(1)
    >>> report = torch.views(last)
    >>> report.base, [(step.operation, step.shape, step.offset) for step in report.chain]
    ('x', [('view', (2, 3), 0), ('select', (3,), 3)])
    >>> [(write.version, write.operation) for write in report.writes]
    [(1, 'add_')]
    >>> bool(torch.views(x))
    False
    """
    check_tensor(tensor, "views")
    view = tensor._view
    name = _plain(name_of(tensor))
    writes = tuple([Written(w.version, w.operation, w.through, _source(w.source)) for w in writes_since(tensor, 0)])
    who = "The tensor" if name is None or name.startswith("a view of ") else name
    version = tensor._counter.value
    if view is None:
        lines = [f"{who} is not a view: it has memory of its own.", *writes_lines(tensor, 0, "Who wrote it:")]
        return Views(name, None, (), (), writes, version, None, tuple(lines))
    base = view.base
    base_name = _plain(name_of(base))
    forbidden = _FORBIDDEN.get(view.creation)
    lines = [
        f"{who}, of shape {list(tensor._type.shape)}, is a view of {base_name or 'a tensor without a name'}, "
        f"of shape {list(base._type.shape)}: they share memory.",
        *chain_lines(tensor, always=True),
        *writes_lines(tensor, 0, "Who wrote the memory:"),
    ]
    if forbidden is not None:
        lines.append(f"It may not be written while gradients are recorded: {forbidden}.")
    steps = tuple([_step(each) for each in _chain(view)])
    return Views(name, base_name, base._type.shape, steps, writes, version, forbidden, tuple(lines))


def _plain(name: str | None) -> str | None:
    return None if name is None else name.replace("'", "")


def _source(source: RawSource | None) -> Source | None:
    return None if source is None else Source(*source)


def _chain(view: ViewOf) -> list[ViewOf]:
    """The views from the base to this one, itself last."""
    chain = [view]
    while chain[-1].parent is not None:
        chain.append(chain[-1].parent)
    return chain[::-1]


def _step(view: ViewOf) -> Step:
    geometry = view.geometry
    assert geometry is not None  # every view has one
    return Step(operation_of_view(view), geometry.sizes, geometry.strides, geometry.offset, _source(view.source))


def operation_of_view(view: ViewOf) -> str:
    """The operation that made a view, by the user's name for it."""
    return view.operation.lstrip("_") or "a view"


def chain_lines(tensor: Tensor, always: bool = False) -> Iterator[str]:
    """The steps from the base to a view, with the text of each line; ``always``: also if no operation made the base."""
    view = tensor._view
    assert view is not None
    steps = _chain(view)
    base, maker = view.base, made_by(view.base)
    name = name_of(base) or (None if maker is None else name_of_node(maker)) or "a tensor without a name"
    if maker is not None:
        yield f"  {name}, of shape {list(base._type.shape)}: made by {operation_of(maker)}, at {place_of(maker)}"
        yield from [f"  {line}" for line in line_of(maker._source)]
    elif always:
        yield f"  {name}, of shape {list(base._type.shape)}"
    if len(steps) > DEEPEST_VIEW:
        yield "  ..."
    for step in steps:
        shape = list(step.geometry.sizes) if step.geometry is not None else []
        yield f"  {operation_of_view(step)}, to shape {shape}: at {location(step.source)}"
        yield from [f"  {line}" for line in line_of(step.source)]


def writes_since(tensor: Tensor, version: int) -> list[Write]:
    """The remembered writes to a tensor's memory after a version."""
    return [write for write in tensor._counter.last_writes() if write.version > version]


def writes_lines(tensor: Tensor, version: int, title: str) -> Iterator[str]:
    """The writes after a version under a title, with the text of each line; empty if there were none."""
    writes = writes_since(tensor, version)
    if writes:
        yield title
    # a loop writes again and again in one place
    for (operation, through, where), group in groupby(
        writes, lambda write: (write.operation, write.through, location(write.source))
    ):
        first, *others = group
        versions = f"versions {first.version} to {others[-1].version}" if others else f"version {first.version}"
        yield f"  {versions}: {operation}{f' through {through}' if through else ''}, at {where}"
        yield from line_of(first.source)
