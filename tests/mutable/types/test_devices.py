"""Devices by name against PyTorch's; which of JAX's they are, on this machine and on pretended ones."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import jax
import pytest
from attrs import frozen

from fgrad.mutable.types import devices
from fgrad.mutable.types.devices import device
from tests.documents import ROOT
from tests.torch.oracle import outcome

torch = pytest.importorskip("torch")

ABSENT = ["cuda", "cuda:1", "xpu"]

ARGUMENTS = [
    *[("cpu",), ("cpu:0",), ("cpu", 1), ("cuda",), ("cuda:0",), ("cuda", 127), ("cuda", None), ("meta",), ("meta:3",)],
    *[("xla",), ("mps",), ("xpu:3",), ("privateuseone:1",), ("hip",), ("vulkan",)],
    *[("",), (":0",), ("1",), ("foo",), ("foo:0",), ("CPU",), ("cuda1",), ("cuda:",), ("cuda:-1",), ("cuda:01",)],
    *[("cuda:00",), ("cuda:0x1",), ("cuda:+1",), ("cuda:1 ",), (" cuda",), ("cpu\n",), ("cuda:0:1",), ("cuda_x",)],
    *[("cpü",), ("cuda:2147483648",), ("cuda", -1), ("cuda:0", 1), ("cuda:0", -1), ("cuda", "0"), ("cuda", 1.0)],
    *[("cuda", True), (None,), (3.0,), (True,), (0, 1), ([], 1), (0,), (1,), (-1,)],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=repr)
def test_names(arguments):
    ours, theirs = outcome(device, *arguments), outcome(torch.device, *arguments)
    assert ours == theirs
    if not ours.raised:
        assert str(ours.value) == str(theirs.value)
        assert (ours.value.type, ours.value.index) == (theirs.value.type, theirs.value.index)


@pytest.mark.parametrize("named", [{"type": "cuda"}, {"type": "cuda", "index": 1}, {"device": "cuda:1"}], ids=repr)
def test_named_arguments(named):
    assert outcome(device, **named) == outcome(torch.device, **named)


def test_equality():
    assert device("cuda", 1) == device("cuda:1") == device(device("cuda:1")) and device("cpu") != "cpu"
    assert device("cpu") != device("cpu:0") and device("cpu") != device("cuda")
    assert len({device("cpu"), device("cpu"), device("cpu:0")}) == 2
    for each in (device("cpu"), device("cuda:1")):
        assert pickle.loads(pickle.dumps(each)) == copy.deepcopy(each) == each
    with pytest.raises(AttributeError):
        device("cpu").type = "cuda"


@pytest.mark.parametrize("given", ["cpu", "cuda:01", 3.5, [], True, 0, -1], ids=repr)
def test_arguments(given):
    ours = outcome(lambda: devices.settled(devices.argument(given, "zeros")))
    assert ours == outcome(lambda: torch.zeros(1, device=given).device)


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "cpu:3", "meta", "meta:0", *ABSENT])
def test_where_tensors_lie(name):
    assert outcome(lambda: devices.settled(device(name))) == outcome(lambda: torch.empty(1, device=name).device)


@pytest.mark.parametrize("name", ["mps", "xla", "cuda:5", "xpu"])
def test_where_tensors_cannot_be_moved(name):
    assert outcome(lambda: devices.settled(device(name))) == outcome(lambda: torch.zeros(1).to(name))


def test_the_meta_device_holds_no_data():
    meta = torch.zeros(1, device="meta")
    assert outcome(devices.jax_device, device("meta")) == outcome(meta.to, "cpu")


def test_the_cpu_is_jaxs():
    assert devices.jax_device(device("cpu:7")) is jax.local_devices(backend="cpu")[0]
    assert {devices.of_jax(each) for each in jax.local_devices(backend="cpu")} == {device("cpu")}


def test_tpus_have_a_name_that_pytorch_lacks():
    assert repr(device("tpu:1")) == "device(type='tpu', index=1)"
    with pytest.raises(RuntimeError, match="PyTorch is not linked with support for tpu devices"):
        devices.settled(device("tpu"))


@frozen
class Pretended:
    """A JAX device that this machine does not have."""

    platform: str
    number: int


@pytest.fixture
def machine(monkeypatch):
    """Pretends that this machine has two devices of a type."""

    def pretend(backend):
        there = {"cpu": [Pretended("cpu", 0)], backend: [Pretended(backend, 0), Pretended(backend, 1)]}

        def local_devices(*, backend):
            if backend not in there:
                raise RuntimeError(f"Unknown backend {backend}")
            return there[backend]

        monkeypatch.setattr(jax, "local_devices", local_devices)
        devices.jax_device.cache_clear()

    yield pretend
    devices.jax_device.cache_clear()


@pytest.mark.parametrize(("type", "backend"), [("cuda", "gpu"), ("tpu", "tpu")])
def test_accelerators(machine, type, backend):
    machine(backend)
    assert devices.settled(device(type)) == device(0) == device(type, 0)
    second = devices.jax_device(device(1))
    assert second == Pretended(backend, 1) and devices.of_jax(second) == device(type, 1)
    with pytest.raises(RuntimeError, match=f"{type.upper()} error: invalid device ordinal"):
        devices.settled(device(2))
    assert devices.settled(device("cpu")) == device("cpu")


def defaults_in(module, device):
    """What a module says is the default device after each of several steps."""
    module.set_default_device("meta")
    yield module.get_default_device()
    with device("cpu"):
        yield module.get_default_device()
        with device("meta:1") as entered:
            yield entered
            yield module.get_default_device()
    yield module.get_default_device()
    thread_says = []
    thread = threading.Thread(target=lambda: thread_says.append(module.get_default_device()))
    thread.start()
    thread.join()
    yield from thread_says
    module.set_default_device("cpu:1")
    yield module.get_default_device()
    module.set_default_device("cuda")
    yield outcome(module.get_default_device)
    yield outcome(module.set_default_device, "foo")
    yield outcome(module.set_default_device, 3.5)
    module.set_default_device(None)
    yield module.get_default_device()


def test_default_device():
    ours, theirs = list(defaults_in(devices, device)), list(defaults_in(torch, torch.device))
    assert list(map(repr, ours)) == list(map(repr, theirs))


def test_importing_and_naming_devices_start_no_backend():
    """With a platform that does not exist, whatever starts JAX's backends fails."""
    modules = "devices, dtypes, formats, limits, promotion, size"
    code = f"import fgrad.torch.printing; from fgrad.mutable.types import {modules}; print(devices.device('cuda:1'))"
    environment = {**os.environ, "JAX_PLATFORMS": "nonsense"}

    def run(code):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)

    assert run(code).returncode == 0
    assert run(code + "; devices.of_jax(devices.jax_device(devices.device('cpu')))").returncode != 0
