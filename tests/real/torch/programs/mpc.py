"""A controller that plans by LQR with bounds, differentiated by its costs and dynamics."""

import torch
from mpc.mpc import MPC, LinDx, QuadCost

STEPS, BATCH, STATE, CONTROL = 5, 2, 3, 2
torch.manual_seed(0)
quadratic = torch.eye(STATE + CONTROL).repeat(STEPS, BATCH, 1, 1)
linear = torch.randn(STEPS, BATCH, STATE + CONTROL, requires_grad=True)
dynamics = torch.randn(STEPS, BATCH, STATE, STATE + CONTROL).mul(0.4).requires_grad_()
start, bound = torch.randn(BATCH, STATE, requires_grad=True), 0.4 * torch.ones(STEPS, BATCH, CONTROL)
plan = MPC(STATE, CONTROL, STEPS, -bound, bound, lqr_iter=10, verbose=-1, exit_unconverged=False, n_batch=BATCH)
states, controls, costs = plan(start, QuadCost(quadratic, linear), LinDx(dynamics))
(states.square().sum() + controls.sum()).backward()
outputs = {"states": states, "controls": controls, "costs": costs}
outputs |= {"linear": linear.grad, "dynamics": dynamics.grad, "start": start.grad}
