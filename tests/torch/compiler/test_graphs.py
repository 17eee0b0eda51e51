"""``torch.capture``: the graph of a step has the user's names, computes what the step does, and changes nothing."""

import io
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.errors import CaptureError
from fgrad.record import recording
from tests.torch.compiler.programs import classifier, same


def test_inputs_and_outputs_have_the_users_names():
    program = classifier()
    program.step(*program.batches[0])
    graph = torch.capture(program.step)(*program.batches[0])
    assert "model.0.weight" in graph.names
    assert "optimizer.state['0.weight'].momentum_buffer" in graph.names
    assert "generator" in graph.names and "args[0]" in graph.names and "args[1]" in graph.names
    assert not any("grad" in name for name in graph.names)  # they are dropped before they are read
    assert graph.out_names[0] == "result"
    for name in ("model.0.weight", "model.1.running_mean", "model.1.num_batches_tracked", "generator"):
        assert f"{name} (written)" in graph.out_names
    assert "optimizer.state['0.weight'].momentum_buffer (written)" in graph.out_names
    assert "model.4.bias.grad (written)" in graph.out_names
    assert "model.0.weight" in str(graph) and "model.0.weight (written)" in str(graph)


def test_what_the_first_step_makes_is_an_output():
    program = classifier()
    graph = torch.capture(program.step)(*program.batches[0])
    name = "optimizer.state['0.weight'].momentum_buffer"
    assert name not in graph.names and f"{name} (written)" in graph.out_names


def test_nothing_is_changed():
    program = classifier()
    for _ in range(2):
        before = program.state()
        entries = {key: list(value) for key, value in program.optimizer.state.items()}
        torch.capture(program.step)(*program.batches[0])
        same(program.state(), before, exact=True)
        assert {key: list(value) for key, value in program.optimizer.state.items()} == entries
        program.step(*program.batches[0])


def test_an_error_in_the_middle_changes_nothing():
    program = classifier()
    program.step(*program.batches[0])

    def failing(x, y):
        program.step(x, y)
        program.model.extra = 3
        raise KeyboardInterrupt

    before = program.state()
    with pytest.raises(KeyboardInterrupt):
        torch.capture(failing)(*program.batches[0])
    same(program.state(), before, exact=True)
    assert not hasattr(program.model, "extra")
    program.step(*program.batches[0])


def value_of(program, name):
    """What an input is called holds now."""
    if name == "generator":
        return torch.get_rng_state().numpy()
    if name.startswith("args"):
        return program.batches[0][int(name[5])].numpy()
    if name.startswith("optimizer.param_groups[0]['"):
        return np.asarray(program.optimizer.param_groups[0][name.split("'")[1]])
    if name.startswith("optimizer"):
        key, entry = name.removeprefix("optimizer.state['").split("'].")
        return program.optimizer.state[dict(program.model.named_parameters())[key]][entry].numpy()
    held = dict([*program.model.named_parameters(), *program.model.named_buffers()])
    path = name.removeprefix("model.")
    if path.endswith(".grad"):
        return held[path.removesuffix(".grad")].grad.numpy()
    return held[path].detach().numpy()


@pytest.mark.parametrize("steps", [0, 1])
def test_the_graph_computes_what_the_step_does(steps):
    program = classifier()
    for _ in range(steps):
        program.step(*program.batches[0])
    graph = torch.capture(program.step)(*program.batches[0]).check()
    outs = graph(*[np.array(value_of(program, name)) for name in graph.names])
    loss = program.step(*program.batches[0])
    for name, value in zip(graph.out_names, outs, strict=True):
        wanted = loss.numpy() if name == "result" else value_of(program, name.removesuffix(" (written)"))
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=1e-6, err_msg=name)


def test_the_stream_of_random_numbers_is_the_same_to_the_bit():
    torch.manual_seed(3)
    x = torch.ones(50)

    def noisy(x):
        return torch.nn.functional.dropout(x, 0.3) + torch.rand(50) + torch.randn(50)

    graph = torch.capture(noisy)(x)
    assert graph.names == ("args[0]", "generator")
    found, state = graph(x.numpy(), torch.get_rng_state().numpy())
    assert np.array_equal(found, noisy(x).numpy())
    assert np.array_equal(state, torch.get_rng_state().numpy())


def test_two_captures_are_equal_and_a_changed_step_is_not():
    program = classifier()
    program.step(*program.batches[0])
    one, two = [torch.capture(program.step)(*program.batches[k]) for k in (0, 1)]
    assert one == two
    program.model[3].p = 0.25
    assert torch.capture(program.step)(*program.batches[0]) != one


def test_a_number_that_is_asked_for_is_an_error_with_its_line():
    def branch(x):
        total = x.sum()
        return x if total > 0 else -x

    with pytest.raises(fgrad.errors.CaptureError, match=r"test_graphs.py:\d+ \(in .*branch\)"):
        torch.capture(branch)(torch.ones(2))


def test_lines_and_modules_stand_at_the_operations():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, x):
            return torch.tanh(self.inner(x))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    net = Net()

    def loss(x):
        net(x).sum().backward()

    graph = torch.capture(loss)(torch.ones(1, 2))
    modules = {node.source.module for node in graph.nodes}
    assert {"blocks.0.inner", "blocks.1.inner", "blocks.1"} <= modules
    assert {node.source.file for node in graph.nodes} == {__file__}
    tanh = next(node for node in graph.nodes if node.op.name == "tanh")
    assert tanh.source.module == "blocks.0" and "blocks.0" in str(tanh.source)
    backward = [node for node in graph.nodes if node.source.of == "tanh"]
    assert {node.source.module for node in backward} == {"blocks.0", "blocks.1"}


def test_modules_that_are_called_one_by_one_are_named_in_the_one_that_holds_them():
    net = torch.nn.ModuleDict({"encoder": torch.nn.Sequential(torch.nn.Tanh()), "decoder": torch.nn.Sigmoid()})

    def loss(x):
        net["decoder"](net["encoder"](x)).sum().backward()

    graph = torch.capture(loss)(torch.ones(1, 2, requires_grad=True))
    of = {node.op.name: node.source.module for node in graph.nodes}
    assert of["tanh"] == "encoder.0" and of["logistic"] == "decoder"


def test_the_graph_is_saved_with_the_names_of_its_outputs():
    model = torch.nn.Linear(2, 1)
    graph = torch.capture(lambda x: model(x))(torch.ones(3, 2))
    file = io.BytesIO()
    graph.save(file)
    file.seek(0)
    read = fgrad.load(file)
    assert read == graph and read.out_names == graph.out_names == ("result",)


def test_the_graph_of_a_step_is_read_back():
    """It has integers and rates of 64 bits, and Python numbers of operations on 32."""
    program = classifier()
    graph = torch.capture(program.step)(*program.batches[0])
    file = io.BytesIO()
    graph.save(file)
    file.seek(0)
    read = fgrad.load(file)
    assert read == graph and hash(read) == hash(graph) and read.names == graph.names
    values = [value_of(program, name) for name in graph.names]
    with fgrad.policy("reproducible"):
        results = [g(*values) for g in (read, graph)]
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


class Output:
    def __init__(self, loss):
        self.loss = [loss]


HIDING = [lambda y: ValueError(y), lambda y: lambda: y]


@pytest.mark.parametrize(
    "make, hidden",
    [*[(torch.capture, x) for x in HIDING], *[(torch.pure, x) for x in (Output, lambda y: {y}, *HIDING)]],
)
def test_a_result_that_hides_tensors_is_refused(make, hidden):
    with pytest.raises(CaptureError, match="result is a .* that holds tensors"):
        make(lambda x: hidden(x * 2))(torch.ones(2))


def test_it_goes_through_transformations():
    model = torch.nn.Linear(2, 1)
    graph = torch.capture(lambda x: model(x).square().sum())(torch.ones(3, 2))
    weight, bias, x = [np.random.default_rng(0).normal(size=t.shape).astype("float32") for t in graph.in_types]
    gradient = fgrad.grad(lambda w: graph(w, bias, x)[0])(weight)
    assert np.allclose(gradient, 2 * (x @ weight.T + bias).T @ x, rtol=1e-4)


def test_what_no_walk_finds_is_met_where_it_is_read():
    tensor = torch.ones(3)
    hidden = weakref.ref(tensor)
    graph = torch.capture(lambda x: x * hidden())(torch.ones(3))
    assert graph.names == ("args[0]", "outside[0]")


def test_tensors_that_share_memory_are_one_input():
    base = torch.zeros(4)
    left, right = base[:2], base[2:]

    def write(x):
        left.add_(x)
        right.mul_(2)
        return base.sum()

    graph = torch.capture(write)(torch.ones(2))
    assert len(graph.names) == 2 and len([n for n in graph.out_names if "written" in n]) == 1
    total, after = graph(*[np.arange(t.size, dtype="float32") for t in graph.in_types])
    assert np.allclose(sorted(np.asarray(after)), [0, 2, 4, 6]) and base.tolist() == [0, 0, 0, 0]
    assert float(total) == 12


def test_gradients_are_read_where_a_step_adds_to_them():
    w = torch.ones(2, requires_grad=True)

    def accumulate(x):
        (w * x).sum().backward()

    assert "w.grad" not in torch.capture(accumulate)(torch.ones(2)).names
    accumulate(torch.ones(2))
    graph = torch.capture(accumulate)(torch.ones(2))
    assert "w.grad" in graph.names and graph.out_names == ("w.grad (written)",)


def test_where_a_view_stands_is_a_number_of_the_graph(monkeypatch):
    copied = []
    monkeypatch.setattr(recording, "copied", lambda value: copied.append(value) or jnp.asarray(value))
    graph = torch.capture(lambda x: x[1:3] + x[2:4])(torch.ones(5))
    assert not copied and len(graph.names) == 1
    assert np.allclose(graph(np.arange(5, dtype="float32")), [3, 5])


def backward_of_a_slope():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    torch.nn.functional.leaky_relu(x, 0.2).sum().backward()
    return x.grad


INTEGERS = torch.arange(4)
SAVED = {
    "a slope": backward_of_a_slope,
    "a remainder": lambda: INTEGERS % 3,
    "a power": lambda: INTEGERS**2,
    "a clamp": lambda: INTEGERS.clamp(1, 2),
    "a maximum": lambda: torch.maximum(INTEGERS, INTEGERS.flip(0)),
}


@pytest.mark.parametrize("name", SAVED)
def test_a_graph_is_saved_and_loaded(name, tmp_path):
    graph = torch.capture(SAVED[name])()
    graph.save(tmp_path / "step.fgrad")
    loaded = fgrad.load(tmp_path / "step.fgrad")
    assert loaded.names == graph.names
    values = [INTEGERS.numpy()] * len(graph.names)
    for one, two in zip(loaded(*values), graph(*values), strict=True):
        np.testing.assert_array_equal(one, two)
