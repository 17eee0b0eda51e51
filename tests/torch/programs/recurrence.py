"""Recurrent layers: which nodes they leave, what these save, and what writing to it does."""

import warnings

import fgrad.torch as torch

torch.manual_seed(0)
x = torch.randn(5, 2, 3, requires_grad=True)


def tree(node, depth=0):
    """A node and those behind it, up to the leaves."""
    if node is None:
        return
    print(" " * depth + node.name())
    for following, _ in node.next_functions:
        if following is None or following.name() != "torch::autograd::AccumulateGrad":
            tree(following, depth + 1)


def first_line(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error).splitlines()[0]


for options in ({}, {"num_layers": 2, "bidirectional": True, "dropout": 0.5}, {"bias": False}, {"batch_first": True}):
    layer = torch.nn.LSTM(3, 4, **options)
    output, (hidden, cell) = layer(x)
    print(options, output.stride(), hidden.stride(), output._is_view(), output._version)
    for each in (output, hidden, cell):
        tree(each.grad_fn)
    for gradient in torch.autograd.grad(output.square().sum() + cell.sum(), [x, *layer.parameters()]):
        print(gradient.shape, gradient.stride(), gradient.sum().round(decimals=3))

layer = torch.nn.LSTM(3, 4)
state = torch.zeros(1, 2, 4, requires_grad=True)
output, (hidden, cell) = layer(x, (state, state))
tree(output.grad_fn)
node = output.grad_fn
for name in ("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_", "result0", "result1", "result2"):
    print(name, getattr(node, "_saved_" + name).shape)
print(node._saved_reverse, node._saved_has_biases, node._saved_mode)

(gradient,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
print([g.sum().round(decimals=3) for g in torch.autograd.grad(gradient.square().sum(), [x, *layer.parameters()])])

output, (hidden, cell) = layer(x)
cell.mul_(2)
print(torch.autograd.grad(cell.sum(), x)[0].sum().round(decimals=3))
output, _ = layer(x)
output.mul_(2)
print(first_line(lambda: torch.autograd.grad(output.sum(), x)))
output, _ = layer(x)
with torch.no_grad():
    layer.weight_hh_l0.mul_(2)
print(first_line(lambda: torch.autograd.grad(output.sum(), x)))

for dtype in (torch.float16, torch.float64):  # whether oneDNN takes bfloat16 depends on the processor
    print(dtype, torch.nn.LSTM(3, 4, dtype=dtype)(x.detach().to(dtype))[0].grad_fn)
print(first_line(lambda: layer(x[:0])))
print(layer(x[:, :0])[0].grad_fn, layer(x[:, 0])[0].grad_fn)
packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
print(layer(packed)[0].data.grad_fn)
with torch.backends.mkldnn.flags(enabled=False), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    tree(torch.nn.LSTM(3, 4)(x[:1])[0].grad_fn)
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    tree(torch.nn.LSTM(3, 4, proj_size=2)(x[:1])[0].grad_fn)
print([str(each.message).split(" (Trig")[0] for each in given if each.category is UserWarning])

# cells write in place what they alone hold
state = torch.ones(2, 4)
gru, lstm = torch.nn.GRUCell(3, 4), torch.nn.LSTMCell(3, 4)
new, (hidden, cell) = gru(x[0], state), lstm(x[0], (state, state))
print(new._version, hidden._version, cell._version, torch.nn.RNNCell(3, 4)(x[0], state)._version)
tree(new.grad_fn)
print(torch.autograd.grad((new * cell).sum(), gru.weight_hh)[0].sum().round(decimals=3))
