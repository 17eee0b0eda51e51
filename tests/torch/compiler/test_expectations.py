"""Branches whose usual outcome is known: a program for it, and the call in pieces where it is another."""

import pytest

import fgrad.torch as torch
from fgrad.errors import CaptureError

nn = torch.nn


def trainer(make_optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = make_optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def state():
        tensors = [*model.parameters(), *[p.grad for p in model.parameters()], scaler._scale, scaler._growth_tracker]
        tensors += [x for p in model.parameters() for x in optimizer.state[p].values() if isinstance(x, torch.Tensor)]
        return tensors, [x._version for x in tensors], scaler.state_dict()

    return step, state


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_a_step_with_a_scaler_is_one_program_that_skips_and_grows_as_uncompiled(optimizer):
    def make(params):
        return optimizer(params, lr=0.01, **({"momentum": 0.9} if optimizer is torch.optim.SGD else {}))

    (wanted, of_wanted), (step, of_step) = trainer(make), trainer(make)
    step = torch.compile(step)
    scales = []
    for k in range(14):
        x = torch.randn(5, 4, generator=torch.Generator().manual_seed(k))
        if k in (6, 7, 10):
            x[0, 0] = float("inf")
        losses, draws = [], []
        for each in (wanted, step):
            torch.manual_seed(k)
            losses.append(each(x))
            draws.append(torch.get_rng_state())
        torch.testing.assert_close(*losses, equal_nan=True)
        assert torch.equal(*draws)
        (one, versions, scale), (two, *rest) = of_wanted(), of_step()
        assert rest == [versions, scale]
        torch.testing.assert_close(one, two, equal_nan=True)
        scales.append(scale["scale"])
    assert scales == [8, 8, 16, 16, 16, 32, 16, 8, 8, 8, 4, 4, 4, 8]
    assert step._compiled.recorded == 2  # the first makes the optimiser's state


def test_a_whole_step_with_a_scaler_has_no_break():
    step, _ = trainer(lambda params: torch.optim.SGD(params, lr=0.01))
    found = torch.compiler.explain(step)(torch.ones(5, 4))
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    torch.compile(step, fullgraph=True)(torch.ones(5, 4))


def test_a_graph_for_all_values_cannot_go_by_the_usual_one():
    step, _ = trainer(lambda params: torch.optim.SGD(params, lr=0.01))
    for capture in (torch.capture, torch.pure):
        with pytest.raises(CaptureError, match="is needed at"):
            capture(step)(torch.ones(5, 4))


def draws_from(distributions, model, x):
    drawn = distributions.Normal(model(x), 1.0).rsample()
    action = distributions.Categorical(logits=model(x)).sample()
    return drawn.square().mean() - distributions.Categorical(logits=model(x)).log_prob(action).mean()


def test_a_step_with_distributions_is_one_program_that_checks_their_arguments():
    """Where an argument violates its constraint, the call runs in pieces, and raises the error that it would."""

    def trained(way):
        torch.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        @way
        def step(x):
            optimizer.zero_grad()
            loss = draws_from(torch.distributions, model, x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        found = []
        for k in range(8):
            x = torch.randn(5, 4)
            if k == 5:
                x[0, 0] = float("nan")
            try:
                found.append(step(x).item())
            except ValueError as error:
                found.append(str(error))
        return found, step

    (wanted, _), (found, step) = trained(lambda f: f), trained(torch.compile)
    for one, other in zip(found, wanted, strict=True):
        assert one == (other if isinstance(other, str) else pytest.approx(other, rel=1e-4))
    assert "Expected parameter loc" in wanted[5]
    assert all(program.refused is None for each in step._compiled.programs.values() for program in each)
    assert step._compiled.recorded <= 2
