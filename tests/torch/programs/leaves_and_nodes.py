"""Leaves, nodes and saved tensors in corners: what may be deleted, called, detached, replaced."""

import copy
import pickle
import warnings

import fgrad.torch as torch
from fgrad.torch.autograd import Variable, forward_ad


def show(name, call):
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            found = call()
        except (RuntimeError, TypeError) as error:
            found = f"{type(error).__name__}: {error}".split("\n\n")[0]
    kinds = (UserWarning, FutureWarning)
    said = [str(w.message).split(" (Triggered")[0] for w in met if issubclass(w.category, kinds)]
    print(f"{name}: {found}", *said, sep="\n  ")


def leaf():
    return torch.ones(2, requires_grad=True)


# -- old names

for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks"):
    show(f"del {name}", lambda name=name: delattr(torch.ones(2), name))
show("volatile", lambda: torch.ones(2).volatile)
show("set volatile", lambda: setattr(torch.ones(2), "volatile", True))
show("Variable", lambda: (Variable(torch.ones(2), requires_grad=True), isinstance(torch.ones(2), Variable)))
show("Variable of a result", lambda: Variable(leaf() * 2))
show("Variable of a list", lambda: Variable([1.0]))
show("Variable of integers", lambda: Variable(torch.ones(2).long(), requires_grad=True))
show("Variable, volatile", lambda: Variable(torch.ones(2), volatile=True))


def decorated():
    @torch.no_grad()
    class Made:
        def __init__(self):
            print(torch.is_grad_enabled())

    Made()
    return type(Made).__name__


show("a decorated class", decorated)

# -- nodes called

x = leaf()
show("one gradient", lambda: (x**2).grad_fn(torch.ones(2)))
show("two results", lambda: (x * x).grad_fn(torch.ones(2)))
show("no gradient", lambda: (x**2).grad_fn())
show("too many", lambda: (x**2).grad_fn(torch.ones(2), torch.ones(2)))
show("a number", lambda: (x**2).grad_fn(3))
show("another shape", lambda: (x * x).grad_fn(torch.ones(3)))
show("a leaf's, another shape", lambda: (x**2).grad_fn.next_functions[0][0](torch.ones(3)))
show("a leaf's", lambda: ((x**2).grad_fn.next_functions[0][0](torch.ones(2)), x.grad))
print(x.sum(-1).grad_fn._saved_dim, torch.topk(x, 1).values.grad_fn._saved_dim)

# -- targets of grad

y = leaf()
show("no targets", lambda: torch.autograd.grad(x.sum(), []))
show("zeros", lambda: torch.autograd.grad(x.sum(), y, materialize_grads=True))
show("zeros to differentiate", lambda: torch.autograd.grad(x.sum(), y, materialize_grads=True, create_graph=True))
edge = torch.autograd.graph.get_gradient_edge(y.clone())
show("zeros of an edge", lambda: torch.autograd.grad(x.sum(), edge, allow_unused=True, materialize_grads=True))


def recorded():
    z = leaf()
    (z * z).backward(torch.ones(2), create_graph=True)
    names = [None if node is None else node.name() for node, _ in z.grad.grad_fn.next_functions]
    return z.grad.grad_fn.name(), names, z.grad._version


recorded()  # the warning comes once in a process
show("a recorded gradient", recorded)


def by_columns(create_graph):
    z = torch.ones(2, 3).t().requires_grad_()
    (z * 2).sum().backward(create_graph=create_graph)
    return z.grad.stride()


show("a gradient lies as its leaf", lambda: (by_columns(False), by_columns(True)))


def narrow_seed():
    z = torch.ones(2, dtype=torch.float64, requires_grad=True)
    made = z * 3
    met = []
    made.register_hook(lambda grad: met.append(grad.dtype))
    made.backward(torch.ones(2))
    return met, z.grad.dtype


show("a gradient of another type", narrow_seed)

for given in (lambda t: t, lambda t: t.grad, lambda t: 3):

    def after(given=given):
        z = leaf()
        z.register_post_accumulate_grad_hook(given)
        z.sum().backward()

    show("what a hook returns", after)

# -- leaves changed meanwhile


def changed(how):
    z = leaf()
    made = z * 2
    with torch.no_grad():
        how(z)
    return torch.autograd.grad(made.sum(), z)


show("data", lambda: changed(lambda z: setattr(z, "data", torch.zeros(2))))
show("data of another type", lambda: changed(lambda z: setattr(z, "data", torch.zeros(2, dtype=torch.float64))))
show("set_", lambda: changed(lambda z: z.set_(torch.zeros(2))))


def frozen():
    z = leaf()
    made = z.sin()
    z.requires_grad_(False)
    made.sum().backward()
    return z.grad


show("a leaf that requires grad no more", frozen)


def detached(read):
    z = leaf().clone()
    made = z.sin()
    z.detach_()
    return read(made)


show("detached", lambda: detached(lambda made: made.sum().backward()))
show("detached, looked at", lambda: detached(lambda made: made.grad_fn._saved_self))

# -- modes


def without(call):
    with torch.no_grad():
        return call()


show("numpy", lambda: leaf().numpy())
show("numpy in no_grad", lambda: without(lambda: leaf().numpy()))
with torch.inference_mode():
    made = torch.ones(2, 3)
    asked = torch.ones(2, requires_grad=True)
print(torch.is_inference(made), asked.view(2, 1).requires_grad)
show("t_", lambda: made.t_())
show("resize_", lambda: made.resize_(3))
show("set_", lambda: made.set_(torch.ones(2)))
with torch.inference_mode():
    history = torch.ones(2, requires_grad=True) * 2
outside = torch.ones(3, requires_grad=True) * 2
with torch.inference_mode():
    print([(x.detach_().requires_grad, x.grad_fn is None) for x in (outside, outside[:2], history)])
torch.autograd.graph.increment_version(made)
print(torch.autograd.is_multithreading_enabled())


def twice_differentiated():
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        z = torch.full((2,), 0.5, requires_grad=True)
        copy = z.clone()
        made = (copy**3).sum()
        copy.sin_()
        (grad,) = torch.autograd.grad(made, z, create_graph=True)
        grad.sum().backward()
        return z.grad


show("written, twice differentiated", twice_differentiated)

# -- forward mode

with forward_ad.dual_level() as level:
    dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
    show("a tangent with a tangent", lambda: forward_ad.make_dual(torch.ones(2), dual))
    show("out=", lambda: torch.add(dual, 1, out=torch.ones(2)))
    with forward_ad._set_fwd_grad_enabled(False):
        print(forward_ad.unpack_dual(dual * 2).tangent, forward_ad._is_fwd_grad_enabled())
    show("another level", lambda: forward_ad.exit_dual_level(level=level + 1))
    flat = dual.reshape(1, 2).clone().reshape(2)
    print(forward_ad.unpack_dual(torch.kron(flat, flat)).tangent)
print(forward_ad._current_level)
# gradients beyond the tensors are not looked at
x = torch.ones(2, requires_grad=True)
torch.autograd.backward([x.sum()], [torch.tensor(1.0), torch.tensor(2.0)])
torch.autograd.backward([], [torch.tensor(1.0)])
print(x.grad, torch.autograd.grad([x.sum()], x, [None, torch.tensor(2.0)]))
show("fewer", lambda: torch.autograd.backward([x.sum(), x.sum()], [torch.tensor(1.0)]))
# a view that has got a history by a write to its base is a leaf to retain_grad
base = torch.ones(3)
view = base[1:]
base.mul_(torch.ones(3, requires_grad=True))
view.retain_grad()
print(view.retains_grad, view.grad_fn is None)
# of several values that were written, the first by its operand's name is told of
x = torch.ones(3, requires_grad=True)
for f in (torch.mul, torch.div, torch.hypot, torch.vdot, torch.dot):
    v = x.permute(0)
    y = f(v, x)
    v.detach().add_(1)
    show(f.__name__, lambda: y.sum().backward())
# copies count the write that made them
for each in (x, torch.nn.Parameter(x), torch.tensor([1j]).conj()):
    print(copy.deepcopy(each)._version, copy.copy(each)._version, pickle.loads(pickle.dumps(each))._version)
# extrema that are found no more, since .data was written
for find in ("max", "min", "amax", "amin"):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = getattr(x, find)()
    x.data.fill_(7.0)
    y.backward()
    print(find, x.grad)
