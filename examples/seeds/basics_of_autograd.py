"""What the seed document "The basic knowledge of autograd" describes: a graph of functions, the chain rule on it."""

import fgrad.torch as torch


def model(x, y):
    return 3 * x**3 - y**2


a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0], requires_grad=True)
out = model(a, b)
print(out)


def show(node, depth=0):
    """The graph below a node, a line for each function."""
    print("  " * depth + type(node).__name__)
    for below, _ in node.next_functions:
        if below is not None:
            show(below, depth + 1)


show(out.grad_fn)

# a vector has no gradient without a gradient to begin with
try:
    out.backward()
except RuntimeError as error:
    print("RuntimeError:", str(error).splitlines()[0])
out.backward(gradient=torch.tensor([1.0, 1.0]))
print(a.grad, a.grad == 9 * a**2)
print(b.grad, b.grad == -2 * b)

# backward frees what the graph has saved
try:
    out.backward(gradient=torch.tensor([1.0, 1.0]))
except RuntimeError as error:
    print("RuntimeError:", str(error).splitlines()[0])


class Exp(torch.autograd.Function):
    """The exponential with its derivative, as the document writes it."""

    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        (result,) = ctx.saved_tensors
        return grad_output * result


x = torch.tensor([0.0, 1.0], requires_grad=True)
y = Exp.apply(x)
print(y)
y.sum().backward()
print(x.grad)

# a training step: forward, backward, p = p - lr * p.grad
p = torch.tensor([1.0, -1.0], requires_grad=True)
optimizer = torch.optim.SGD([p], lr=0.1)
for _ in range(3):
    loss = (p**2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}", p.data)
