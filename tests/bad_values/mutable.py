"""The mutable layer's calls.  ``torch`` is ``fgrad.torch``, or PyTorch where it is installed; ``v`` is the bad value.

The key is ``entry: argument``.
"""

import io
from collections.abc import Callable
from typing import Any

Call = Callable[[Any, Any], Any]


def leaf(torch: Any) -> Any:
    return torch.tensor([0.5, 1.5], requires_grad=True)


def matrix(torch: Any) -> Any:
    return torch.ones(2, 3, requires_grad=True)


def custom(torch: Any, forward: Any, backward: Any) -> Any:
    """A custom function, applied and gone back through."""

    class Mine(torch.autograd.Function):
        pass

    Mine.forward, Mine.backward = staticmethod(forward), staticmethod(backward)
    x = leaf(torch)
    Mine.apply(x).sum().backward()
    return x.grad


def saving(ctx: Any, x: Any, v: Any) -> Any:
    ctx.save_for_backward(v)
    return x * 2


def marking(ctx: Any, x: Any, v: Any) -> Any:
    ctx.mark_dirty(v)
    return x * 2


def stepped(torch: Any, name: str, **options: Any) -> Any:
    """A parameter after two steps."""
    x = leaf(torch)
    optimizer = getattr(torch.optim, name)([x], **options)
    for _ in range(2):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
    return x


def hooked(torch: Any, v: Any) -> Any:
    x = leaf(torch)
    y = x * 2
    y.register_hook(lambda g: v)
    y.sum().backward()
    return x.grad


def node_hooked(torch: Any, v: Any) -> Any:
    x = leaf(torch)
    y = x * 2
    y.grad_fn.register_hook(lambda a, b: v)
    y.sum().backward()
    return x.grad


def module_hooked(torch: Any, v: Any) -> Any:
    m = torch.nn.Linear(2, 1)
    m.register_forward_hook(lambda m, a, b: v)
    return type(m(torch.ones(1, 2)))


def saved_hooked(torch: Any, pack: Any, unpack: Any) -> Any:
    x = leaf(torch)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * x
    y.sum().backward()
    return x.grad


def assigned(torch: Any, name: str, v: Any) -> Any:
    x = leaf(torch)
    setattr(x, name, v)
    return getattr(x, name)


def freed(torch: Any) -> Any:
    y = (leaf(torch) ** 2).sum()
    y.backward()
    return y


#: tensors that do not fit
TENSORS: dict[str, Callable[[Any], Any]] = {
    "leaf": leaf,
    "no leaf": lambda torch: leaf(torch) * 2,
    "freed": freed,
    "tensor of int": lambda torch: torch.tensor([0, 1]),
    "tensor of bool": lambda torch: torch.tensor([True, False]),
    "tensor of complex": lambda torch: torch.ones(2, dtype=torch.complex64),
    "empty tensor": lambda torch: torch.ones(0, 3),
    "tensor of double": lambda torch: torch.ones(3, dtype=torch.float64),
    "no dimensions": lambda torch: torch.tensor(1.0),
    "expanded": lambda torch: torch.ones(1).expand(2),
    "parameter": lambda torch: torch.nn.Parameter(torch.ones(2)),
    "module": lambda torch: torch.nn.Linear(2, 2),
    "dtype": lambda torch: torch.float32,
    "device": lambda torch: torch.device("cpu"),
    "size": lambda torch: torch.Size([2]),
}

CALLS: dict[str, Call] = {
    "tensor: data": lambda torch, v: torch.tensor(v),
    "tensor: dtype": lambda torch, v: torch.tensor([1.0], dtype=v),
    "tensor: requires_grad": lambda torch, v: torch.tensor([1.0], requires_grad=v),
    "tensor: device": lambda torch, v: torch.tensor([1.0], device=v),
    "as_tensor: data": lambda torch, v: torch.as_tensor(v),
    "from_numpy: ndarray": lambda torch, v: torch.from_numpy(v),
    "zeros: size": lambda torch, v: torch.zeros(v).shape if not isinstance(v, int) or v < 2**20 else None,
    "full: fill_value": lambda torch, v: torch.full((2,), v),
    "arange: end": lambda torch, v: torch.arange(v) if not isinstance(v, int | float) or v < 2**20 else None,
    "ones_like: input": lambda torch, v: torch.ones_like(v),
    "manual_seed: seed": lambda torch, v: torch.manual_seed(v) and None,
    "backward: self": lambda torch, v: torch.Tensor.backward(v),
    "backward: gradient": lambda torch, v: (leaf(torch) * 2).backward(v),
    "backward: retain_graph": lambda torch, v: leaf(torch).sum().backward(retain_graph=v),
    "backward: inputs": lambda torch, v: (leaf(torch) * 2).sum().backward(inputs=v),
    "autograd.backward: tensors": lambda torch, v: torch.autograd.backward(v),
    "autograd.backward: grad_tensors": lambda torch, v: torch.autograd.backward([leaf(torch) * 2], v),
    "grad: outputs": lambda torch, v: torch.autograd.grad(v, [leaf(torch)]),
    "grad: inputs": lambda torch, v: torch.autograd.grad(leaf(torch).sum(), v),
    "grad: grad_outputs": lambda torch, v: torch.autograd.grad(leaf(torch) * 2, [leaf(torch)], v, allow_unused=True),
    "grad: allow_unused": lambda torch, v: torch.autograd.grad(leaf(torch).sum(), leaf(torch), allow_unused=v),
    "requires_grad_: requires_grad": lambda torch, v: torch.ones(2).requires_grad_(v),
    "grad: assigned": lambda torch, v: assigned(torch, "grad", v),
    "data: assigned": lambda torch, v: assigned(torch, "data", v),
    "requires_grad: assigned": lambda torch, v: assigned(torch, "requires_grad", v),
    "register_hook: hook": lambda torch, v: leaf(torch).register_hook(v) and None,
    "register_hook: result": hooked,
    "grad_fn.register_hook: result": node_hooked,
    "register_post_accumulate_grad_hook: hook": lambda torch, v: (
        leaf(torch).register_post_accumulate_grad_hook(v) and None
    ),
    "register_forward_hook: result": module_hooked,
    "saved_tensors_hooks: pack": lambda torch, v: saved_hooked(torch, v, lambda x: x),
    "saved_tensors_hooks: unpack": lambda torch, v: saved_hooked(torch, lambda x: x, v),
    "saved_tensors_hooks: unpacked": lambda torch, v: saved_hooked(torch, lambda x: x, lambda x: v),
    "Function: forward": lambda torch, v: custom(torch, lambda ctx, x: v, lambda ctx, g: g),
    "Function: backward": lambda torch, v: custom(torch, lambda ctx, x: x * 2, lambda ctx, g: v),
    "Function: save_for_backward": lambda torch, v: custom(torch, lambda ctx, x: saving(ctx, x, v), lambda ctx, g: g),
    "Function: mark_dirty": lambda torch, v: custom(torch, lambda ctx, x: marking(ctx, x, v), lambda ctx, g: g),
    "Function: apply": lambda torch, v: type(
        "Mine", (torch.autograd.Function,), {"forward": staticmethod(lambda ctx, x: None)}
    ).apply(v),
    "checkpoint: function": lambda torch, v: torch.utils.checkpoint.checkpoint(v, leaf(torch), use_reentrant=False),
    "functional.jacobian: func": lambda torch, v: torch.autograd.functional.jacobian(v, leaf(torch)),
    "functional.jacobian: inputs": lambda torch, v: torch.autograd.functional.jacobian(lambda x: x * 2, v),
    "functional.vjp: v": lambda torch, v: torch.autograd.functional.vjp(lambda x: x * 2, leaf(torch), v),
    "gradcheck: inputs": lambda torch, v: torch.autograd.gradcheck(lambda x: x * 2, v),
    "func.grad: func": lambda torch, v: torch.func.grad(v)(torch.ones(())),
    "func.grad: argnums": lambda torch, v: torch.func.grad(lambda x, y: (x * y).sum(), argnums=v)(
        torch.ones(2), torch.ones(2)
    ),
    "func.grad: args": lambda torch, v: torch.func.grad(lambda x: (x * 2).sum())(v),
    "func.grad: output": lambda torch, v: torch.func.grad(lambda x: v)(torch.ones(())),
    "func.vjp: cotangent": lambda torch, v: torch.func.vjp(lambda x: x * 2, torch.ones(2))[1](v),
    "func.jvp: tangents": lambda torch, v: torch.func.jvp(lambda x: x * 2, (torch.ones(2),), v),
    "func.jvp: tangents[0]": lambda torch, v: torch.func.jvp(lambda x: x * 2, (torch.ones(2),), (v,)),
    "func.jacrev: func": lambda torch, v: torch.func.jacrev(v)(torch.ones(2)),
    "func.vmap: in_dims": lambda torch, v: torch.func.vmap(lambda x: x * 2, in_dims=v)(torch.ones(2)),
    "func.vmap: out_dims": lambda torch, v: torch.func.vmap(lambda x: x * 2, out_dims=v)(torch.ones(2)),
    "func.vmap: args": lambda torch, v: torch.func.vmap(lambda x: x * 2)(v),
    "func.functional_call: parameters": lambda torch, v: type(
        torch.func.functional_call(torch.nn.Linear(2, 1), v, torch.ones(1, 2))
    ),
    "set_grad_enabled: mode": lambda torch, v: torch.set_grad_enabled(v).__exit__(None, None, None),
    # operations
    "add: other": lambda torch, v: leaf(torch) + v,
    "radd: other": lambda torch, v: v + leaf(torch),
    "mul_: other": lambda torch, v: torch.ones(2).mul_(v),
    "pow: exponent": lambda torch, v: leaf(torch) ** v,
    "matmul: other": lambda torch, v: matrix(torch) @ v,
    "eq: other": lambda torch, v: leaf(torch) == v,
    "lt: other": lambda torch, v: leaf(torch) < v,
    "getitem: index": lambda torch, v: matrix(torch)[v],
    "setitem: index": lambda torch, v: torch.ones(2, 3).__setitem__(v, 0.0),
    "setitem: value": lambda torch, v: torch.ones(2, 3).__setitem__(0, v),
    "sum: dim": lambda torch, v: matrix(torch).sum(v),
    "sum: keepdim": lambda torch, v: matrix(torch).sum(0, keepdim=v),
    "max: dim": lambda torch, v: matrix(torch).max(v),
    "view: shape": lambda torch, v: matrix(torch).view(v),
    "reshape: shape": lambda torch, v: matrix(torch).reshape(v),
    "transpose: dim0": lambda torch, v: matrix(torch).transpose(v, 0),
    "permute: dims": lambda torch, v: matrix(torch).permute(v),
    "expand: size": lambda torch, v: torch.ones(1).expand(v).shape,
    "as_strided: size": lambda torch, v: matrix(torch).as_strided(v, (1,)),
    "unsqueeze: dim": lambda torch, v: matrix(torch).unsqueeze(v),
    "narrow: start": lambda torch, v: matrix(torch).narrow(0, v, 1),
    "chunk: chunks": lambda torch, v: matrix(torch).chunk(v),
    "split: size": lambda torch, v: matrix(torch).split(v),
    "gather: index": lambda torch, v: matrix(torch).gather(0, v),
    "index_select: index": lambda torch, v: matrix(torch).index_select(0, v),
    "masked_fill: mask": lambda torch, v: matrix(torch).masked_fill(v, 0.0),
    "masked_fill: value": lambda torch, v: matrix(torch).masked_fill(torch.ones(2, 3, dtype=torch.bool), v),
    "where: condition": lambda torch, v: torch.where(v, leaf(torch), 0.0),
    "clamp: min": lambda torch, v: leaf(torch).clamp(v),
    "cat: tensors": lambda torch, v: torch.cat(v),
    "stack: tensors": lambda torch, v: torch.stack([leaf(torch), v]),
    "einsum: equation": lambda torch, v: torch.einsum(v, leaf(torch)),
    "to: dtype": lambda torch, v: leaf(torch).to(v),
    "copy_: src": lambda torch, v: torch.ones(2).copy_(v),
    "fill_: value": lambda torch, v: torch.ones(2).fill_(v),
    "resize_: size": lambda torch, v: torch.ones(2).resize_(v).shape if not isinstance(v, int) or v < 9 else None,
    "set_: source": lambda torch, v: torch.ones(2).set_(v),
    "detach: self": lambda torch, v: torch.Tensor.detach(v),
    "sin: input": lambda torch, v: torch.sin(v),
    "softmax: dim": lambda torch, v: torch.softmax(leaf(torch), v),
    "norm: p": lambda torch, v: leaf(torch).norm(v),
    "topk: k": lambda torch, v: leaf(torch).topk(v),
    # modules and losses
    "Linear: in_features": lambda torch, v: (
        type(torch.nn.Linear(v, 1)) if not isinstance(v, int) or v < 2**20 else None
    ),
    "Linear: input": lambda torch, v: type(torch.nn.Linear(2, 1)(v)),
    "Conv2d: kernel_size": lambda torch, v: (
        type(torch.nn.Conv2d(1, 1, v)) if not isinstance(v, int) or v < 99 else None
    ),
    "Dropout: p": lambda torch, v: torch.nn.Dropout(v) and None,
    "Sequential: module": lambda torch, v: len(torch.nn.Sequential(v)),
    "register_parameter: param": lambda torch, v: torch.nn.Module().register_parameter("p", v),
    "register_buffer: name": lambda torch, v: torch.nn.Module().register_buffer(v, None),
    "load_state_dict: state_dict": lambda torch, v: torch.nn.Linear(2, 1).load_state_dict(v) and None,
    "Parameter: data": lambda torch, v: torch.nn.Parameter(v),
    "cross_entropy: target": lambda torch, v: torch.nn.functional.cross_entropy(matrix(torch), v),
    "cross_entropy: reduction": lambda torch, v: torch.nn.functional.cross_entropy(
        matrix(torch), torch.tensor([0, 1]), reduction=v
    ),
    "mse_loss: target": lambda torch, v: torch.nn.functional.mse_loss(leaf(torch), v),
    "Embedding: input": lambda torch, v: type(torch.nn.Embedding(3, 2)(v)),
    # optimisers
    "SGD: params": lambda torch, v: torch.optim.SGD(v, lr=0.1) and None,
    "SGD: lr": lambda torch, v: stepped(torch, "SGD", lr=v),
    "SGD: momentum": lambda torch, v: stepped(torch, "SGD", lr=0.1, momentum=v),
    "Adam: lr": lambda torch, v: stepped(torch, "Adam", lr=v),
    "Adam: betas": lambda torch, v: stepped(torch, "Adam", lr=0.1, betas=v),
    "Adam: eps": lambda torch, v: stepped(torch, "Adam", lr=0.1, eps=v),
    "step: closure": lambda torch, v: torch.optim.SGD([leaf(torch)], lr=0.1).step(v),
    "StepLR: step_size": lambda torch, v: torch.optim.lr_scheduler.StepLR(
        torch.optim.SGD([leaf(torch)], lr=0.1), v
    ).get_last_lr(),
    "clip_grad_norm_: max_norm": lambda torch, v: torch.nn.utils.clip_grad_norm_([leaf(torch)], v),
    # files
    "load: f": lambda torch, v: torch.load(v) if not isinstance(v, int) or v < 0 or v > 2**20 else None,
    "save: obj": lambda torch, v: torch.save(v, io.BytesIO()),
    "save: f": lambda torch, v: torch.save(torch.ones(2), v) if not isinstance(v, str | bytes | int) else None,
}
