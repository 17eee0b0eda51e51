"""Classes of tensors and classes that are none: what their handlers are given, and the errors when nobody answers."""

# ruff: noqa
# pyright: basic
import copy
import warnings

import fgrad.torch as torch

torch.manual_seed(0)


class My(torch.Tensor):
    pass


def t(n, f):
    try:
        r = f()
        print(n, "->", repr(r).replace("\n", "|"), type(r).__name__)
    except Exception as e:
        print(n, "!!", type(e).__name__, str(e).split("\n\nThe tensor")[0].split("\n\nRaised at")[0].replace("\n", "|"))


x = My([1.0, 2.0])
b = torch.tensor([1.0, 2.0], requires_grad=True)
t("as_subclass(int)", lambda: b.as_subclass(int))
t("as_subclass(3)", lambda: b.as_subclass(3))
t("alias", lambda: b.as_subclass(My))
y = b.as_subclass(My)
t("base", lambda: y._base is b)
t("view", lambda: y._is_view())
t("mul", lambda: y * 2)
t("next", lambda: (y * 2).grad_fn.next_functions)
t("My(b)", lambda: My(b))
t("My(b) leaf", lambda: (My(b).is_leaf, My(b)._is_view(), My(b).requires_grad))
t("Tensor(b)", lambda: (torch.Tensor(b), torch.Tensor(b).grad_fn))
t("Tensor(my)", lambda: torch.Tensor(x))
t("_make", lambda: torch.Tensor._make_subclass(My, b))
t("_make rg", lambda: torch.Tensor._make_subclass(My, b, True))
t("make int", lambda: torch.Tensor._make_subclass(int, b))
t("make bad", lambda: torch.Tensor._make_subclass(My, 3))
s = torch.Tensor._make_subclass(My, b.detach())
t("ver", lambda: (s.add_(1), b._version, s._version))
t("deepcopy", lambda: copy.deepcopy(x))
x.foo = [1]
t("deepcopy d", lambda: copy.deepcopy(x).foo is x.foo)
t("copy", lambda: (copy.copy(x), copy.copy(x).foo is x.foo))
t("deepcopy rg", lambda: copy.deepcopy(My([1.0]).requires_grad_()))
t("Param", lambda: torch.nn.Parameter(x))
t("Param inst", lambda: isinstance(torch.nn.Parameter(x), torch.nn.Parameter))
p = torch.nn.Parameter(x)
t("p.foo", lambda: p.foo)
t("deepcopy p", lambda: copy.deepcopy(p))
t("isparam", lambda: getattr(copy.deepcopy(p), "_is_param", None))
(p * 2).sum().backward()
t("p.grad", lambda: p.grad)
t("x.grad is", lambda: p.grad is p.grad)
m = torch.nn.Linear(1, 1)
m.weight = torch.nn.Parameter(My([[1.0]]))
t("keys", lambda: [(k, type(v).__name__) for k, v in m.state_dict().items()])
t("m", lambda: m(torch.ones(1, 1)))
t("m repr", lambda: m.weight)


class P2(torch.nn.Parameter):
    pass


t("P2", lambda: P2(torch.ones(1)) * 2)
t("P2 r", lambda: P2(torch.ones(1)))


class Dis(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


t("Dis", lambda: Dis([1.0]) * 2)
t("Dis view", lambda: Dis([1.0])[0])
t("Dis inplace", lambda: Dis([1.0]).add_(1))
t("Dis call", lambda: Dis.__torch_function__(torch.add, (), (torch.ones(1), 1)))
t("Dis repr", lambda: Dis([1.0]))


class A:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("   A:", torch.overrides.resolve_name(func), [t.__name__ for t in types], len(args), kwargs)
        return NotImplemented


class B(A):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("   B:", torch.overrides.resolve_name(func), [t.__name__ for t in types], len(args), kwargs)
        return NotImplemented


t("add", lambda: torch.add(A(), B()))
t("add2", lambda: torch.add(torch.ones(1), B(), alpha=2))
t("cat", lambda: torch.cat([A(), torch.ones(1), B(), A()]))
t("relu", lambda: torch.nn.functional.relu(A()))
t("einsum", lambda: torch.einsum("i->i", A()))
t("op", lambda: torch.ones(1) + A())
t("rop", lambda: A() + torch.ones(1))
t("eq", lambda: torch.ones(1) == A())
t("method", lambda: torch.ones(1).add(A()))
t("linalg", lambda: torch.linalg.inv(A()))
t("fft", lambda: torch.fft.fft(A()))
t("special", lambda: torch.special.entr(A()))
t("linear", lambda: torch.nn.functional.linear(A(), A()))
t("iadd", lambda: torch.ones(1).__iadd__(A()))
t("getitem", lambda: torch.ones(1)[A()])
t("setitem", lambda: torch.ones(1).__setitem__(0, A()))
t("rsub", lambda: torch.ones(1).__rsub__(A()))
t("dim duck", lambda: torch.sum(torch.ones(1), A()))
t("kwarg duck", lambda: torch.sum(torch.ones(1), dim=A()))
t("tensor", lambda: torch.tensor(A()))
t("zeros", lambda: torch.zeros(A()))
t("out", lambda: torch.add(torch.ones(1), 1, out=A()))
t("where", lambda: torch.where(A(), 1, 2))
t("split", lambda: torch.split(A(), 1))
t("setter", lambda: setattr(torch.ones(1), "grad", A()))
t("copy_", lambda: torch.ones(1).copy_(A()))
t("norm", lambda: torch.norm(A()))
t("meshgrid", lambda: torch.meshgrid(A(), A(), indexing="ij"))
t("nested list", lambda: torch.tensor([A()]))
t("init", lambda: torch.nn.init.uniform_(A()))
t("init c", lambda: torch.nn.init.zeros_(A()))
t("F.pad", lambda: torch.nn.functional.pad(A(), (1, 1)))
t("max_pool", lambda: torch.nn.functional.max_pool2d(A(), 2))
t("softmax", lambda: torch.nn.functional.softmax(A(), 0))
t("mha", lambda: torch.nn.functional.cross_entropy(A(), A()))
t("backward", lambda: torch.autograd.backward(A()))


class C4:
    @classmethod
    def __torch_function__(cls, func, types, args, kwargs):
        return "C4", kwargs


t("req kwargs", lambda: torch.add(C4(), 1))
t("req kwargs2", lambda: torch.add(C4(), 1, alpha=2))
t("req kw relu", lambda: torch.nn.functional.relu(C4()))


class Inst:
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return "inst"


with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    t("inst", lambda: torch.add(Inst(), 1))
    t("inst", lambda: torch.nn.functional.relu(Inst()))
    print([(str(q.message).split(" (Trigg")[0], q.category) for q in w])


class M(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented

    def __repr__(self):
        return "<M>"


with M():
    t("mode NI", lambda: torch.zeros(2))
    t("mode NI", lambda: torch.add(A(), 1))
    t("m F", lambda: torch.nn.functional.relu(A()))
    t("m F", lambda: torch.nn.functional.relu(b))
    t("op", lambda: b + 1)


class Mc(torch.overrides.TorchFunctionMode):
    @classmethod
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented


with Mc():
    t("cm", lambda: torch.zeros(2))


class Md(torch.overrides.TorchFunctionMode):
    pass


with Md():
    t("base", lambda: torch.zeros(2))
t("_make_wrapper_subclass", lambda: torch.Tensor._make_wrapper_subclass(My, (2,)))
with torch.no_grad():
    v = y * 2
    t("nograd", lambda: (v, v._is_view()))
w = b.as_subclass(My)
t("w add_", lambda: w.add_(1))
z = b * 1
zz = z.as_subclass(My)
zz.add_(1)
t("zz", lambda: (zz, z, z.grad_fn, zz.grad_fn))
r = x.sum(dim=0, keepdim=True)
t("r", lambda: (r._is_view(), r._base is None, type(r._base).__name__))
q = My([3.0, 1.0])
t("max", lambda: q.max(0))
t("split", lambda: q.split(1))
t("tolist", lambda: q.tolist())
t("mixed", lambda: torch.ones(2) + q)


class Y(torch.Tensor):
    pass


t("My+Y", lambda: My([1.0]) + Y([1.0]))
t("My sub", lambda: My([1.0]) + type("Sub", (My,), {})([1.0]))
t("shape", lambda: q.shape)
t("isinst", lambda: type(My.__torch_function__))
t("grad set", lambda: setattr(q, "grad", My([1.0, 1.0])))
t("grad", lambda: q.grad)
t("enabled", lambda: torch._C._is_torch_function_enabled())
with torch._C.DisableTorchFunctionSubclass():
    t("dis", lambda: (q * 2, torch._C._is_torch_function_enabled(), torch.overrides.has_torch_function((q,))))
with torch._C.DisableTorchFunction():
    t("dis", lambda: q * 2)
with torch._C.DisableTorchFunctionSubclass(), M():
    t("dis mode", lambda: torch.zeros(1))
    t("h", lambda: torch.overrides.has_torch_function(()))
with M(), torch._C.DisableTorchFunction():
    t("disall mode", lambda: torch.zeros(1))
print(
    torch.overrides.has_torch_function([1, q]),
    torch.overrides.is_tensor_like(A()),
    torch.overrides.is_tensor_like(b),
    torch.overrides.is_tensor_like(3),
    torch.overrides.has_torch_function((p, b)),
)
t("htf", lambda: torch.overrides.handle_torch_function(torch.relu, (b,), b))
t("htf0", lambda: torch.overrides.handle_torch_function(torch.nn.functional.relu, (), b))
print(
    [
        torch.overrides.resolve_name(f)
        for f in (
            torch.add,
            torch.Tensor.add,
            torch.Tensor.shape.__get__,
            torch.nn.functional.linear,
            torch.nn.functional.relu,
            torch.linalg.inv,
            torch.fft.fft,
            torch.special.entr,
            torch.einsum,
            torch.Tensor.grad.__set__,
            len,
        )
    ]
)
print(
    [
        f.__name__
        for f in (
            torch.linalg.inv,
            torch.fft.fft,
            torch.special.entr,
            torch.special.expit,
            torch.Tensor.__pow__,
            torch.Tensor.__rdiv__,
            torch.Tensor.__rtruediv__,
            torch.nn.functional.gelu,
        )
    ]
)
print(
    torch.absolute is torch.abs,
    torch.special.expm1 is torch.expm1,
    torch.nn.functional.relu_ is torch.relu_,
    torch.nn.functional.conv1d is torch.conv1d,
)
