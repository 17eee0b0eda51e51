"""autocast and GradScaler on the CPU, averaged models, schedulers."""

import torch, torch.nn as nn
from torch.optim.swa_utils import AveragedModel, SWALR, update_bn, get_ema_multi_avg_fn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
data = [(torch.randn(6, 8), torch.randn(6, 4)) for _ in range(4)]
ls = []
for e in range(3):
    for x, y in data:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            out = net(x)
            loss = nn.functional.mse_loss(out.float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        ls.append(loss.item())
swa = AveragedModel(net)
ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=5)
swal = SWALR(opt, swa_lr=0.05, anneal_epochs=2)
lrs, l2 = [], []
for e in range(6):
    for x, y in data:
        opt.zero_grad()
        l = nn.functional.mse_loss(net(x), y)
        l.backward()
        opt.step()
    l2.append(l.item())
    if e > 2:
        swa.update_parameters(net)
        ema.update_parameters(net)
        swal.step()
    else:
        sched.step()
    lrs.append(opt.param_groups[0]["lr"])
update_bn([x for x, _ in data], swa)
warm = torch.optim.lr_scheduler.SequentialLR(
    opt,
    [
        torch.optim.lr_scheduler.LinearLR(opt, 0.1, total_iters=3),
        torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=10),
    ],
    [3],
)
for _ in range(8):
    opt.step()
    warm.step()
    lrs.append(warm.get_last_lr()[0])
outputs = {
    "scaled_half": [round(v, 1) for v in ls],
    "l2": l2,
    "lrs": lrs,
    "swa": swa.module[3].weight,
    "ema": ema.module[3].weight,
    "scale": [scaler.get_scale()],
}
