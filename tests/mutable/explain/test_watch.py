"""``torch.watch``: outputs of modules and their gradients by path, held against real PyTorch's hooks."""

import numpy as np
import pytest

import fgrad.torch as torch

real = pytest.importorskip("torch")


def transformer(t):
    class Block(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = t.nn.LayerNorm(4)
            self.attn = t.nn.MultiheadAttention(4, 2, batch_first=True)
            self.mlp = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(inplace=True), t.nn.Linear(8, 4))

        def forward(self, x):
            y = self.norm(x)
            x = x + self.attn(y, y, y)[0]
            return x + self.mlp(self.norm(x))

    return t.nn.Sequential(Block(), Block())


@pytest.fixture
def models():
    theirs, ours = transformer(real), transformer(torch)
    ours.load_state_dict({name: torch.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    return theirs, ours, x


def hooked(model, paths, x, loss):
    """What forward hooks and tensor hooks show in real PyTorch."""
    found = {path: [] for path in paths}
    for path, module in model.named_modules():
        if path in found:

            def hook(module, args, output, path=path):
                output = output[0] if isinstance(output, tuple) else output
                grads = []
                output.register_hook(grads.append)
                found[path].append((output.detach().clone(), grads))

            module.register_forward_hook(hook)
    loss(model(x)).backward()
    return found


PATHS = ("0.attn", "0.norm", "1.mlp", "1.mlp.2", "")


def agree(seen, theirs):
    for path, records in theirs.items():
        ours = [record for record in seen[path] if not record.path.endswith("[1]")]
        assert len(ours) == len(records)
        for record, (value, grads) in zip(ours, records, strict=True):
            np.testing.assert_allclose(record.value.numpy(), value.numpy(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(record.gradient.numpy(), grads[0].numpy(), rtol=1e-4, atol=1e-5)


def test_called(models):
    theirs, ours, x = models
    seen = torch.watch(ours, *PATHS)(torch.tensor(x))
    agree(seen, hooked(theirs, PATHS, real.tensor(x), lambda out: out.sum()))
    assert all(p.grad is None for p in ours.parameters())


def test_as_a_context_manager(models):
    theirs, ours, x = models
    with torch.watch(ours, *PATHS) as seen:
        loss = ours(torch.tensor(x)).square().mean()
        loss.backward()
    agree(seen, hooked(theirs, PATHS, real.tensor(x), lambda out: out.square().mean()))
    assert len(seen["0.norm"]) == 2, "one record for each call"


def test_no_hook_is_left_behind(models):
    _, ours, x = models
    torch.watch(ours)(torch.tensor(x))
    with torch.watch(ours, "*.weight", "0.attn"):
        out = ours(torch.tensor(x)).sum()
    assert not torch.hook_schedule(out)
    assert not any(module._forward_hooks for module in ours.modules())
    with pytest.raises(ZeroDivisionError), torch.watch(ours):
        raise ZeroDivisionError
    assert not any(module._forward_hooks for module in ours.modules())


def test_parameters_and_patterns(models):
    _, ours, x = models
    with torch.watch(ours, "0.mlp.*.weight") as seen:
        ours(torch.tensor(x)).sum().backward()
    assert list(seen) == ["0.mlp.0.weight", "0.mlp.2.weight"]
    for path, (record,) in seen.items():
        np.testing.assert_array_equal(record.gradient.numpy(), dict(ours.named_parameters())[path].grad.numpy())


def test_values_are_those_of_the_time():
    """ReLU writes into the output of the layer before."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True))
    with torch.no_grad():
        model[0].weight.fill_(-1.0)
        model[0].bias.fill_(0.0)
    seen = torch.watch(model, "0")(torch.ones(1, 2))
    np.testing.assert_array_equal(seen["0"][0].value.numpy(), [[-2.0, -2.0]])


def test_unknown_paths_say_which_there_are(models):
    with pytest.raises(NameError, match=r"has no module or parameter '0.atn'. It has: '', '0', '0.norm'"):
        torch.watch(models[1], "0.atn")


def test_it_prints_and_shows(models):
    _, ours, x = models
    with torch.no_grad():
        seen = torch.watch(ours, "0.attn", "")(torch.tensor(x))
    assert seen and str(seen) == repr(seen) and "(the model)" in str(seen)
    assert [record.path for record in seen["0.attn"]] == ["0.attn[0]", "0.attn[1]"]
    assert seen["0.attn"][0].gradient is None and "<table>" in seen._repr_html_()
