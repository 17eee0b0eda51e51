"""Arguments that are parts of larger tensors: one program for all places, and the values that they have uncompiled."""

import pytest

import fgrad.torch as torch

DATA = torch.arange(48.0).reshape(12, 4)


def step_and_model():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model


def test_the_batches_of_one_tensor_are_one_program():
    (step, model), (wanted, other) = step_and_model(), step_and_model()
    step = torch.compile(step)
    inputs, targets = DATA / 48, DATA.sum(1, keepdim=True) / 48
    recorded = []
    for _ in range(2):
        for x, y in zip(inputs.split(2), targets.split(2), strict=True):
            assert torch.allclose(step(x, y), wanted(x, y))
            recorded.append(step._compiled.recorded)
    assert torch.allclose(model.weight, other.weight)
    assert recorded[1] == recorded[-1] == 2  # the first makes the velocities


@pytest.mark.parametrize(
    "views",
    [
        lambda x, i: (x[i], x[i + 1]),
        lambda x, i: (x[i : i + 2], x[i + 1 : i + 3]),
        lambda x, i: (x[i : i + 2, :2], x[i : i + 2, 2:]),
        lambda x, i: (x[i : i + 3].t(), x[i, 0]),
        lambda x, i: (x.view(-1)[4 * i : 4 * i + 8].view(2, 4), torch.ones(4)),
    ],
)
def test_views_of_one_tensor_move_together(views):
    compiled = torch.compile(lambda a, b: a * 2 + b.sum() + a.reshape(-1)[1])
    for data in (DATA, torch.cat([DATA, DATA])):
        for i in (0, 3, 5, 8):
            a, b = views(data, i)
            assert torch.equal(compiled(a, b), a * 2 + b.sum() + a.reshape(-1)[1])
    assert compiled._compiled.recorded == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.storage_offset(),
        lambda x: x + x._base.sum(),
        lambda x: x + torch.as_strided(x, (4,), (1,), 4),
        lambda x: x + x.untyped_storage().nbytes(),
        lambda x: x.view(2, -1)[1] * 2,
        lambda x: (x.mul_(2), x[1])[1],
        lambda x: x,
        lambda x: x + DATA[0].sum(),
    ],
)
def test_what_depends_on_the_place_is_as_uncompiled(function):
    def shown(compile):
        called = compile(function)
        data = torch.arange(20.0)
        shown = []
        for i in (0, 4, 8, 5, 6, 16):
            x = data[i : i + 4]
            result = called(x)
            shown.append((result.tolist(), result is x, data.tolist(), data._version))
        return shown

    assert shown(torch.compile) == shown(lambda f: f)


def test_a_window_ends_with_its_storage():
    compiled = torch.compile(lambda x: x * 2)
    for i in (0, 8, 10, 11):
        assert torch.equal(compiled(DATA[i : i + 4 : 2, 1:]), DATA[i : i + 4 : 2, 1:] * 2)


def test_another_part_of_an_argument_is_seen():
    class Parts:
        pass

    def part(x):
        name = "".join(["par", "t"])  # no guard sees an attribute whose name is computed
        return x[getattr(Parts, name)] * 2

    Parts.part = slice(1)
    compiled = torch.compile(part)
    compiled(DATA[:2])
    Parts.part = slice(1, 2)
    with pytest.warns(UserWarning, match="reads another part of an argument"):
        assert torch.equal(compiled(DATA[2:4]), DATA[3:4] * 2)
