"""Training and evaluation with metrics and a cyclical learning rate."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import LinearCyclicalScheduler
from ignite.metrics import Accuracy, ConfusionMatrix, Loss, RunningAverage
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(24, 4), torch.arange(24) % 3), 8)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer, criterion = torch.optim.SGD(model.parameters(), 0.1), torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(model, optimizer, criterion)
metrics = {"accuracy": Accuracy(), "loss": Loss(criterion), "confusion": ConfusionMatrix(3)}
evaluator = create_supervised_evaluator(model, metrics=metrics)
RunningAverage(output_transform=float).attach(trainer, "average")
trainer.add_event_handler(Events.ITERATION_STARTED, LinearCyclicalScheduler(optimizer, "lr", 0.1, 0.01, 6))
trainer.run(loader, max_epochs=2)
found = evaluator.run(loader).metrics
outputs = {"weight": model[0].weight, "average": trainer.state.metrics["average"], **found}
