"""The examples of PyTorch's notes on extending its Python API, and more of their kind."""

# ruff: noqa
# pyright: basic
import copy
import functools

import fgrad.torch as torch

F = torch.nn.functional
# ---- ScalarTensor
HANDLED_FUNCTIONS = {}


class ScalarTensor(object):
    def __init__(self, N, value):
        self._N = N
        self._value = value

    def __repr__(self):
        return "ScalarTensor(N={}, value={})".format(self._N, self._value)

    def tensor(self):
        return self._value * torch.eye(self._N)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        if func not in HANDLED_FUNCTIONS or not all(issubclass(t, (torch.Tensor, ScalarTensor)) for t in types):
            return NotImplemented
        return HANDLED_FUNCTIONS[func](*args, **kwargs)


def implements(torch_function):
    def decorator(func):
        functools.update_wrapper(func, torch_function)
        HANDLED_FUNCTIONS[torch_function] = func
        return func

    return decorator


@implements(torch.mean)
def mean(input):
    return float(input._value) / input._N


def ensure_tensor(data):
    if isinstance(data, ScalarTensor):
        return data.tensor()
    return torch.as_tensor(data)


@implements(torch.add)
def add(input, other):
    try:
        if input._N == other._N:
            return ScalarTensor(input._N, input._value + other._value)
        else:
            raise ValueError("Shape mismatch!")
    except AttributeError:
        return torch.add(ensure_tensor(input), ensure_tensor(other))


d = ScalarTensor(5, 2)


def t(f):
    try:
        print(repr(f()))
    except Exception as e:
        print(type(e).__name__, str(e).split("\n\nRaised at")[0])


t(lambda: torch.mean(d))
t(lambda: torch.add(ScalarTensor(2, 2), ScalarTensor(2, 2)))
t(lambda: torch.add(torch.tensor([[1, 1], [1, 1]]), ScalarTensor(2, 2)))
t(lambda: torch.mul(d, 3))
t(lambda: torch.tensor([[1.0, 2], [3, 4]]) + ScalarTensor(2, 1))


# ---- LoggingTensor
class LoggingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not torch.Tensor.__repr__:
            print(f"func: {func.__name__}, args: {len(args)}, kwargs: {kwargs}")
        if kwargs is None:
            kwargs = {}
        return super().__torch_function__(func, types, args, kwargs)


l = LoggingTensor([1.0, 2.0])
print(l * 2)
print(F.relu(l).sum().item(), l.shape, l[0])
l.requires_grad = True
y = (l * 3).sum()
y.backward()
print(l.grad)
l2 = l.detach()
l2 += 1
l2[0] = 5
print(l2, 2 - l2, 2 / l2, l2**2, 2**l2, l2 @ l2, -l2, abs(l2), l2 // 2, l2 == 1, l2 < 3)


class SubTensor(torch.Tensor):
    pass


print(
    type(torch.add(SubTensor([0]), SubTensor([1]))).__name__,
    type(torch.add(SubTensor([0]), torch.tensor([1]))).__name__,
)


class SubSub(SubTensor):
    pass


print(type(torch.add(SubTensor([0]), SubSub([1]))).__name__)


class Other(torch.Tensor):
    pass


t(lambda: torch.add(SubTensor([0]), Other([1])))


class SubTensorNI(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


t(lambda: torch.add(SubTensorNI([0]), SubTensor([1])))
t(lambda: SubTensorNI([0]) + 1)


# ---- MetadataTensor
class MetadataTensor(object):
    def __init__(self, data, metadata=None, **kwargs):
        self._t = torch.as_tensor(data, **kwargs)
        self._metadata = metadata

    def __repr__(self):
        return "Metadata:\n{}\n\ndata:\n{}".format(self._metadata, self._t)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        metadatas = tuple(a._metadata for a in args if hasattr(a, "_metadata"))
        args = [getattr(a, "_t", a) for a in args]
        assert len(metadatas) > 0
        ret = func(*args, **kwargs)
        return MetadataTensor(ret, metadata=metadatas[0])


m = MetadataTensor([[1.0, 2], [3, 4]], {"owner": "Ministry of Silly Walks"})
t(lambda: torch.add(m, torch.tensor([[1, 2], [1, 2]])))
t(lambda: torch.mul(torch.ones(2, 2), m))
t(lambda: F.softmax(m, 0))
t(lambda: torch.linalg.inv(m))
t(lambda: torch.fft.fft(m))
t(lambda: torch.special.expit(m))
t(lambda: torch.ones(2, 2) * m)


# ---- modes
class FunctionLog(torch.overrides.TorchFunctionMode):
    def __init__(self, name="A"):
        self.name = name

    def __torch_function__(self, func, types, args, kwargs=None):
        print(f"{self.name} Function Log: {torch.overrides.resolve_name(func)}(*{len(args)}, **{kwargs})")
        return func(*args, **(kwargs or {}))


def f():
    a = torch.rand(10, requires_grad=True)
    b = a * 2
    b.sum().backward(retain_graph=True)
    a.shape
    a.grad
    torch.cat([a, b])
    a.unsqueeze(0)
    F.mse_loss(a, b)
    torch.stack([a, b]).mean(dim=0)
    x = torch.tensor([1.0])
    torch.as_tensor([1])
    x.clone().fill_(2)
    x.view(1, 1)
    x.to(torch.float64)
    x.size()
    x.numel()
    len(x)
    x.tolist()
    torch.is_tensor(x)
    torch.zeros_like(x)
    torch.manual_seed(0)
    torch.einsum("i,i->i", x, x)
    torch.where(x > 0, x, x)


with FunctionLog():
    f()
one = torch.ones(1)
with FunctionLog("outer"), FunctionLog("inner"):
    one + 1
with FunctionLog("all"):
    with torch._C.DisableTorchFunction():
        torch.ones(1) + 1
    with torch._C.DisableTorchFunctionSubclass():
        torch.ones(1) + 1


class Reenter(FunctionLog):
    def __torch_function__(self, func, types, args, kwargs=None):
        print("re", func.__name__)
        if func is torch.add:
            with self:
                return torch.sub(args[0], -args[1])
        return func(*args, **(kwargs or {}))


with Reenter():
    print(torch.add(torch.ones(1), torch.ones(1)))


class Raise(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args, kwargs=None):
        raise ValueError("x")


try:
    with Raise():
        torch.ones(1)
except ValueError:
    print(torch.ones(1), len(torch.overrides._get_current_function_mode_stack()))
with FunctionLog("M"):
    LoggingTensor([1.0]) * 2
# ---- training with subclass
torch.manual_seed(0)


class My(torch.Tensor):
    pass


net = torch.nn.Linear(2, 1)
net.weight = torch.nn.Parameter(torch.ones(1, 2).as_subclass(My))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    out = net(torch.tensor([[1.0, 2.0]]))
    out.sum().backward()
    opt.step()
print(
    type(out).__name__,
    type(net.weight).__name__,
    net.weight,
    type(net.weight.grad).__name__,
    [k for k in net.state_dict()],
    type(net.state_dict()["weight"]).__name__,
)
sd = net.state_dict()
net.load_state_dict(sd)
print(type(net.weight).__name__, [type(p).__name__ for p in net.parameters()])


class Two(torch.Tensor):
    @staticmethod
    def __new__(cls, x, extra, *a, **k):
        return super().__new__(cls, x)

    def __init__(self, x, extra):
        self.extra = extra

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        r = super().__torch_function__(func, types, args, kwargs)
        if isinstance(r, cls):
            r.extra = next((getattr(a, "extra") for a in args if hasattr(a, "extra")), None)
        return r


z = Two([1.0, 2.0], "e")
print((z * 2).extra, z[0].extra, z.clone().extra, torch.cat([z, z]).__dict__.get("extra"), z)


class WithNew(torch.Tensor):
    def new_empty(self, *a, **k):
        return super().new_empty(*a, **k).as_subclass(type(self))


w = WithNew([1.0, 2.0])
w.tag = [1]
w2 = copy.deepcopy(w)
print(type(w2).__name__, w2, w2.tag, w2.tag is w.tag)


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


q = torch.ones(2, requires_grad=True).as_subclass(My)
r = Fn.apply(q)
print(type(r).__name__, r.grad_fn)
r.sum().backward()
h = []
q = torch.ones(2, requires_grad=True).as_subclass(My)
k = q * 2
k.register_hook(lambda g: h.append(type(g).__name__))
k.sum().backward()
print(h)
print(
    type(torch.max(My([1.0, 2.0]), 0)).__name__,
    type(torch.max(My([1.0, 2.0]), 0).values).__name__,
    type(My([1.0, 2.0]).split(1)).__name__,
)
u = My([1.0, 2.0])
u.grad = torch.ones(2)
print(type(u.grad).__name__, u.grad is u.grad)
del u.grad
print(u.grad)
print(
    [type(e).__name__ for e in My([1.0, 2.0])],
    bool(My([1.0])),
    float(My([1.0])),
    f"{My([1.0])}",
    str(My([1])),
    My([[1.0]]).tolist(),
    type(My([1.0]).numpy()).__name__,
    1.0 in My([1.0]),
)
print(
    torch.overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__),
    torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions(),
)
H = {torch.Tensor.shape.__get__: "shape", torch.Tensor.add: "add", torch.Tensor.__getitem__: "get"}


class Hd(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return H.get(func, NotImplemented)


hd = Hd([1.0])
print(hd.shape, hd + 1, hd[0], 1 + hd)
