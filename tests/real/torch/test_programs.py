"""The programs give the same values and gradients on both sides."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent.parent

#: the programs, and the libraries that each needs
PROGRAMS = {
    "accelerate": ["accelerate"],
    "backpack": ["backpack"],
    "botorch": ["botorch", "gpytorch"],
    "captum": ["captum"],
    "curvlinops": ["curvlinops"],
    "denoising_diffusion": ["denoising_diffusion_pytorch", "torchvision"],
    "diffusers": ["diffusers"],
    "e3nn": ["e3nn"],
    "einops": ["einops"],
    "entmax": ["entmax"],
    "fastai": ["fastai", "fastdownload"],
    "FrEIA": ["FrEIA"],
    "geomloss": ["geomloss"],
    "geoopt": ["geoopt"],
    "geotorch": ["geotorch"],
    "gpytorch": ["gpytorch"],
    "heavyball": ["heavyball"],
    "higher": ["higher"],
    "ignite": ["ignite"],
    "kornia": ["kornia"],
    "laplace": ["laplace"],
    "lightning": ["lightning"],
    "linear_operator": ["linear_operator"],
    "litgpt": ["litgpt"],
    "local_attention": ["local_attention"],
    "mmengine": ["mmengine"],
    "mpc": ["mpc"],
    "neuralop": ["neuralop"],
    "nflows": ["nflows"],
    "nngeometry": ["nngeometry"],
    "nnsight": ["nnsight"],
    "normflows": ["normflows"],
    "opacus": ["opacus"],
    "peft": ["peft", "transformers"],
    "pyhessian": ["pyhessian"],
    "pypose": ["pypose"],
    "pyro": ["pyro"],
    "pytorch_metric_learning": ["pytorch_metric_learning"],
    "pytorch_optimizer": ["pytorch_optimizer"],
    "reformer_pytorch": ["reformer_pytorch"],
    "roma": ["roma"],
    "rotary_embedding_torch": ["rotary_embedding_torch"],
    "schedulefree": ["schedulefree"],
    "skorch": ["skorch"],
    "snntorch": ["snntorch"],
    "speechbrain": ["speechbrain"],
    "stable_baselines3": ["stable_baselines3", "gymnasium"],
    "tensorboard": ["tensorboard"],
    "tensordict": ["tensordict"],
    "timm": ["timm", "torchvision"],
    "torch_ema": ["torch_ema"],
    "torch_geometric": ["torch_geometric"],
    "torch_pruning": ["torch_pruning"],
    "torch_struct": ["torch_struct"],
    "torchdeq": ["torchdeq"],
    "torchdiffeq": ["torchdiffeq"],
    "torchmetrics": ["torchmetrics"],
    "torchmin": ["torchmin"],
    "torchopt": ["torchopt"],
    "torchrl": ["torchrl", "tensordict"],
    "torchsde": ["torchsde"],
    "torchvision": ["torchvision"],
    "transformers": ["transformers"],
    "unfoldnd": ["unfoldNd"],
    "vector_quantize_pytorch": ["vector_quantize_pytorch"],
    "vit_pytorch": ["vit_pytorch"],
    "x_transformers": ["x_transformers"],
    "xitorch": ["xitorch"],
    "zuko": ["zuko"],
}


def missing(name: str) -> list[str]:
    """The libraries that a program lacks here."""
    return [library for library in ("torch", *PROGRAMS[name]) if importlib.util.find_spec(library) is None]


def played_all(side: str, programs: Sequence[Path], folder: Path) -> dict[str, np.ndarray]:
    """What programs leave on one side, one after the other in one process, by program and name."""
    file = folder / f"{side}.npz"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    found = subprocess.run(
        [sys.executable, HERE / "run.py", side, file, *programs],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return dict(np.load(file))


@pytest.mark.real
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path):
    for library in missing(name):
        pytest.skip(f"{library} is not installed")
    theirs, ours = (played_all(side, [HERE / "programs" / f"{name}.py"], tmp_path) for side in ("pytorch", "fgrad"))
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype and np.isfinite(value).all()
        np.testing.assert_allclose(ours[key], value, rtol=2e-4, atol=2e-5, err_msg=key)


def test_every_program_is_played():
    assert {path.stem for path in (HERE / "programs").glob("*.py")} == PROGRAMS.keys()
