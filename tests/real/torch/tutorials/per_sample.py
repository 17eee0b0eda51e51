"""Per-sample gradients, Jacobians, Hessians and ensembles with torch.func; forward-mode AD."""

import copy, torch, torch.nn as nn, torch.nn.functional as F, torch.autograd.forward_ad as fwAD
from torch.func import functional_call, vmap, grad, jacrev, jacfwd, hessian, vjp, jvp, stack_module_state
from functools import partial

torch.manual_seed(0)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.fc1 = nn.Linear(4 * 9, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(x, 2)
        x = torch.flatten(x, 1)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


model = CNN()
data, targets = torch.randn(5, 1, 8, 8), torch.randint(0, 3, (5,))
params = {k: v.detach() for k, v in model.named_parameters()}
buffers = {k: v.detach() for k, v in model.named_buffers()}


def compute_loss(params, buffers, sample, target):
    return F.nll_loss(functional_call(model, (params, buffers), (sample.unsqueeze(0),)), target.unsqueeze(0))


ft = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))(params, buffers, data, targets)
models = [CNN() for _ in range(3)]
sp, sb = stack_module_state(models)
base = copy.deepcopy(models[0]).to("meta")
ens = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(sp, sb, data)
W, b, x = torch.randn(4, 4), torch.randn(4), torch.randn(4)
predict = lambda W, b, x: F.linear(x, W, b).tanh()
J1, J2, H = (
    jacrev(predict, argnums=2)(W, b, x),
    jacfwd(predict, argnums=2)(W, b, x),
    hessian(lambda x: predict(W, b, x).sum())(x),
)
_, vf = vjp(partial(predict, W, b), x)
Jv = vmap(vf)(torch.eye(4))[0]
bj = vmap(jacrev(predict, argnums=2), in_dims=(None, None, 0))(W, b, torch.randn(3, 4))
with fwAD.dual_level():
    dual = fwAD.make_dual(x, torch.ones(4))
    out = predict(W, b, dual)
    prim, tang = fwAD.unpack_dual(out)
    named = {n: p for n, p in model.named_parameters()}
    lin = nn.Linear(4, 2)
    P = {n: p for n, p in lin.named_parameters()}
    for n, p in P.items():
        delattr(lin, n)
        setattr(lin, n, fwAD.make_dual(p, torch.ones_like(p)))
    jv2 = fwAD.unpack_dual(lin(x)).tangent


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, foo):
        result = torch.exp(foo)
        ctx.result = result
        return result

    @staticmethod
    def jvp(ctx, gI):
        gO = gI * ctx.result
        del ctx.result
        return gO


with fwAD.dual_level():
    t3 = fwAD.unpack_dual(Fn.apply(fwAD.make_dual(x, torch.ones(4)))).tangent
outputs = {
    "fc2": ft["fc2.weight"],
    "ens": ens,
    "J1": J1,
    "J2": J2,
    "H": H,
    "Jv": Jv,
    "bj": bj,
    "tang": tang,
    "jv2": jv2,
    "t3": t3,
    "jvp": jvp(partial(predict, W, b), (x,), (torch.ones(4),))[1],
}
