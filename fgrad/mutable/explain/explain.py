"""Errors that explain themselves: after PyTorch's sentence, who needs the value, who wrote it, its name, and a way out.

NOTE [Four parts]
Each of these errors begins with PyTorch's text, unchanged.  Then come: the reader, that is, which operation needs the
value, on which line it was saved and what for; every write since, with its line and version and what it came through;
the user's name of the tensor, where one can be found; and what to do, chosen from the cause.
"""

from collections.abc import Iterator

from fgrad.mutable.explain.names import name_of, place
from fgrad.mutable.operation import operation_node
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor import saved
from fgrad.mutable.tensor.node import TWICE, Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.storage import Write
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.write import inplace


def _shown(write: Write) -> str:
    through = f" through {write.through}" if write.through else ""
    return f"  version {write.version}: {write.operation}{through}, at {place(write.source)}"


def _writes(tensor: Tensor, since: int) -> Iterator[Write]:
    for write in tensor._counter.writes or ():
        if write.version > since:
            yield write


def _reader(saved_tensor: SavedTensor, node: Node) -> str:
    what = "its result" if saved_tensor.output else f"its operand '{saved_tensor.name}'"
    wanted = ""
    if isinstance(node, OperationNode):
        names = node.plan.operation.operands
        present = node.plan.present
        for_ = dict.fromkeys(f"'{names[min(present[i], len(names) - 1)].lstrip('*')}'" for i in node.pullback.wanted)
        wanted = f" to make the gradient of {' and '.join(for_)}"
    return f"{_operation(node)}, at {place(node.source)}, reads {what}{wanted}"


def _operation(node: Node) -> str:
    return node.plan.operation.name if isinstance(node, OperationNode) else node.name()


def _changed(saved_tensor: SavedTensor, node: Node, text: str) -> RuntimeError:
    tensor = saved_tensor.tensor
    assert tensor is not None
    writes = list(_writes(tensor, saved_tensor.version))
    name = name_of(tensor)
    lines = [
        text,
        "",
        f"Who needs it: {_reader(saved_tensor, node)}; saved at version {saved_tensor.version}.",
        "Who wrote it since:",
        *map(_shown, writes),
    ]
    if name is not None:
        lines.append(f"The tensor is {name}.")
    lines.append(f"Way out: {_way_out(saved_tensor, writes)}")
    return RuntimeError("\n".join(lines))


def _way_out(saved_tensor: SavedTensor, writes: list[Write]) -> str:
    operations = {w.operation for w in writes}
    if "optimizer step" in operations:
        cure = (
            "an optimiser changed the parameters between the forward computation and this backward. Call backward() "
            "before optimizer.step(), or compute the output again after the step."
        )
    elif "embedding_renorm_" in operations:
        cure = (
            "an embedding with max_norm writes its weight when it is called. Use weight.clone() in what was computed "
            "before, or call the embedding first."
        )
    elif saved_tensor.output:
        cure = (
            "the operation keeps its own result, so write to a copy: y = y + 1 instead of y += 1, or y = y.clone() "
            "before the write."
        )
    else:
        cure = "write to a copy (x = x.clone() before the write, or x = x + 1 instead of x += 1), or write earlier."
    return (
        f'{cure} With fgrad.torch.inplace("snapshot") saved values stay as they were and the gradient is simply right.'
    )


def _twice(node: Node) -> RuntimeError:
    lines = [TWICE, "", f"What was freed: the values saved by {_operation(node)}, at {place(node.source)}."]
    if isinstance(node, OperationNode) and isinstance(node.released, tuple):
        lines.append(f"Who freed it: the backward at {place(node.released)}.")
    lines.append(
        "Way out: if that is a part which two backward passes share, compute it again for the second (usually: inside "
        "the loop), cut it off with detach(), or give the first pass retain_graph=True."
    )
    return RuntimeError("\n".join(lines))


def _integers(node: Node) -> RuntimeError:
    return RuntimeError(
        f"{operation_node.INTEGERS}\n\n"
        f"A gradient came to {_operation(node)}, at {place(node.source)}, where integers have a history: a "
        "differentiable value was written into a tensor of integers, which have no gradient.\n"
        "Way out: write into a tensor of floating-point numbers, or write the value's detach()."
    )


def _write(tensor: Tensor, text: str) -> RuntimeError:
    lines = [text, ""]
    name = name_of(tensor)
    who = "The tensor" if name is None else f"The tensor, {name},"
    view = tensor._view
    if view is None:
        lines.append(f"{who} is a leaf: its gradient is wanted, and a write would replace the value it is wanted for.")
        lines.append(
            "Way out: to update a parameter, write inside torch.no_grad(); to compute with a changed value, write to a "
            "copy: x.clone()."
        )
        return RuntimeError("\n".join(lines))
    made = f"by {view.operation}, at {place(view.source)}" if view.operation else "by a custom Function"
    base = name_of(view.base)
    lines.append(f"{who} is a view made {made}, of {base or 'a tensor'} of shape {list(view.base._type.shape)}.")
    ways = {
        "no_grad": "make the view and write to it on the same side of torch.no_grad().",
        "inference": "make the view and write to it on the same side of torch.inference_mode().",
        "multi_output": "take the part by itself (x[i] or x.narrow(...)) and write to that, or write out of place.",
        "custom": "clone() the output of the custom Function before writing to it.",
    }
    lines.append(
        "Way out: "
        + ways.get(
            view.creation, "write inside torch.no_grad() to update the leaf, or to a clone() to compute with it."
        )
    )
    return RuntimeError("\n".join(lines))


def non_leaf(tensor: Tensor, text: str) -> str:
    """The warning at ``.grad`` of a tensor that is no leaf, with who made it."""
    node = tensor._grad_fn  # as it stands: to read .grad must not fail because a view cannot renew its own
    if node is None:
        return text
    name = name_of(tensor)
    who = "The tensor" if name is None else f"The tensor, {name},"
    return (
        f"{text}\n\n{who} was made by {_operation(node)}, at {place(node.source)}.\n"
        "Way out: call retain_grad() on it after that line, or read the .grad of the leaf it was made from."
    )


saved.explanation.changed = _changed
operation_node.explanation.twice = _twice
operation_node.explanation.integers = _integers
inplace.explanation.write = _write
