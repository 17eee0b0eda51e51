"""What steps of training do beside the usual: compiled, each leaves what it leaves uncompiled, call after call."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import fgrad.torch as torch
from fgrad.torch.nn import functional as F
from tests.torch.compiler.programs import classifier, close, of_tensor, same


def as_shown(x):
    if isinstance(x, torch.Tensor):
        return of_tensor(x)
    return (np.array(x),) if isinstance(x, float) else x


EXAMPLES = Path(__file__).parents[3] / "examples"


class Training:
    """A classifier with what a step of training may hold, and a method for each kind of step."""

    def __init__(self, kind):
        self.program = classifier(OPTIMIZERS.get(kind, lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9)))
        self.model, self.optimizer = self.program.model, self.program.optimizer
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        self.average = [p.detach().clone() for p in self.model.parameters()]
        mean = torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        self.moving = torch.optim.swa_utils.AveragedModel(self.model, multi_avg_fn=mean)
        self.steps, self.losses, self.best = 0, [], None
        self.running = torch.zeros(())

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def plain(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def scheduled(self, x, y):
        loss = self.plain(x, y)
        self.scheduler.step()
        return loss

    def counted(self, x, y):
        loss = self.plain(x, y)
        self.steps += 1
        self.losses.append(loss.detach())
        self.running = 0.9 * self.running + 0.1 * loss.detach()
        self.best = loss.detach() if self.best is None else torch.minimum(self.best, loss.detach())
        return loss

    def scaled(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def cast(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def accumulated(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        for some, labels in zip(x.chunk(4), y.chunk(4), strict=True):
            (self.loss(some, labels) / 4).backward()
        self.optimizer.step()
        return x.sum()

    def penalised(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        grads = torch.autograd.grad(loss, list(self.model.parameters()), create_graph=True)
        (loss + 0.1 * sum(g.square().sum() for g in grads)).backward()
        self.optimizer.step()
        return loss

    def averaged(self, x, y):
        loss = self.plain(x, y)
        with torch.no_grad():
            for mean, p in zip(self.average, self.model.parameters(), strict=True):
                mean.lerp_(p, 0.1)
        return loss

    def moved(self, x, y):
        loss = self.plain(x, y)
        self.moving.update_parameters(self.model)
        return loss

    def viewed(self, x, y):
        loss = self.plain(x, y)
        return loss, self.model[0].weight.detach()[0], self.model(x)[:2].detach()

    def closed(self, x, y):
        def closure():
            self.optimizer.zero_grad()
            loss = self.loss(x, y)
            loss.backward()
            return loss

        return self.optimizer.step(closure)

    searched = factored = closed
    orthogonal = plain

    def state(self):
        found = {}
        for name, value in self.program.state().items():
            held = value if isinstance(value, list) else [value]
            found |= {f"{name}.{i}": as_shown(x) for i, x in enumerate(held)}
        found |= {f"average.{i}": of_tensor(x) for i, x in enumerate(self.average)}
        found |= {f"moving.{name}": of_tensor(x) for name, x in self.moving.state_dict(keep_vars=True).items()}
        found |= {"steps": self.steps, "scale": self.scaler.get_scale(), "epoch": self.scheduler.last_epoch}
        found |= {"rate": self.optimizer.param_groups[0]["lr"], "running": of_tensor(self.running)}
        found["losses"] = np.array([round(x.item(), 3) for x in self.losses])
        return found


OPTIMIZERS = {
    "closed": lambda params: torch.optim.LBFGS(params, lr=0.1, max_iter=3),
    "searched": lambda params: torch.optim.LBFGS(params, max_iter=3, line_search_fn="strong_wolfe"),
    "factored": lambda params: torch.optim.Adafactor(params, lr=0.01),
    "orthogonal": lambda params: torch.optim.Muon([p for p in params if p.dim() == 2], lr=0.01),
}
#: the steps that are one program each
WHOLE = ("cast", "accumulated", "penalised", "averaged", "moved", "orthogonal", "factored", "scaled")
KINDS = (*WHOLE, "scheduled", "counted", "viewed", "closed", "searched")


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_leaves_what_it_leaves_uncompiled(kind):
    plain, compiled = Training(kind), Training(kind)
    step = torch.compile(getattr(compiled, kind))
    for k in range(4):
        stream = torch.get_rng_state()
        wanted = getattr(plain, kind)(*plain.program.batches[k])
        expected = plain.state()
        torch.set_rng_state(stream)
        found = step(*compiled.program.batches[k])
        same(compiled.state(), expected)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (found, wanted)], strict=True):
            close(a.detach().numpy(), b.detach().numpy(), exact=False)
            assert a.requires_grad == b.requires_grad and a.stride() == b.stride()
    programs = [each for held in step._compiled.programs.values() for each in held]
    assert any(each.refused is None for each in programs) == (kind in WHOLE)
    assert all(each.refused is None or each.breaks for each in programs)
    assert step._compiled.recorded < 5


@pytest.mark.parametrize("steps", [4, pytest.param(100, marks=pytest.mark.thorough)])
def test_an_example_trains_as_it_does_uncompiled(steps):
    shown = []
    for compile in (lambda step: step, lambda step: torch.compile(step, fullgraph=True)):
        script = runpy.run_path(str(EXAMPLES / "training_script.py"))
        step, batches = compile(script["step"]), script["batches"]()
        losses = [step(*batches[k % len(batches)]).item() for k in range(steps)]
        shown.append((losses, torch.get_rng_state().numpy().copy()))
    (losses, stream), (wanted, before) = shown
    np.testing.assert_allclose(losses, wanted, rtol=1e-2 if steps > 10 else 1e-4, atol=1e-2 if steps > 10 else 0)
    assert np.array_equal(stream, before)
