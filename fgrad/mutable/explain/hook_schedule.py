"""What backward will run, in which order, and who registered it."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.backward.order import order
from fgrad.mutable.explain.names import location, module_path, name_of, names_of_results
from fgrad.mutable.explain.wording import check_tensor
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.hooks import registered_at
from fgrad.mutable.tensor.node import Attached, Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_edge
from fgrad.seam import Answer, Table, is_hidden


@frozen
class Entry:
    """One node or hook that will run.

    Attributes:
      kind: "node"; "tensor hook", "retain_grad", "pre-hook" (of a node) and "unpack hook" (of a saved tensor) before
        it; "post-hook" and "post-accumulate hook" after it; "module pre-hook" and "module hook" where these are a
        module's full backward hooks.
      name: the node's name, or the hook function's.
      of: what the user calls the tensor, the parameter or the result of the node's operation; the class of a module.
      module: the path of the module in which the node's operation ran, if any.
      line: for a node the line of its operation, for a hook the line where its function is defined.
      registered: for a hook the line that registered it; known for the last 16384 registrations.
      node: the node.
      hook: the function; None of a node.
    """

    kind: str
    name: str
    of: str
    module: str
    line: str
    node: Any
    hook: Any = None
    registered: str = ""


@frozen(repr=False, str=False)
class Schedule(Answer):
    """What backward will run, in this order.  False if that is nodes alone.

    Attributes:
      entries: what will run, in order.
    """

    entries: tuple[Entry, ...]

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The nodes alone, in order."""
        return tuple([entry.node for entry in self.entries if entry.kind == "node"])

    @property
    def hooks(self) -> tuple[Entry, ...]:
        """All but the nodes, in order."""
        return tuple([entry for entry in self.entries if entry.kind != "node"])

    def findings(self) -> Sequence[Entry]:
        return self.hooks

    def parts(self) -> Iterator[str | Table]:
        rows = [
            (n, x.kind if x.kind == "node" else f"  {x.kind}", x.name, x.of, x.module, x.line, x.registered)
            for n, x in enumerate(self.entries, 1)
        ]
        yield Table(("#", "what", "name", "of", "module", "line", "registered at"), rows)


def hook_schedule(loss: Tensor) -> Schedule:
    """List what ``loss.backward()`` will run: nodes in the engine's order, each with the hooks before and after it.

    Nothing runs now.  A hook that changes other hooks, or a call of backward with ``inputs=``, changes what will run.

    Raises:
      RuntimeError: the tensor has no history.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1., 2.], requires_grad=True)
    >>> handle = w.register_hook(lambda grad: grad * 2)
    >>> h = w.exp()
    >>> h.retain_grad()
    >>> [(entry.kind, entry.name) for entry in torch.hook_schedule(h.sum()).entries][:4]
    [('node', 'SumBackward0'), ('retain_grad', 'h'), ('node', 'ExpBackward0'), ('tensor hook', '<lambda>')]
    """
    check_tensor(loss, "hook_schedule")
    edge = gradient_edge(loss)
    if edge is None:
        raise RuntimeError(
            "hook_schedule: the tensor does not require grad and has no grad_fn, so backward will run nothing. "
            "torch.why_no_grad(tensor) says why."
        )
    entries: list[Entry] = []
    nodes = order([edge[0]])
    names = names_of_results(nodes)
    for node in nodes:
        leaf = name_of(node.variable) if isinstance(node, AccumulateGrad) else None
        entries += _of_node(node, (leaf or names.get(node, "")).replace("'", ""))
    return Schedule(tuple(entries))


def _of_node(node: Node, called: str) -> Iterator[Entry]:
    """A node and its hooks, in the order of NOTE [Hook order]."""
    path = module_path(node)

    def entries(kind: str, hooks: Mapping[int, Any] | None, of: str = called) -> Iterator[Entry]:
        for id, hook in list((hooks or {}).items()):
            # a hook that a module registers stands for the module's own
            behind = getattr(hook, "behind", None)
            for each, function, what, handle in [(kind, hook, of, id)] if behind is None else behind():
                at = registered_at(handle)
                yield _of_hook(each, function, what, path, node, "" if at is None else location(at))

    if isinstance(node, AccumulateGrad):
        yield from entries("tensor hook", node.variable._tensor_hooks)
    attached = node._attached or Attached()
    for hooks, _ in attached.tensor_hooks or ():
        yield from entries("tensor hook", hooks)
    for _ in attached.retains or ():
        yield Entry("retain_grad", called, called, path, location(node._source), node)
    yield from entries("pre-hook", attached.pre_hooks)
    for saved in node.saved if isinstance(node, OperationNode) else getattr(node, "_saved", ()):
        if isinstance(saved, SavedTensor) and saved.hooks is not None:
            yield _of_hook("unpack hook", saved.hooks[1], saved.name, path, node)
    line = "" if isinstance(node, AccumulateGrad) else location(node._source)
    yield Entry("node", type(node).__name__, called, path, line, node)
    yield from entries("post-hook", attached.post_hooks)
    if isinstance(node, AccumulateGrad):
        yield from entries("post-accumulate hook", node.variable._post_accumulate_grad_hooks)


def _of_hook(kind: str, hook: Any, of: str, path: str, node: Node, registered: str = "") -> Entry:
    user = _users(hook)
    name = getattr(user, "__name__", type(user).__name__)
    return Entry(kind, name, of, path, _line(user), node, hook, registered)


def _users(hook: Any) -> Any:
    """The user's function behind a hook: behind a decorator, a ``partial``, or a wrapper of ours."""
    functions = [hook]
    for each in functions:
        each = inspect.unwrap(each)
        code = getattr(each, "__code__", None)
        if code is not None and not is_hidden(code):
            return each
        inside = [each, *(cell.cell_contents for cell in getattr(each, "__closure__", None) or ())]
        inner = [*inside, *(getattr(x, name, None) for x in inside for name in ("func", "__func__", "hook", "fn"))]
        functions += [
            x for x in inner if callable(x) and not isinstance(x, type) and all(x is not y for y in functions)
        ]
    return hook


def _line(hook: Any) -> str:
    """Where a hook's function is defined."""
    code = getattr(hook, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}, in {code.co_qualname}"
