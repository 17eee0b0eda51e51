"""The memory of tensors, as bytes and as numbers."""

import warnings

import fgrad.torch as torch


def attempt(call):
    try:
        return call()
    except (IndexError, RuntimeError, TypeError) as error:
        return f"{type(error).__name__}: {error}".split("\n\n")[0]


with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    x = torch.arange(6.0).reshape(2, 3)
    storage = x.storage()
    print(storage)
print(given[0].category.__name__, given[0].message)
warnings.simplefilter("ignore")

print(len(storage), storage.size(), storage.nbytes(), storage.element_size(), storage.dtype, storage.device)
print(storage[2], storage[-1], list(storage), storage.tolist())
print(storage.type(), storage.pickle_storage_type(), x.storage_type(), storage.is_shared(), storage.is_cuda)
for index in (slice(1, 3), 10, "a"):
    print(attempt(lambda index=index: storage[index]))
print(storage == storage, storage == x.storage(), storage.untyped() == x.untyped_storage())
print(x.t().storage().data_ptr() == storage.data_ptr(), x[1].storage().size(), x[1].storage_offset(), x.t().storage())

storage[1] = 10
storage[2:4] = 7
print(x, x._version)
storage.fill_(3)
print(x, x._version, storage.clone().tolist(), storage.long(), storage.half())
other = torch.zeros(6).storage()
other.copy_(storage)
other.resize_(3)
print(other.tolist(), other.size())

y = torch.ones(2, requires_grad=True)
product = y * 2
y.storage()[0] = 5.0
product.sum().backward()
print(y, y.grad)

for tensor in (torch.tensor([1, 2]), torch.tensor([True]), torch.tensor([1 + 2j]), torch.tensor([1.5]).bfloat16()):
    print(tensor.storage())
print(torch.tensor([1, 256]).untyped_storage(), torch.tensor([1, 256], dtype=torch.int16).untyped_storage()[1:3])
print(torch.FloatStorage(3).size(), torch.FloatStorage([1, 2, 3]).tolist(), torch.LongStorage([1, 2]))
print(isinstance(storage, torch.FloatStorage), isinstance(storage, torch.LongStorage), torch.FloatStorage)
print(isinstance(storage, torch.TypedStorage), isinstance(storage, torch.storage.TypedStorage))
print(torch.is_storage(storage), torch.is_storage(storage.untyped()), torch.is_storage(x))
print(torch.TypedStorage(2, dtype=torch.float32).size(), torch.TypedStorage([1, 2], dtype=torch.int64))
print(torch.tensor([], dtype=torch.float32).set_(storage))
print(torch.empty(3, device="meta").storage().size(), torch.empty(3, device="meta").untyped_storage())

# elements that are one in memory have equal parts in the gradient of a view by strides
leaf = torch.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
for base in (
    leaf.expand(3, 2, 3),
    (leaf * 1).expand(2, 2, 3),
    (leaf * 1).as_strided((2, 3), (1, 1)),
    leaf.unfold(1, 2, 1),
):
    for sizes, strides, offset in (((2,), (1,), 0), ((2, 2), (1, 1), 1)):
        view = base.as_strided(sizes, strides, offset)
        weights = torch.arange(1.0, 1 + view.numel()).reshape(sizes)
        print(*torch.autograd.grad((view * weights).sum(), (base, leaf), retain_graph=True))

# the gradient of what is made element by element lies in memory as the gradient of its result does
leaf = torch.ones(2, 3, requires_grad=True)
turned = leaf.t()
for function in (lambda x: 2 / x, lambda x: x - x, lambda x: x * x, torch.sin, lambda x: x.where(x > 0, -x)):
    found = function(turned)
    print([g.stride() for g in torch.autograd.grad(found, (turned, leaf), torch.ones_like(found))])

# set_ has no derivative: what a tensor was made to look at is its history all the same
w = torch.ones(3, requires_grad=True)


def first_line(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error).splitlines()[0]


for made, source in ((w * 2, (torch.zeros(3),)), (torch.zeros(3), (w * 2,)), (w * 2, ()), (torch.zeros(3), ())):
    made.set_(*source)
    node = made.grad_fn
    print(made.shape, made.requires_grad, made._version, node and (node.name(), len(node.next_functions)))
    print(first_line(lambda: torch.autograd.grad(made.sum(), w)))
made = w * 2
with torch.no_grad():
    made.set_(torch.zeros(3))
print(made, torch.autograd.grad(made.sum(), w))
# a view's base has it in its history, by way of the view
for source in ((torch.arange(3.0),), ()):
    base = w.clone()
    view, other = base[1:], base[:2]
    view.set_(*source)
    print([(x.grad_fn.name(), x.requires_grad, x._version, x.tolist()) for x in (base, view, other)])
    for x in (base, view, other):
        print(first_line(lambda x=x: torch.autograd.grad(x.sum(), w, retain_graph=True)))

# a storage of another type is read as bytes
doubles = torch.arange(3.0, dtype=torch.float64)
for dtype in (torch.float32, torch.int64, torch.uint8, torch.complex64):
    looking = torch.zeros(2, dtype=dtype)
    print(looking.set_(doubles.untyped_storage()))
    print(looking.set_(doubles.untyped_storage(), 1, (2,)).shape, looking._version)
print(first_line(lambda: torch.zeros(2).set_(doubles.storage())))

# what a transformation returns has memory, and not what is inside of it
mapped = torch.ones(3)
print(torch.func.jvp(torch.sin, (mapped,), (mapped,))[0].data_ptr() != 0)
print(torch.func.grad(lambda x: x.sin().sum())(mapped).data_ptr() != 0)
print(first_line(lambda: torch.func.grad(lambda x: x.sum() * x.data_ptr())(mapped)))

print(torch.ones(2).set_(doubles.untyped_storage()), torch.ones(2).set_(torch.UntypedStorage(3)))
print(first_line(lambda: torch.ones(2).set_(doubles.storage())))
print(first_line(lambda: torch.ones(2).set_(doubles.storage(), 0, (2,))))
leaf = torch.ones(2, requires_grad=True)
print(torch.asarray(leaf, requires_grad=False) is leaf, leaf.requires_grad, leaf.new(size=(1, 2)).shape)
