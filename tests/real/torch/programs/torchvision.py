"""Networks, losses and measures of boxes, and transforms of images, with a step of training."""

import torch
from torchvision import models, ops, tv_tensors
from torchvision.transforms import v2

torch.manual_seed(0)
model = models.get_model("mobilenet_v3_small", weights=None, num_classes=4)
for module in model.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0
image = torch.rand(2, 3, 32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model.eval()(image), torch.tensor([1, 3]))
    loss.backward()
    losses.append(loss.detach())
    optimizer.step()

boxes = torch.tensor([[0.0, 1.0, 4.0, 5.0], [2.0, 2.0, 6.0, 9.0]], requires_grad=True)
others = torch.tensor([[1.0, 1.0, 5.0, 6.0], [3.0, 1.0, 6.0, 7.0]])
distance = ops.complete_box_iou_loss(boxes, others, reduction="mean")
distance.backward()
logits = torch.tensor([[0.5, -1.0], [2.0, 0.1]], requires_grad=True)
ops.sigmoid_focal_loss(logits, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), reduction="sum").backward()

change = v2.Compose([v2.Resize(20, antialias=True), v2.CenterCrop(16), v2.Normalize([0.5] * 3, [0.2] * 3)])
flipped = v2.RandomHorizontalFlip(1.0)(tv_tensors.BoundingBoxes(others, format="XYXY", canvas_size=(10, 10)))
outputs = {
    "losses": torch.stack(losses),
    "grad": model.classifier[3].weight.grad,
    "stem": model.features[0][0].weight.grad,
    "overlap": ops.generalized_box_iou(boxes, others),
    "boxes": boxes.grad,
    "focal": logits.grad,
    "changed": change(image[0]),
    "turned": v2.functional.rotate(image[0], 30.0, interpolation=v2.InterpolationMode.BILINEAR),
    "flipped": flipped.as_subclass(torch.Tensor),
}
