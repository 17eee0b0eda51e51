"""``install()``: ``import torch`` means this package, and only while it is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad.torch as torch

ROOT = Path(__file__).parent.parent.parent


def output(program):
    """What a program prints in a process of its own."""
    found = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_compiled_step_reaches_what_is_the_users():
    """The library's own tables are none of it, whatever its classes are called."""
    program = """
import fgrad.torch
fgrad.torch.install()
import torch
from fgrad.mutable.capture.snapshot import Snapshot, roots_of
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.ones(4)).sum().backward()
    optimizer.step()
print(len(Snapshot().walk(roots_of(step)).objects))
"""
    assert int(output(program)) < 60


def test_import_torch_means_this_package():
    program = """
import importlib.metadata, importlib.util, sys
import fgrad.torch as ours
before = ours.__name__, ours.__spec__
handle = ours.install()
import torch
import torch.nn.functional as F
import torch.utils.data
from torch.optim import SGD
from torch import nn
assert torch is ours and torch.__name__ == "torch" and torch.__version__ == "2.13.0" and torch.__file__
assert F is ours.nn.functional and nn is ours.nn and SGD is ours.optim.SGD
assert sys.modules["torch.nn"] is sys.modules["fgrad.torch.nn"] and nn.__spec__.name == "fgrad.torch.nn"
assert torch.Tensor.__module__ == "torch" and nn.Parameter.__module__ == "torch.nn.parameter"
import opt_einsum
w, b = nn.Linear(3, 2).parameters()
assert all(opt_einsum.contract("ij,i->j", *each).grad_fn for each in ((w, b), (w[:], b)))
import io, pickle
file = io.BytesIO()
torch.save({"w": w, "class": torch.Tensor}, file)
file.seek(0)
for each in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps({"w": w, "class": torch.Tensor}))):
    assert torch.equal(each["w"], w) and type(each["w"]) is nn.Parameter and each["class"] is torch.Tensor
assert importlib.util.find_spec("torch") is torch.__spec__ and torch.__spec__.name == "torch"
assert importlib.util.find_spec("torch.nn").name in ("torch.nn", "fgrad.torch.nn")
assert importlib.metadata.version("torch") == "2.13.0"
import multiprocessing
assert multiprocessing.connection and multiprocessing.spawn  # pfrl, for one, does not import it
try:
    import torch.nothing
except ModuleNotFoundError as error:
    assert "fgrad.torch has nothing of that name" in str(error)
else:
    raise AssertionError
import torch.distributions
assert {"Normal", "Beta", "kl_divergence"} <= vars(torch.distributions).keys() and "Adam" in vars(torch.optim)
assert "StepLR" in vars(torch.optim.lr_scheduler)  # which no import names
import functorch
from functorch import vmap, make_functional
assert functorch is ours._functorch.deprecated and vmap is ours.func.vmap
try:
    from functorch import dim
except ImportError as error:
    assert "cannot import name 'dim'" in str(error)
else:
    raise AssertionError
ours.install()
ours.uninstall()
assert (ours.__name__, ours.__spec__) == before
assert ours.Tensor.__module__ == "fgrad.torch" and ours.nn.Parameter.__module__ == "fgrad.torch.nn.parameter"
assert not any(name.partition(".")[0] in ("torch", "functorch") for name in sys.modules)
with ours.install():
    import torch.fft
    assert torch.ones(2).sum().item() == 2.0
assert "torch" not in sys.modules
ours.uninstall()
import fgrad.torch.nn
print("done")
"""
    assert output(program) == "done\n"


def test_files_of_an_installed_process():
    """Names in files are PyTorch's, whichever name the package has."""
    program = """
import io, fgrad.torch
with fgrad.torch.install():
    import torch
    stream = io.BytesIO()
    torch.save([torch.nn.Linear(2, 1), torch.float32, torch.Size([1])], stream)
    stream.seek(0)
    found = torch.load(stream, weights_only=False)
    assert b"ctorch.nn.modules.linear" in stream.getvalue() and b"fgrad" not in stream.getvalue()
    assert type(found[0]) is torch.nn.Linear and found[1:] == [torch.float32, torch.Size([1])]
"""
    output(program)


def test_a_library_with_machine_code_uses_its_python(tmp_path):
    package = tmp_path / "torchaudio" / "_extension"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("from .utils import _load_lib\nfound = _load_lib('_torchaudio')\n")
    (package / "utils.py").write_text("def _load_lib(library):\n    raise OSError(library)\n")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import fgrad.torch
fgrad.torch.install()
from torchaudio import _extension
print(_extension.found)
"""
    assert output(program) == "False\n"


def test_with_pytorch_in_the_process_it_is_refused():
    pytest.importorskip("torch")
    before = sys.modules["torch"]
    with pytest.raises(RuntimeError, match=r"another torch is imported(.|\n)*call fgrad\.torch\.install"):
        torch.install()
    torch.uninstall()
    assert sys.modules["torch"] is before and torch.__name__ == "fgrad.torch"


def run_as_program(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "fgrad.torch", *arguments],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, **options,
    )  # fmt: skip


def test_a_program_of_pytorch_runs_as_it_is(tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "beside.py").write_text("import torch\nx = torch.ones(2, requires_grad=True)\n")
    (folder / "train.py").write_text(
        "import sys\nimport torch\nfrom beside import x\n\n(x * x).sum().backward()\n"
        "print(x.grad, __name__, sys.argv[1:], torch.__name__)\n"
    )
    found = run_as_program("programs/train.py", "--lr", "0.1", cwd=tmp_path)
    assert found.stdout == "tensor([2., 2.]) __main__ ['--lr', '0.1'] torch\n", found.stderr


def test_running_a_program_names_what_is_wrong(tmp_path):
    missing, none = run_as_program("train.py", cwd=tmp_path), run_as_program(cwd=tmp_path)
    assert missing.stderr == "python -m fgrad.torch: there is no file 'train.py'\n" and missing.returncode == 1
    assert none.stderr.startswith("usage: python -m fgrad.torch PROGRAM.py") and none.returncode == 1
