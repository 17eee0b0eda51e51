"""Metrics of batches, and one that is differentiated."""

import torch
import torchmetrics

torch.manual_seed(0)
accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=5, average="macro")
f1 = torchmetrics.classification.MulticlassF1Score(num_classes=5)
auroc = torchmetrics.classification.BinaryAUROC()
for _ in range(3):
    logits, target = torch.randn(20, 5).softmax(-1), torch.randint(5, (20,))
    accuracy.update(logits, target)
    f1.update(logits, target)
    auroc.update(logits[:, 0], (target == 0).long())
x = torch.randn(10, requires_grad=True)
loss = torchmetrics.functional.mean_squared_error(x, torch.zeros(10))
loss.backward()
outputs = {"accuracy": accuracy.compute(), "f1": f1.compute(), "auroc": auroc.compute(), "loss": loss, "grad": x.grad}
