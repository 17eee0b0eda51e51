"""Hooks of every kind, captures, saved-tensor hooks, anomaly mode, callbacks."""

# ruff: noqa
# pyright: basic
import warnings
import fgrad.torch as torch


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


x = torch.ones(2, requires_grad=True)
# hook order
log = []
y = x * 2
y.register_hook(lambda g: log.append("y hook"))
y.retain_grad()
y.grad_fn.register_prehook(lambda g: log.append("pre"))
y.grad_fn.register_hook(lambda a, b: log.append("post"))
x.register_hook(lambda g: log.append("x hook"))
x.register_post_accumulate_grad_hook(lambda p: log.append("acc"))
y.sum().backward()
print(log)
# captures vs hooks
y = x * 3
y.register_hook(lambda g: g * 10)
z = (y * 2).sum()
print(torch.autograd.grad(z, [y, x], retain_graph=True), torch.autograd.grad(z, y, retain_graph=True))
y.grad_fn.register_prehook(lambda g: (g[0] * 7,))
print(torch.autograd.grad(z, [y, x], retain_graph=True), torch.autograd.grad(z, [y], retain_graph=True))
# multi grad hook
a = torch.ones(2, requires_grad=True)
b = torch.ones(2, requires_grad=True)
h = torch.autograd.graph.register_multi_grad_hook((a, b), lambda gs: print("multi", gs))
(a * 2 + b * 3).sum().backward()
h.remove()
h = torch.autograd.graph.register_multi_grad_hook((a, b), lambda g: print("any", g), mode="any")
(a * 2 + b * 3).sum().backward()
(a * 2).sum().backward()
E(lambda: torch.autograd.graph.register_multi_grad_hook((a, b), lambda g: 0, mode="x"))
# hook returns
E(lambda: (lambda t: (t.register_hook(lambda g: 3), t.sum().backward()))(x * 2))
E(lambda: (lambda t: (t.register_hook(lambda g: torch.ones(5)), t.sum().backward()))(x * 2))
E(lambda: (lambda t: (t.register_hook(lambda g: g.double()), t.sum().backward()))(x * 2))
E(lambda: (lambda t: (t.grad_fn.register_prehook(lambda g: ()), t.sum().backward()))(x * 2))
E(lambda: (lambda t: (t.grad_fn.register_hook(lambda a, b: (None, None, None)), t.sum().backward()))(x * 2))
with torch.autograd.graph.saved_tensors_hooks(
    lambda t: (print("pack", t.shape), t.numpy())[1] if not t.requires_grad else t.detach(),
    lambda p: (print("unpack"), torch.as_tensor(p))[1],
):
    q = x * torch.ones(2)
q.sum().backward()
with torch.autograd.graph.disable_saved_tensors_hooks("nope"):
    E(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__())
E(lambda: torch.autograd.graph.get_gradient_edge(torch.ones(2)))
ge = torch.autograd.graph.get_gradient_edge(x * 2)
print(ge)
with torch.autograd.graph.allow_mutation_on_saved_tensors():
    p = x * 2
    r = (p * p).sum()
    p.mul_(5)
    r.backward()
    print(x.grad)
torch.autograd.set_detect_anomaly(True)
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    try:
        s = torch.zeros(2, requires_grad=True)
        (s.sqrt() * 0).sum().backward()
    except Exception as e:
        print(type(e), str(e).split("\n\n")[0])
    for i in w:
        print("W", i.category, str(i.message).split(" (Triggered")[0].split("  File")[0])
torch.autograd.set_detect_anomaly(False)
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    with torch.autograd.detect_anomaly():
        pass
    print([str(i.message) for i in w])
E(lambda: torch.autograd.Variable._execution_engine.queue_callback(lambda: 0))
x.grad = None


def cb(g):
    torch.autograd.Variable._execution_engine.queue_callback(lambda: print("called", x.grad))


y = x * 2
y.register_hook(cb)
y.sum().backward()
print(torch.is_anomaly_enabled())
g = torch.autograd.grad((x * x).sum(), x, create_graph=True, materialize_grads=True)
print(g)
E(lambda: torch.autograd.grad([x.sum()], [x], is_grads_batched=True, grad_outputs=[torch.ones(3)]))
# leaves that are ready at once come in the order of a binary heap
leaves = [torch.ones(1, requires_grad=True) for _ in range(6)]
order = []
for number, leaf in enumerate(leaves):
    leaf.register_post_accumulate_grad_hook(lambda _, number=number: order.append(number))
torch.cat(leaves).sum().backward()
print(order)
# what hooks of a context pack is the tensor itself, what hooks of one saved tensor pack is none with a history
packed = []
with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
    y = (x * x).exp()
print([t is x for t in packed], packed[-1] is y, packed[-1].grad_fn is y.grad_fn)
y = x.exp()
y.grad_fn._raw_saved_result.register_hooks(lambda t: print(t.requires_grad) or t, lambda t: t)
with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
    y = x.exp()
E(y.sum().backward)


def pack(t):
    return t.mul_(2)


with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
    E(lambda: (x * 1).sin())

# an in-place view leaves hooks and the retained gradient with the node that the tensor had
for write in (lambda v: v.unsqueeze_(0), lambda v: v.t_(), lambda v: v.transpose_(0, 0), lambda v: v.mul_(2)):
    x = torch.ones(2, requires_grad=True)
    v = x * 2
    v.retain_grad()
    seen = []
    v.register_hook(lambda grad: seen.append(grad.shape))
    write(v)
    v.register_hook(lambda grad: seen.append(grad.shape))
    (v * 5).sum().backward()
    print(v.grad, x.grad, v.retains_grad, seen)

# a node takes no gradients of indices
for pick in (lambda x: x.topk(1), lambda x: x.max(0), lambda x: x.sort(), lambda x: torch.var_mean(x)):
    x = torch.arange(3.0, requires_grad=True)
    first = pick(x)[0]
    counts = []
    first.grad_fn.register_prehook(lambda grads: counts.append(len(grads)))
    first.grad_fn.register_hook(lambda grads, outer: counts.append(len(outer)))
    first.sum().backward()
    print(counts)


# a function that reads no saved tensors in backward goes backward twice
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


x = torch.ones(2, requires_grad=True)
y = Twice.apply(x)
for _ in range(2):
    y.sum().backward()
print(x.grad)
