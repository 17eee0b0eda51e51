"""Optimisation on manifolds, from the README and the examples of geoopt."""

import geoopt
import torch

torch.manual_seed(0)
target = torch.linalg.qr(torch.randn(4, 2))[0]
frame = geoopt.ManifoldParameter(torch.linalg.qr(torch.randn(4, 2))[0], manifold=geoopt.Stiefel())
ball = geoopt.PoincareBall(c=1.0)
point = geoopt.ManifoldParameter(ball.random(3, 2), manifold=ball)
round_one = geoopt.Sphere()
sphere = geoopt.ManifoldParameter(round_one.random_uniform(3), manifold=round_one)
optimizer = geoopt.optim.RiemannianAdam([frame, point, sphere], lr=3e-2, amsgrad=True)
losses = []
for _ in range(80):
    loss = (frame - target).square().sum() + ball.dist0(point).sum() + (sphere - torch.eye(3)[0]).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
second = geoopt.ManifoldParameter(torch.randn(3, 2), manifold=geoopt.Euclidean())
steps = geoopt.optim.RiemannianSGD([second], lr=1e-2, momentum=0.9)
for _ in range(10):
    steps.zero_grad()
    geoopt.PoincareBall().expmap0(second).square().sum().backward()
    steps.step()
positive = geoopt.SymmetricPositiveDefinite().projx(torch.randn(3, 3))
outputs = {
    "losses": losses,
    "frame": frame.tolist(),
    "point": point.tolist(),
    "sphere": sphere.tolist(),
    "second": second.tolist(),
    "positive": positive,
}
