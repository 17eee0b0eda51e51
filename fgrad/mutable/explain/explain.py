"""Errors about saved values: after PyTorch's text, what needs the value, what wrote it, its name, and a way out.

NOTE [Four parts]
Each of these errors begins with PyTorch's text, unchanged.  Then come: the reader, that is, the operation that needs
the value, the line that saved it, and for which gradient; every write since, with its line, version and the tensor it
went through; the user's name of the tensor, if known; and what to do, depending on the cause.
"""

from collections.abc import Iterator

from fgrad.mutable.explain.names import location, name_of
from fgrad.mutable.explain.reading import gradients_from, gradients_text
from fgrad.mutable.explain.views import chain_lines, operation_of_view, writes_lines, writes_since
from fgrad.mutable.explain.wording import forward_of, line_of, name_of_result, operation_of, place_of
from fgrad.mutable.operation.operation_node import OperationNode
from fgrad.mutable.tensor.node import TWICE, Node
from fgrad.mutable.tensor.saved import SavedTensor
from fgrad.mutable.tensor.storage import Write
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor


def _reader(saved_tensor: SavedTensor, node: Node) -> str:
    if isinstance(node, OperationNode):
        what = "its result" if saved_tensor.output else f"its operand '{saved_tensor.name}'"
        gradients = gradients_text(node, gradients_from(node, saved_tensor))
        purpose = f" to make the gradient of {gradients}" if gradients else ""
    else:
        what, purpose = "what its context saved for backward", ""
    return f"{operation_of(node)}, at {place_of(node)}, reads {what}{purpose}"


def _maker(saved_tensor: SavedTensor, node: Node) -> Node | None:
    """The node that made a saved value, before it was written."""
    if saved_tensor.output:
        return node
    tensor = saved_tensor.tensor
    node_before = None if tensor is None else tensor._node
    while node_before is not None and node_before._sequence > node._sequence:
        edge = node_before.next_edges[0] if node_before.next_edges else None
        node_before = None if edge is None else edge[0]
    return None if isinstance(node_before, AccumulateGrad) else node_before


def _named(saved_tensor: SavedTensor, node: Node) -> Iterator[str]:
    """The name of the tensor, and the line that made it if that is not the reader's."""
    tensor = saved_tensor.tensor
    assert tensor is not None
    maker = _maker(saved_tensor, node)
    name = name_of(tensor)
    if name is None and maker is not None and (variable := name_of_result(maker)) is not None:
        name = f"'{variable}'"
    if name is not None:
        yield f"The tensor is {name}."
    if maker is not None and maker is not node:
        yield f"It was made by {operation_of(maker)}, at {place_of(maker)}."
        yield from line_of(maker._source)


def _told(text: str) -> RuntimeError:
    """An error in backward whose node is explained already: see ``backward_errors.py``."""
    error = RuntimeError(text)
    error.in_backward = True  # type: ignore[attr-defined]
    return error


def changed(saved_tensor: SavedTensor, node: Node, text: str) -> RuntimeError:
    """The error of a saved value that was written since."""
    tensor = saved_tensor.tensor
    assert tensor is not None
    writes = writes_since(tensor, saved_tensor.version)
    lines = [
        text,
        "",
        f"Who needs it: {_reader(saved_tensor, node)}; saved at version {saved_tensor.version}.",
        *forward_of(node),
        *writes_lines(tensor, saved_tensor.version, "Who wrote it since:"),
        *_named(saved_tensor, node),
        f"Way out: {_way_out(saved_tensor, writes)}",
    ]
    return _told("\n".join(lines))


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


def released(node: Node) -> RuntimeError:
    """The error of a second backward through a graph that the first one freed."""
    lines = [TWICE, "", f"What was freed: the values saved by {operation_of(node)}, at {place_of(node)}."]
    lines += line_of(node._source)
    if isinstance(node, OperationNode) and isinstance(node.released, tuple):
        lines += [f"Who freed it: the backward at {location(node.released)}.", *line_of(node.released)]
    lines.append(
        "Way out: if that is a part which two backward passes share, compute it again for the second (usually: inside "
        "the loop), cut it off with detach(), or give the first pass retain_graph=True."
    )
    return _told("\n".join(lines))


#: PyTorch's text for a gradient that would be of integers
_INTEGERS = (
    "isDifferentiableType(grad.scalar_type()) INTERNAL ASSERT FAILED at "
    '"/__w/pytorch/pytorch/torch/csrc/autograd/engine.cpp":998, please report a bug to PyTorch. '
)


def integer_gradient(node: Node) -> RuntimeError:
    """The error for a gradient that would be of integers: NOTE [Integers with a history]."""
    return _told(
        f"{_INTEGERS}\n\n"
        f"A gradient came to {operation_of(node)}, at {place_of(node)}, where integers have a history: a "
        "differentiable value was written into a tensor of integers, which have no gradient.\n"
        "Way out: write into a tensor of floating-point numbers, or write the value's detach()."
    )


_LEAF = (
    "Way out: to update a parameter, write inside torch.no_grad(); to compute with a changed value, write to a copy: "
    "x.clone()."
)
#: by why the view was made
_WAYS_OUT = {
    "no_grad": "make the view and write to it on the same side of torch.no_grad().",
    "inference": "make the view and write to it on the same side of torch.inference_mode().",
    "multi_output": "take the part by itself (x[i] or x.narrow(...)) and write to that, or write out of place.",
    "custom": "clone() the output of the custom Function before writing to it.",
    "default": "write inside torch.no_grad() to update the leaf, or to a clone() to compute with it.",
}


def refused_write(tensor: Tensor, text: str) -> RuntimeError:
    """The error of a write that is not allowed."""
    lines = [text, ""]
    name = name_of(tensor)
    who = "The tensor" if name is None else f"The tensor, {name},"
    view = tensor._view
    if view is None:
        lines.append(f"{who} is a leaf: its gradient is wanted, and a write would replace the value it is wanted for.")
        return RuntimeError("\n".join([*lines, _LEAF]))
    origin = f"by {operation_of_view(view)}, at {location(view.source)}"
    base = name_of(view.base)
    lines.append(f"{who} is a view made {origin}, of {base or 'a tensor'} of shape {list(view.base._type.shape)}.")
    lines += chain_lines(tensor)
    lines += writes_lines(tensor, view.version, "Who wrote the memory since:")
    lines.append(f"Way out: {_WAYS_OUT[view.creation]}")
    return RuntimeError("\n".join(lines))


def non_leaf(tensor: Tensor, text: str) -> str:
    """The warning at ``.grad`` of a non-leaf tensor, with the operation that made it."""
    node = tensor._node  # as it stands: to read .grad must not fail because a view cannot renew its own
    if node is None:
        return text
    name = name_of(tensor)
    who = "The tensor" if name is None else f"The tensor, {name},"
    return (
        f"{text}\n\n{who} was made by {operation_of(node)}, at {place_of(node)}.\n"
        "Way out: call retain_grad() on it after that line, or read the .grad of the leaf it was made from."
    )
