"""Agents that learn a small task for some tens of steps: PPO, DQN and SAC."""

import gymnasium
import numpy as np
from stable_baselines3 import DQN, PPO, SAC


class Task(gymnasium.Env):
    """Keep a point near zero."""

    def __init__(self, continuous):
        self.observation_space = gymnasium.spaces.Box(-5, 5, (3,), np.float32)
        self.action_space = (
            gymnasium.spaces.Box(-1, 1, (2,), np.float32) if continuous else gymnasium.spaces.Discrete(2)
        )

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = np.array([0.1, -0.2, 0.3], np.float32), 0
        return self.at, {}

    def step(self, action):
        push = np.clip(np.sum(action), -1, 1)
        self.at = np.clip(0.9 * self.at + np.array([0.1, 0.05, -0.02]) * push, -5, 5).astype(np.float32)
        self.steps += 1
        return self.at, float(-np.square(self.at).sum()), False, self.steps >= 12, {}


small = {"policy_kwargs": {"net_arch": [8, 8]}, "seed": 0, "device": "cpu"}
agents = {
    "ppo": PPO("MlpPolicy", Task(False), n_steps=32, batch_size=16, n_epochs=2, **small),
    "dqn": DQN("MlpPolicy", Task(False), learning_starts=20, batch_size=8, target_update_interval=10, **small),
    "sac": SAC("MlpPolicy", Task(True), learning_starts=20, batch_size=8, **small),
}
outputs = {}
for name, agent in agents.items():
    agent.learn(40)
    outputs[name] = next(agent.policy.parameters())
    outputs[f"{name} acts"] = np.asarray(agent.predict(np.array([0.1, 0.2, 0.3], np.float32), deterministic=True)[0])
