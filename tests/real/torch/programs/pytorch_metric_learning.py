"""Losses of metric learning with their miners, and their gradients."""

import torch
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
embeddings = torch.randn(8, 4, requires_grad=True)
labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
outputs = {}
for loss in (
    losses.TripletMarginLoss(),
    losses.ContrastiveLoss(),
    losses.NTXentLoss(),
    losses.MultiSimilarityLoss(),
    losses.CircleLoss(),
    losses.SupConLoss(),
    losses.FastAPLoss(),
    losses.ArcFaceLoss(4, 4),
    losses.ProxyNCALoss(4, 4),
    losses.SubCenterArcFaceLoss(num_classes=4, embedding_size=4),
):
    name = type(loss).__name__
    value = loss(embeddings, labels)
    outputs[name] = value
    (outputs[f"{name}: gradient"],) = torch.autograd.grad(value, embeddings)
mined = miners.TripletMarginMiner(type_of_triplets="semihard")(embeddings, labels)
outputs["mined"] = torch.stack(mined)
