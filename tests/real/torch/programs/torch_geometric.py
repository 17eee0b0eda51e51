"""Convolutions, pooling and batches of graphs, with their gradients."""

import numpy as np
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import GCN, GATv2Conv, GINEConv, HGTConv, TransformerConv, global_mean_pool

rng = np.random.default_rng(0)


def numbers(*shape):
    return torch.tensor(rng.standard_normal(shape).astype(np.float32))


def filled(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * numbers(*parameter.shape))
    return module


x, edges = numbers(5, 4), torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0, 4], [1, 0, 2, 1, 3, 2, 0, 3, 0]])
outputs = {}
for layer in (GATv2Conv(4, 3, heads=2), TransformerConv(4, 3), GINEConv(torch.nn.Linear(4, 3), edge_dim=2)):
    filled(layer)
    named = {"edge_attr": numbers(9, 2)} if isinstance(layer, GINEConv) else {}
    layer(x, edges, **named).square().mean().backward()
    outputs |= {f"{type(layer).__name__}.{name}": p.grad for name, p in layer.named_parameters()}

graphs = [Data(x=numbers(n, 4), edge_index=edges[:, :1], y=torch.tensor([n % 2])) for n in (2, 3, 4)]
batch, net = Batch.from_data_list(graphs), filled(GCN(4, 8, 2, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    pooled = global_mean_pool(net(batch.x, batch.edge_index), batch.batch)
    outputs[f"loss {step}"] = loss = torch.nn.functional.cross_entropy(pooled, batch.y)
    loss.backward()
    optimizer.step()

data = HeteroData(a={"x": numbers(3, 4)}, b={"x": numbers(2, 4)})
data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 1]])
data["b", "from", "a"].edge_index = torch.tensor([[0, 1], [1, 2]])
typed = filled(HGTConv(4, 4, data.metadata(), heads=2))(data.x_dict, data.edge_index_dict)
outputs |= {"typed a": typed["a"], "typed b": typed["b"]}
