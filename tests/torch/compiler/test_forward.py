"""``torch.compile`` of modules and losses: a forward program, one node, a backward program."""

import copy
import gc
import io
import pickle
import weakref

import pytest

import fgrad.torch as torch
from tests.torch.compiler.programs import close


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 4, bias=False), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    )


def gradients(model):
    found = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    return found


def test_a_loss_has_one_node_and_the_gradients_that_it_has_uncompiled():
    model, twin = network(), network()
    compiled = torch.compile(lambda x: model(x).square().sum(), fullgraph=True)
    x = torch.randn(5, 3)
    for _ in range(4):
        loss, wanted = compiled(x), twin(x).square().sum()
        assert loss.grad_fn.name() == "CompiledFunctionBackward" and loss.requires_grad
        loss.backward()
        wanted.backward()
        for a, b in zip(gradients(model), gradients(twin), strict=True):
            close(a, b, exact=False)
        close(model[1].running_mean.numpy(), twin[1].running_mean.numpy(), exact=False)
        assert model[1].num_batches_tracked.item() == twin[1].num_batches_tracked.item()
    (program,) = [p for held in compiled._compiled.programs.values() for p in held]
    assert program.refused is None and program.calls == 4


def test_gradients_flow_to_arguments_and_through_what_made_them():
    model = network().eval()
    compiled = torch.compile(lambda x: model(x).sin().sum(), fullgraph=True)
    for _ in range(3):
        x = torch.ones(2, 3, requires_grad=True)
        compiled(x * 2).backward()
        (wanted,) = torch.autograd.grad(model(x * 2).sin().sum(), x)
        close(x.grad.numpy(), wanted.numpy(), exact=False)
    leaf = torch.ones(2, 3, requires_grad=True)
    compiled(leaf).backward()
    assert leaf.grad is not None and leaf.is_leaf


def test_a_view_from_outside_and_its_base_have_gradients_of_their_own():
    w = torch.ones(4, requires_grad=True)

    def f(base, view, w):
        return (base.sum() + (view * view * 3).sum() + w.sum()) * 2

    compiled = torch.compile(f, fullgraph=True)
    found = []
    for run in (f, compiled, compiled, compiled):
        w.grad = None
        base = w * 2
        assert not base.is_leaf
        run(base, base[:2], w).backward()
        found.append(w.grad.tolist())
    assert found == [[54, 54, 6, 6]] * 4


def test_a_write_to_what_has_a_history_is_no_write_to_a_leaf():
    def f(x):
        y = x * 2
        x.mul_(2)
        return y + x

    compiled = torch.compile(f)
    for _ in range(3):
        leaf, other = [torch.ones(2, requires_grad=True) for _ in range(2)]
        x = leaf * 1
        compiled(x).sum().backward()
        f(other * 1).sum().backward()
        close(leaf.grad.numpy(), other.grad.numpy(), exact=False)
        assert x.tolist() == [2, 2]


def test_a_backward_inside_goes_on_outside():
    compiled = torch.compile(lambda x: (x * 2).sum().backward())
    for _ in range(3):
        leaf = torch.ones(2, requires_grad=True)
        compiled(leaf * 3)
        assert leaf.grad.tolist() == [6, 6]
    compiled = torch.compile(lambda x, y: torch.autograd.grad(x.sum(), y, allow_unused=True)[0])
    for _ in range(3):
        leaf = torch.ones(2, requires_grad=True)
        assert compiled(leaf * 3, leaf).tolist() == [3, 3]


def test_what_is_detached_inside_has_no_gradient():
    w = torch.tensor([2.0], requires_grad=True)

    def f(x):
        with torch.no_grad():
            scale = w * 3
        return (w * x * scale + w.detach() * x).sum()

    compiled = torch.compile(f, fullgraph=True)
    for _ in range(3):
        w.grad = None
        compiled(torch.ones(1)).backward()
        assert w.grad.item() == 6


def test_several_results_some_without_a_gradient():
    w = torch.tensor([2.0], requires_grad=True)
    compiled = torch.compile(lambda x: {"a": w * x, "b": (w * w, x + 1)}, fullgraph=True)
    for _ in range(3):
        w.grad = None
        found = compiled(torch.ones(1))
        assert not found["b"][1].requires_grad and found["a"].grad_fn is found["b"][0].grad_fn
        found["b"][0].backward()
        assert w.grad.item() == 4


def test_a_write_between_forward_and_backward_is_the_error_that_it_is():
    model = network().eval()
    compiled = torch.compile(lambda x: model(x).sum())
    for _ in range(3):
        loss = compiled(torch.ones(2, 3))
    with torch.no_grad():
        model[3].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    "function",
    [
        lambda y: [y.exp()],
        lambda y: [y.relu_()],
        lambda y: [(z := y.exp()) * 2, z],
        lambda y: [(z := y.exp()) * 2, z.detach()],
    ],
)
def test_a_write_to_a_result_that_its_history_has_saved_is_the_error_that_it_is(function):
    w = torch.tensor([2.0], requires_grad=True)
    compiled = torch.compile(lambda: function(w * 3))
    for _ in range(4):
        results = compiled()
        results[-1].detach().add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            results[0].sum().backward()


def test_a_result_is_freed_at_once():
    w = torch.tensor([2.0], requires_grad=True)
    compiled = torch.compile(lambda: (w * 3).exp())
    gc.disable()
    try:
        for _ in range(4):
            result = weakref.ref(compiled())
            assert result() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("keep", [lambda kept, h: kept.append(h), lambda kept, h: kept.__setitem__(0, h)])
def test_a_tensor_that_is_left_in_a_container_has_a_gradient_too(keep):
    def trained(way):
        w, kept, seen = torch.tensor([2.0, 3.0], requires_grad=True), [None], []

        def function(x):
            h = (w * x).tanh()
            keep(kept, h)
            return h.exp().sum()

        step = way(function)
        for i in range(5):
            loss = step(torch.full((2,), 0.1 * i))
            (loss + kept[-1].pow(2).sum()).backward()
            seen.append(w.grad.tolist())
        return seen, step

    expected, _ = trained(lambda function: function)
    found, step = trained(torch.compile)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert any(program.refused is None for each in step._compiled.programs.values() for program in each)


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_backward_twice_is_an_error():
    w = torch.tensor([2.0], requires_grad=True)
    compiled = torch.compile(lambda: (w * w).sum())
    for _ in range(3):
        loss = compiled()
    loss.backward(retain_graph=True)
    loss.backward()
    assert w.grad.item() == 8
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_a_module_is_wrapped():
    model = network()
    compiled = torch.compile(model)
    x = torch.randn(4, 3)
    for _ in range(3):
        compiled(x).sum().backward()
        found = gradients(compiled)
    model.eval()
    close(compiled.eval()(x).detach().numpy(), model(x).detach().numpy(), exact=False)
    assert compiled._orig_mod is model and len(found) == 5
    assert next(iter(compiled.state_dict())) == "_orig_mod.0.weight"
    assert compiled.__getitem__(0) is model[0]


def test_a_module_compiles_itself():
    model, twin = network(), network()
    model.compile()
    x = torch.randn(4, 3)
    for _ in range(3):
        model(x).sum().backward()
        twin(x).sum().backward()
        for a, b in zip(gradients(model), gradients(twin), strict=True):
            close(a, b, exact=False)
    assert list(model.state_dict()) == list(twin.state_dict())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model)), saved_and_loaded])
@pytest.mark.parametrize("makes", [torch.nn.Linear, torch.nn.LSTM])
def test_a_copy_of_a_module_that_compiles_itself_computes_with_its_own_parameters(copied, makes):
    model, x = makes(3, 3), torch.ones(2, 3)
    model.compile()
    model(x)
    copy_of_it = copied(model)
    for p in copy_of_it.parameters():
        torch.nn.init.zeros_(p)
    results = [result[0] if isinstance(result, tuple) else result for result in (copy_of_it(x), model(x))]
    assert [bool(result.any()) for result in results] == [False, True]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_of_a_compiled_module_is_compiled(copied):
    compiled, x = torch.compile(torch.nn.Linear(3, 3)), torch.ones(2, 3)
    compiled(x)
    copy_of_it = copied(compiled)
    for p in copy_of_it.parameters():
        torch.nn.init.zeros_(p)
    result = copy_of_it(x)
    assert not result.any() and compiled(x).any() and result.grad_fn.name() == "CompiledFunctionBackward"


def test_a_forward_of_the_module_itself_is_compiled_and_copied():
    model = torch.nn.Linear(2, 2)
    model.forward = lambda x: x * 7
    model.compile()
    assert [each(torch.ones(1)).item() for each in (model, copy.deepcopy(model))] == [7, 7]


def test_a_linear_layer_adds_its_bias_in_place_as_uncompiled():
    layer, x = torch.nn.Linear(2, 3), torch.randn(2, 3, 4)[:, :, 1:3]
    compiled = torch.compile(layer)
    assert [compiled(x)._version for _ in range(3)] == [layer(x)._version] * 3 == [1] * 3


def test_attributes_of_a_compiled_module_are_those_of_the_module():
    model = torch.nn.Sequential(torch.nn.Dropout())
    compiled = torch.compile(model)
    model.eval()
    assert not compiled.training and len(compiled) == 1
    compiled.training = True
    assert model.training
    compiled.note = 1
    del compiled.note
    assert not hasattr(model, "note")
    assert torch.compile(torch.nn.ReLU())  # true, as every module without a length


def test_an_optimisers_step_alone():
    model, twin = network(), network()
    optimizer, other = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (model, twin)]
    step = torch.compile(optimizer.step)
    x = torch.randn(4, 3)
    for _ in range(5):
        for m, update in ((model, step), (twin, other.step)):
            m.zero_grad()
            m(x).square().sum().backward()
            update()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        close(a.detach().numpy(), b.detach().numpy(), exact=False)
    assert any(p.refused is None for held in step._compiled.programs.values() for p in held)


def registered(y, log):
    y.grad_fn.register_prehook(lambda *_: log.append("hook"))
    return y * 3


def retained(y, log):
    y.mul_(2)
    return y * 3


def reached(y, log):
    (y * 3).sum().backward(retain_graph=True)
    return y * 3


@pytest.mark.parametrize("function", [registered, retained, reached])
def test_hooks_of_nodes_from_outside_are_as_uncompiled(function):
    def run(compile):
        log, outside = [], []
        x = torch.ones(2, requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.grad_fn.register_prehook(lambda *_: outside.append("hook"))
        compile(lambda y: function(y, log))(y).sum().backward()
        return log, outside, x.grad.tolist(), y.grad.tolist()

    assert run(torch.compile) == run(lambda f: f)


def test_explaining_leaves_the_hooks_of_nodes_as_they_were():
    node = (torch.ones(2, requires_grad=True) * 2).grad_fn
    handle = node.register_prehook(print)
    torch.compiler.explain(lambda x: (handle.remove(), node.register_hook(print), x * 2))(torch.ones(2))
    torch.compiler.explain(lambda x: (x.sum().item(), handle.remove(), node.register_hook(print)))(torch.ones(2))
    assert node._attached.pre_hooks and not node._attached.post_hooks


def scaled_ones(x, kept):
    leaf = torch.ones(3, requires_grad=True)
    return leaf, leaf * x


def viewed(x, kept):
    leaf = torch.ones(3).requires_grad_()
    return leaf, leaf[1:] * 2


def computed(x, kept):
    leaf = (x * 2).detach().requires_grad_()
    return leaf, leaf * x


def left(x, kept):
    kept["leaf"] = torch.ones(3, requires_grad=True)
    return kept["leaf"].detach(), kept["leaf"] * x


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [scaled_ones, viewed, computed, left])
def test_a_leaf_that_is_made_inside_gets_its_gradient(function, requires_grad):
    def run(f):
        kept, found = {"leaf": None}, []
        for k in range(4):
            x = torch.full((3,), k + 1.0, requires_grad=requires_grad)
            leaf, result = f(x, kept)
            result.sum().backward()
            found.append([None if t is None or t.grad is None else t.grad.tolist() for t in (leaf, kept["leaf"], x)])
        return found

    kept = function(torch.ones(3), {"leaf": None})
    assert kept[1].requires_grad and run(torch.compile(function)) == run(function)


COUNTS, LOG, MEMORY = {"n": 0, "gradient": None}, [], torch.zeros(3)


def counted(ctx, g):
    COUNTS["n"] += 1


def logged(ctx, g):
    LOG.append(len(LOG))


def kept_in_a_dict(ctx, g):
    COUNTS["gradient"] = g * 2


def written(ctx, g):
    ctx.other.mul_(2)


def written_outside(ctx, g):
    MEMORY.add_(1)


def drawn(ctx, g):
    g.mul_(torch.rand(3))


@pytest.mark.parametrize("effect", [counted, logged, kept_in_a_dict, written, written_outside, drawn])
def test_what_backward_does_is_done_when_it_runs(effect):
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.other = y
            return x * y

        @staticmethod
        def backward(ctx, g):
            g = g.clone()
            effect(ctx, g)
            return g * 3, None

    def run(f):
        torch.manual_seed(0)
        COUNTS.update(n=0, gradient=None)
        LOG.clear()
        MEMORY.zero_()
        seen = []

        def look(*tensors):
            kept = COUNTS["gradient"], MEMORY, torch.get_rng_state().sum(), *tensors
            seen.append((COUNTS["n"], len(LOG), [None if x is None else x.tolist() for x in kept]))

        for k in range(4):
            x, y = torch.ones(3, requires_grad=True), torch.arange(3.0) + k
            loss = f(x, y).sum()
            look(loss, y)
            if k != 1:
                loss.backward()
            look(x.grad, y)
        return seen

    assert run(torch.compile(lambda x, y: Product.apply(x, y))) == run(lambda x, y: Product.apply(x, y))
