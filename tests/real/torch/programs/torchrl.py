"""Losses of PPO and SAC, with several critics at once."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Bounded
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, SACLoss

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(3, 4), NormalParamExtractor())
actor = ProbabilisticActor(
    TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
    in_keys=["loc", "scale"],
    distribution_class=TanhNormal,
    spec=Bounded(-1, 1, (2,)),
    return_log_prob=True,
)
value = ValueOperator(torch.nn.Linear(3, 1), in_keys=["observation"])
critic = ValueOperator(MLP(in_features=5, out_features=1, num_cells=[4]), in_keys=["observation", "action"])
never = torch.zeros(6, 1, dtype=torch.bool)
following = {"observation": torch.randn(6, 3), "reward": torch.randn(6, 1), "done": never, "terminated": never}
data = TensorDict(
    {
        "observation": torch.randn(6, 3),
        "action": torch.rand(6, 2) - 0.5,
        "action_log_prob": torch.full((6,), -1.0),
        "next": following,
    },
    [6],
)
outputs = {}
for name, loss in {"ppo": ClipPPOLoss(actor, value), "sac": SACLoss(actor, critic)}.items():
    torch.manual_seed(1)
    losses = {key: x for key, x in loss(data.clone()).items() if key.startswith("loss_")}
    sum(losses.values()).backward()
    outputs |= {f"{name} {key}": x for key, x in losses.items()}
    outputs |= {f"{name} {key}": x.grad for key, x in loss.named_parameters() if x.grad is not None}
