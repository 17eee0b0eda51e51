"""Tensors on the device ``meta``: shapes, types, histories and no elements."""

# ruff: noqa
# pyright: basic
import copy
import fgrad.torch as torch


def E(f):
    try:
        print(f())
    except Exception as e:
        print(type(e).__name__, "::", str(e).split("\n\n")[0])


x = torch.empty(3, 4, device="meta", requires_grad=True)
print(x, x.is_meta, x.device, x._version, x.data_ptr())
print(torch.empty(10**6, 10**6, device="meta").shape)
print(torch.rand(3, device="meta"), torch.arange(3, device="meta"), torch.tensor([1, 2.0], device="meta"))
print(torch.zeros_like(x), torch.empty_like(torch.ones(2), device="meta"))
# operations, views, histories
y = (x * 2).sin().sum(0)
print(y, y.shape, y.t() is not None, (x @ torch.empty(4, 5, device="meta")).shape)
print(x.view(4, 3).t().stride(), x[0], x.max(1).indices, x + torch.tensor(1.0))
print(torch.nn.functional.conv2d(torch.empty(1, 3, 8, 8, device="meta"), torch.empty(4, 3, 3, 3, device="meta")).shape)
print(torch.linalg.svd(torch.empty(3, 3, device="meta"))[1], torch.where(x > 0, 1.0, 0.0))
y.sum().backward()
print(x.grad)
print(torch.autograd.grad(x.exp().sum(), x))
# writes
z = torch.empty(3, device="meta")
z[0] = 1
print(z.zero_(), z.copy_(torch.ones(3)), z.uniform_(), z._version)
# between devices
print(torch.ones(2, requires_grad=True).to("meta"))
w = torch.ones(2, requires_grad=True)
E(lambda: w.to("meta").sum().backward())
E(lambda: z.cpu())
E(lambda: z.numpy())
E(lambda: z.tolist())
E(lambda: z.item())
E(lambda: z[0].item())
E(lambda: bool(z[0]))
E(lambda: z + torch.ones(3))
E(lambda: torch.cat([z, torch.ones(2)]))
E(lambda: torch.ones(3).copy_(z))


def assign():
    torch.ones(3).data = z


E(assign)
# modules
with torch.device("meta"):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
print(model[0].weight, model[1].running_mean, model[1].num_batches_tracked)
print(model(torch.empty(2, 3, device="meta")).shape)
E(lambda: model.to("cpu"))
model[0].load_state_dict(torch.nn.Linear(3, 4).state_dict(), assign=True)
print(model[0].weight.device, model[1].weight.device)
model.to_empty(device="cpu")
print(model[1].weight.device, model[1].weight.shape)
print(torch.nn.utils.skip_init(torch.nn.Linear, 3, 4).weight.device)
print(copy.deepcopy(z), z.detach().data.device, z.untyped_storage().nbytes(), z.untyped_storage().device)
optimizer = torch.optim.SGD([torch.nn.Parameter(z)], lr=0.1, momentum=0.9)
optimizer.param_groups[0]["params"][0].sum().backward()
optimizer.step()
print(optimizer.param_groups[0]["params"][0])
