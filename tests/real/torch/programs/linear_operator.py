"""Solves and determinants of structured matrices."""

import torch
from linear_operator.operators import DiagLinearOperator, LowRankRootLinearOperator

torch.manual_seed(0)
root = torch.randn(20, 3, requires_grad=True)
diagonal = torch.rand(20).add(0.5).requires_grad_()
right = torch.randn(20, 2)
operator = LowRankRootLinearOperator(root) + DiagLinearOperator(diagonal)
quadratic, logdet = operator.inv_quad_logdet(right, logdet=True)
solved = torch.linalg.solve(operator, right)
(quadratic + logdet).backward()
outputs = {"quadratic": quadratic, "logdet": logdet, "solved": solved, "root": root.grad, "diagonal": diagonal.grad}
