"""Branches whose usual outcome is known: a program for it, and the call in pieces where it is another."""

import numpy as np
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


def test_a_kept_graph_does_not_check_the_arguments_of_distributions():
    def loss(x):
        return draws_from(torch.distributions, lambda x: 2 * x, x)

    x = torch.randn(5, 4)
    function, state = torch.pure(loss)(x)
    graph = torch.capture(loss)(x)
    wanted = loss(x).item()
    assert function(state, x.numpy())[1] == pytest.approx(wanted)
    assert graph(*[x.numpy() if name == "args[0]" else state["generator"] for name in graph.names])[0] == (
        pytest.approx(wanted)
    )
    function, state = torch.pure(lambda x: torch.distributions.Normal(x, 1.0).log_prob(x).sum())(x)
    assert np.isnan(function(state, x.numpy() * np.nan)[1])


F = nn.functional
ROWS = torch.arange(12.0).reshape(4, 3)

#: functions with arguments that they take, and some that they refuse
REFUSED = {
    "indexing": (lambda i: ROWS[i], [0, -4], [0, 4]),
    "an element": (lambda i: ROWS[i[0], i[1]], [3, 2], [3, 3]),
    "a write": (lambda i: ROWS.clone().index_put_((i,), torch.tensor(1.0)), [0, 1], [0, -5]),
    "index_select": (lambda i: ROWS.index_select(1, i), [0, 2], [-1, 2]),
    "gather": (lambda i: ROWS.gather(0, i[None]), [0, 3], [0, 4]),
    "scatter": (lambda i: ROWS.scatter(0, i[None], 1.0), [0, 3], [4, 0]),
    "index_add": (lambda i: ROWS.index_add(0, i, ROWS[:2]), [0, 3], [0, 4]),
    "index_copy": (lambda i: ROWS.index_copy(0, i, ROWS[:2]), [0, 3], [-1, 3]),
    "index_fill": (lambda i: ROWS.index_fill(0, i, 1.0), [0, -4], [0, -5]),
    "take": (lambda i: ROWS.take(i), [0, -12], [12, 0]),
    "embedding": (lambda i: F.embedding(i, ROWS), [0, 3], [0, 4]),
    "embedding_bag": (lambda i: F.embedding_bag(i[None], ROWS), [0, 3], [-1, 3]),
    "cross_entropy": (lambda i: F.cross_entropy(ROWS[:2], i), [0, -100], [0, 3]),
    "nll_loss": (lambda i: F.nll_loss(ROWS[:2], i, ignore_index=7), [2, 7], [2, -1]),
    "multi_margin_loss": (lambda i: F.multi_margin_loss(ROWS[:2], i), [0, 2], [0, 3]),
    "multilabel_margin_loss": (lambda i: F.multilabel_margin_loss(ROWS[0, :2], i), [1, -1], [2, -1]),
    "one_hot": (lambda i: F.one_hot(i, 3), [0, 2], [0, 3]),
    "max_unpool1d": (lambda i: F.max_unpool1d(ROWS[:1, :2], i[None], 2), [0, 3], [0, 4]),
    "binary_cross_entropy": (lambda i: F.binary_cross_entropy(i / 2, torch.ones(2)), [0, 2], [0, 3]),
    "a division of integers": (lambda i: torch.tensor([4, 6]) // i, [2, 3], [2, 0]),
    "a remainder": (lambda i: torch.tensor([4, 6]) % i, [2, 3], [0, 3]),
    "cholesky": (lambda i: torch.linalg.cholesky(torch.diag(i.float())), [1, 4], [1, -4]),
    "inv": (lambda i: torch.linalg.inv(torch.diag(i.float())), [1, 4], [1, 0]),
    "bernoulli": (lambda i: torch.bernoulli(i / 2), [2, 0], [3, 0]),
    "bernoulli_": (lambda i: torch.zeros(2).bernoulli_(i / 2), [2, 0], [2, -1]),
    "normal": (lambda i: torch.normal(0.0, i * 0.0 + i.clamp(max=0)), [1, 0], [1, -1]),
    "a mapped index": (lambda i: torch.func.vmap(lambda k: ROWS.take(k))(i), [0, 3], [0, 12]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_operation_refuses_uncompiled_it_refuses_compiled(name):
    function, taken, refused = REFUSED[name]
    compiled = torch.compile(function)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.tensor(taken)), function(torch.tensor(taken)))
    with pytest.raises(Exception) as wanted:
        function(torch.tensor(refused))
    with pytest.raises(type(wanted.value)) as found:
        compiled(torch.tensor(refused))
    assert str(found.value).partition("\n")[0] == str(wanted.value).partition("\n")[0]
    torch.testing.assert_close(compiled(torch.tensor(taken)), function(torch.tensor(taken)))
    assert compiled._compiled.recorded == 1


def language_model():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    seen = {"calls": 0, "total": 0.0, "log": []}

    def step(tokens):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens[:-1]), tokens[1:])
        loss.backward()
        optimizer.step()
        seen["calls"] += 1
        seen["total"] += loss.item()
        seen["log"].append(loss.detach())
        return loss.item()

    def state():
        tensors = [x for p in model.parameters() for x in (p, *optimizer.state[p].values())]
        gradients = [p.grad for p in model.parameters()]
        numbers = dict(seen, log=[*seen["log"]])
        return [x.tolist() for x in tensors], [x._version for x in tensors], [*map(repr, gradients)], numbers

    return step, state


def test_a_step_that_overwrites_its_arrays_leaves_all_as_it_was_where_an_index_is_out_of_range():
    (plain, of_plain), (step, of_step) = language_model(), language_model()
    compiled = torch.compile(step)
    good, bad = torch.tensor([0, 1, 4, 2]), torch.tensor([0, 1, 5, 2])
    for k in range(6):
        assert compiled(good) == pytest.approx(plain(good), rel=1e-4)
        if k in (2, 3, 5):
            (program, *_) = next(iter(compiled._compiled.programs.values()))
            assert program.refused is None and program.steady is not None
            before = of_step()
            with pytest.raises(IndexError, match="index out of range in self"):
                compiled(bad)
            assert (of_step()[:2], of_step()[3]) == (before[:2], before[3])
    torch.testing.assert_close(of_step()[0], of_plain()[0], rtol=1e-3, atol=1e-4)


def test_a_piece_that_computes_what_an_operation_refuses_is_an_error():
    def f(i):
        rows = ROWS[i * 2]
        return rows.sum() if rows.sum() > 0 else rows

    compiled = torch.compile(f)
    assert compiled(torch.tensor([0, 1])).item() == 24
    with pytest.raises((IndexError, RuntimeError), match=r"out of bounds|out of range.*test_expectations.py"):
        compiled(torch.tensor([0, 2]))


def counter(way):
    """A step whose index is what the last call wrote, and what six calls leave."""
    torch.manual_seed(0)
    at, weight = torch.zeros(1), torch.ones(3, requires_grad=True)
    optimizer, seen = torch.optim.Adam([weight], lr=0.01), {"calls": 0, "last": 0.0, "log": []}

    @way
    def step(x):
        seen["calls"] += 1
        optimizer.zero_grad()
        at.add_(x)
        loss = (ROWS[at.long()] * weight).sum()
        loss.backward()
        optimizer.step()
        seen["last"] = loss.item()
        seen["log"].append(loss.item())
        return loss.item()

    left = []
    for x in (1.0, 1.0, 1.0, 1.0, -2.0, 1.0, 3.0, -4.0, 1.0, 1.0):
        try:
            result = step(torch.tensor(x))
        except IndexError as error:
            result = str(error).partition("\n")[0]
        momentum = optimizer.state[weight].get("exp_avg")
        tensors = [at, weight, *[t for t in (momentum, weight.grad) if t is not None]]
        left.append((result, [(t.tolist(), t._version) for t in tensors], dict(seen, log=[*seen["log"]])))
    return left, step


def test_an_index_that_the_program_itself_computes():
    expected, _ = counter(lambda step: step)
    found, step = counter(torch.compile)
    assert sum(isinstance(each[0], str) for each in expected) == 3
    for one, other in zip(found, expected, strict=True):
        (result, tensors, seen), (wanted, others, numbers) = one, other
        assert result == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=1e-5))
        assert [version for _, version in tensors] == [version for _, version in others]
        torch.testing.assert_close([x for x, _ in tensors], [x for x, _ in others], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(seen, numbers, rtol=1e-5, atol=1e-6)
    programs = [each for held in step._compiled.programs.values() for each in held]
    assert any(each.expected is not None and each.steady is not None for each in programs)
