import multiprocessing
import signal
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import pytest

import fgrad.torch as torch
from fgrad.torch.multiprocessing import ProcessContext, ProcessExitedException, ProcessRaisedException


def test_names_are_pythons():
    assert torch.multiprocessing.Process is multiprocessing.Process and torch.multiprocessing.Queue
    assert torch.multiprocessing.get_sharing_strategy() in torch.multiprocessing.get_all_sharing_strategies()
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x'"):
        torch.multiprocessing.set_sharing_strategy("x")


def _fail(index, text):
    if index == 0:
        raise ValueError(text)


def _succeed(index, path):
    (path / str(index)).write_text("here")


@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.parametrize("join", [True, False])
def test_processes_run(tmp_path, join):
    started = torch.multiprocessing.start_processes(_succeed, (tmp_path,), 2, join=join, start_method="fork")
    while started is not None and not started.join():
        assert len(started.pids()) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.filterwarnings("ignore:os.fork")
def test_an_error_in_a_process_comes_back():
    with pytest.raises(ProcessRaisedException, match=r"(?s)Process 0 terminated with.*ValueError: so") as caught:
        torch.multiprocessing.start_processes(_fail, ("so",), 1, start_method="fork")
    assert caught.value.error_index == 0


@pytest.mark.parametrize(
    ("code", "text"), [(3, "exit code 3"), (-signal.SIGTERM, "signal SIGTERM"), (-99, "<Unknown signal 99>")]
)
def test_how_a_process_ended(tmp_path, code, text):
    context = ProcessContext([SimpleNamespace(sentinel=0, exitcode=code, pid=1)], [str(tmp_path / "none")])
    with pytest.raises(ProcessExitedException, match=text):
        context._raise(0)


def test_sharing_memory_changes_nothing_in_one_process():
    x = torch.ones(2)
    assert x.share_memory_() is x and x.is_shared() and x[1:].is_shared() and x.untyped_storage().is_shared()
    assert not torch.ones(2).is_shared()
    layer = torch.nn.Linear(1, 1).share_memory()
    assert all(p.is_shared() for p in layer.parameters())
    assert (x + 1).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="uninitialized parameter"):
        torch.nn.LazyLinear(1).share_memory()


def _read(index, tensor):
    tensor.sum().item()


@pytest.mark.filterwarnings("ignore:os.fork")
def test_shared_memory_is_refused_in_another_process():
    """It would not be seen there what is written here."""
    tensor = torch.nn.Parameter(torch.ones(2)).share_memory_()
    with pytest.raises(ProcessRaisedException, match="cannot be shared between processes"):
        torch.multiprocessing.start_processes(_read, (tensor,), 1, start_method="fork")
    with pytest.raises(RuntimeError, match="cannot be shared between processes"):
        ForkingPickler.dumps(tensor)
    assert tensor.tolist() == [1.0, 1.0]
