"""Distributions over structures, whose marginals are gradients of the sum over all: chains, and trees."""

import torch
from torch_struct import DependencyCRF, LinearChainCRF

torch.manual_seed(0)
potentials, arcs = torch.randn(2, 5, 3, 3, requires_grad=True), torch.randn(2, 5, 5, requires_grad=True)
chain, tree = LinearChainCRF(potentials, lengths=torch.tensor([6, 4])), DependencyCRF(arcs)
outputs = {"partition": chain.partition, "marginals": chain.marginals, "argmax": chain.argmax, "entropy": chain.entropy}
outputs |= {"tree partition": tree.partition, "tree marginals": tree.marginals}
(chain.partition.sum() + tree.partition.sum() + chain.entropy.sum()).backward()
outputs |= {"potentials": potentials.grad, "arcs": arcs.grad}
