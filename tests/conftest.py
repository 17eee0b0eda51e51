"""Settings shared by all tests: eight host devices, 64-bit where a test asks for it, quiet progress.

Nearly all of a test's time is XLA's, compiling what runs once: so it is told not to try hard.
"""

import gc
import importlib.metadata
import os
import pathlib
import threading
import zlib
from collections.abc import Iterator

os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true"
    # the older emitters compile in a third of the newer ones' time; later versions of XLA are without them
    + (" --xla_cpu_use_fusion_emitters=false" if importlib.metadata.version("jaxlib").startswith("0.10.") else ""),
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest

try:
    import hypothesis
except ImportError:  # the tests of the site need none
    pass
else:
    # the same examples in each run, however busy the machine is: the campaigns are for others
    hypothesis.settings.load_profile("ci")

from fgrad.graph.check import check
from fgrad.graph.graph import Builder
from fgrad.run import background, stretches

if "emitters=false" in os.environ["XLA_FLAGS"]:
    # with fusion switched off, the older emitters compute a transpose followed by a reshape wrongly
    stretches.UNFUSED["xla_cpu_use_fusion_emitters"] = True

#: Of how many samples one always runs, in the long tables: which one, its name decides.  ``-m thorough`` runs the rest.
SHARES = {
    "api/test_batching.py::test_vmap_follows_the_rule": 4,
    "api/test_checkpoint.py::test_values_are_those_without": 2,
    "api/test_checkpoint.py::test_what_is_offloaded": 2,
    "api/test_closed_over.py::test_an_ode": 3,
    "api/test_composition.py::test_three_deep": 4,
    "api/test_composition.py::test_two_deep": 4,
    "api/test_composition.py::test_types_are_those_of_jax": 4,
    "api/test_custom.py::test_a_rule_in_a_region": 3,
    "api/test_custom_concrete.py::test_rules_get_numbers": 2,
    "api/test_custom_concrete.py::test_rules_that_call_and_are_told": 4,
    "api/test_custom_residuals.py::test_gradients_are_those_of_jax": 2,
    "api/test_custom_residuals.py::test_known_residuals": 4,
    "api/test_custom_residuals.py::test_rules_are_called_as_often": 4,
    "api/test_jacobians.py::test_as_in_jax": 3,
    "api/test_jacobians.py::test_chunks": 3,
    "api/test_loops.py::test_as_unrolled": 2,
    "mutable/explain/test_residuals.py::test_the_bytes": 3,
    "passes/test_sharded.py::test_composition": 4,
    "passes/test_sharded.py::test_grad": 4,
    "passes/test_sharded.py::test_jvp": 4,
    "questions/test_execution.py::test_values_and_cotangents": 2,
    "record/test_prints.py::test_further_derivatives": 2,
    "record/test_prints.py::test_prints_are_those_of_jax": 2,
    "record/test_protocols.py::test_every_function": 4,
    "record/test_protocols.py::test_every_ufunc": 2,
    "record/test_references.py::test_a_rule_for_forward_mode_takes": 4,
    "record/test_references.py::test_rules_in_a_loop": 2,
    "rules/test_foreign.py::test_every_derivative": 2,
    "rules/test_rules.py::test_low_precision": 4,
    "rules/test_rules.py::test_rule": 8,
    "run/test_convolution.py::test_any_parameters": 2,
    "run/test_convolution.py::test_reductions_of_windows": 4,
    "run/test_kernels.py::test_arithmetic_of_special_values": 2,
    "run/test_kernels.py::test_samples_of_rules": 6,
    "run/test_numpy_program.py::test_functions": 4,
    "run/test_numpy_program.py::test_of_two": 4,
    "test_libraries.py::test_library_functions": 4,
    "test_random_programs.py::test_unjitted": 3,
    "torch/amp/test_autocast.py::test_autocast_is_pytorchs": 2,
    "torch/amp/test_autocast.py::test_casts": 2,
    "torch/autograd/test_functional.py": 4,
    "torch/autograd/test_gradcheck.py": 4,
    "torch/compiler/test_compile.py::test_a_step_leaves": 2,
    "torch/compiler/test_pure.py::test_an_epoch": 3,
    "torch/compiler/test_steps.py::test_a_step_leaves": 2,
    "torch/distributions/test_distributions.py": 2,
    "torch/distributions/test_kl.py::test_divergences": 2,
    "torch/func/test_functionalize.py::test_64_bits_inside": 4,
    "torch/func/test_functionalize.py::test_derivatives_of_64_bits": 4,
    "torch/func/test_functionalize.py::test_mapped_arrays_of_64_bits": 8,
    "torch/func/test_transforms.py": 3,
    "torch/nn/test_layers.py": 6,
    "torch/nn/test_refusals.py": 2,
    "torch/ops/test_forward.py::test_tangents": 2,
    "torch/ops/test_half.py::test_half": 2,
    "torch/ops/test_inplace.py": 4,
    "torch/ops/test_operations.py::test_saved": 4,
    "torch/ops/test_operators.py": 16,
    "torch/optim/test_optimizer.py": 2,
    "torch/optim/test_schedulers.py": 2,
    "torch/optim/test_updates.py": 6,
    "torch/random/test_distributions.py": 2,
    "torch/test_lanes.py::test_awkward_shapes": 2,
    "torch/test_lanes.py::test_operations": 2,
    "torch/test_lanes.py::test_programs": 2,
    "torch/test_mirror.py::test_random_programs": 4,
}


#: the long tables of which one sample of each family, a primitive or an operation, always runs, too
FAMILIES = (
    "rules/test_rules.py::test_rule",
    "run/test_kernels.py::test_samples_of_rules",
    "torch/func/test_functionalize.py::test_mapped_arrays_of_64_bits",
)


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Under ``-m fast`` files without a fast test are not even imported: that takes as long as to run the fast ones."""
    test = collection_path.suffix == ".py" and config.option.markexpr == "fast"
    return True if test and "pytest.mark.fast" not in collection_path.read_text() else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, metavar="N", help="run every Nth test of each file only")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shares = {f"tests/{place}": share for place, share in SHARES.items()}
    families = tuple([f"tests/{place}" for place in FAMILIES])
    met: set[str] = set()
    for item in items:
        name = item.nodeid
        share = next((share for place, share in shares.items() if name.startswith(place)), 1)
        if share == 1 or "[" not in name or item.get_closest_marker("thorough"):
            continue
        family = name.partition("-")[0]
        if name.startswith(families) and family not in met:
            met.add(family)
        elif zlib.crc32(item.name.encode()) % share:
            item.add_marker(pytest.mark.thorough)
    every = config.option.every
    seen: dict[pathlib.Path, int] = {}
    left: list[pytest.Item] = []
    if config.option.markexpr == "fast":
        # a mark of the whole file holds for these, too
        left = [item for item in items if item.get_closest_marker("slow")]
    for item in items if every > 1 else ():
        seen[item.path] = place = seen.get(item.path, -1) + 1
        if place % every:
            left.append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the garbage collector need not go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def x64():
    """64-bit types within one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """What is compiled in the background waits until this is set."""
    opened = threading.Event()
    background._worker.submit(opened.wait)
    yield opened
    opened.set()
    background.wait_for_compilations()


@pytest.fixture
def checked_passes(monkeypatch):
    """Every graph that a pass makes is looked at by ``Graph.check``."""
    finish = Builder.finish
    monkeypatch.setattr(Builder, "finish", lambda *args: check(finish(*args)))
