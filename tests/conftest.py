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
    "api/test_batching.py::test_vmap_follows_the_rule": 8,
    "api/test_checkpoint.py::test_values_are_those_without": 2,
    "api/test_checkpoint.py::test_what_is_offloaded": 2,
    "api/test_closed_over.py::test_an_ode": 6,
    "api/test_composition.py::test_three_deep": 8,
    "api/test_composition.py::test_two_deep": 8,
    "api/test_composition.py::test_types_are_those_of_jax": 8,
    "api/test_custom.py::test_a_rule_in_a_region": 6,
    "api/test_custom_concrete.py::test_rules_get_numbers": 4,
    "api/test_custom_concrete.py::test_rules_that_call_and_are_told": 8,
    "api/test_custom_residuals.py::test_gradients_are_those_of_jax": 4,
    "api/test_custom_residuals.py::test_known_residuals": 8,
    "api/test_custom_residuals.py::test_rules_are_called_as_often": 8,
    "api/test_jacobians.py::test_as_in_jax": 6,
    "api/test_jacobians.py::test_chunks": 6,
    "api/test_loops.py::test_as_unrolled": 4,
    "mutable/explain/test_residuals.py::test_the_bytes": 3,
    "passes/test_sharded.py::test_auto_and_explicit_axes": 3,
    "passes/test_sharded.py::test_composition": 8,
    "passes/test_sharded.py::test_explicit_shardings": 3,
    "passes/test_sharded.py::test_grad": 8,
    "passes/test_sharded.py::test_jvp": 8,
    "questions/test_execution.py::test_values_and_cotangents": 2,
    "record/test_kept.py::test_a_list_of_metrics": 2,
    "record/test_operators.py::test_graphs_are_those": 2,
    "record/test_prints.py::test_further_derivatives": 4,
    "record/test_prints.py::test_prints_are_those_of_jax": 4,
    "record/test_protocols.py::test_every_function": 8,
    "record/test_protocols.py::test_every_ufunc": 4,
    "record/test_references.py::test_a_backward_rule_in_a_loop": 3,
    "record/test_references.py::test_a_rule_for_forward_mode_takes": 8,
    "record/test_references.py::test_derivatives_through": 2,
    "record/test_references.py::test_either_a_function": 3,
    "record/test_references.py::test_of_a_function_and_its_forward_rule": 3,
    "record/test_references.py::test_rules_in_a_loop": 4,
    "record/test_templates.py::test_operators_on_bits": 3,
    "rules/test_foreign.py::test_every_derivative": 6,
    "rules/test_reductions.py::test_any_computation": 3,
    "rules/test_rules.py::test_low_precision": 8,
    "rules/test_rules.py::test_rule": 16,
    "run/test_cpu_convolutions.py::test_one_group": 2,
    "run/test_convolution.py::test_any_parameters": 4,
    "run/test_convolution.py::test_reductions_of_windows": 8,
    "run/test_kernels.py::test_arithmetic_of_special_values": 2,
    "run/test_kernels.py::test_functions_of_special_values": 2,
    "run/test_kernels.py::test_halves": 4,
    "run/test_kernels.py::test_samples_of_rules": 12,
    "run/test_numpy_program.py::test_functions": 8,
    "run/test_numpy_program.py::test_of_two": 8,
    "test_interrupts.py::test_interrupted_anywhere": 2,
    "test_libraries.py::test_library_functions": 8,
    "test_random_programs.py::test_unjitted": 6,
    "torch/amp/test_autocast.py::test_autocast_is_pytorchs": 2,
    "torch/amp/test_autocast.py::test_casts": 4,
    "torch/autograd/test_functional.py": 8,
    "torch/autograd/test_gradcheck.py": 8,
    "torch/compiler/test_backward_program.py::test_derivatives_of_every_order": 3,
    "torch/compiler/test_compile.py::test_a_step_leaves": 4,
    "torch/compiler/test_numbers.py::test_integers_of_numpy": 2,
    "torch/compiler/test_numbers.py::test_no_value_is_stale": 2,
    "torch/compiler/test_placement.py::test_steps_stay": 2,
    "torch/compiler/test_pure.py::test_an_epoch": 3,
    "torch/compiler/test_steps.py::test_a_step_leaves": 4,
    "torch/distributions/test_devices.py::test_samples_and_densities": 3,
    "torch/distributions/test_distributions.py": 2,
    "torch/distributions/test_kl.py::test_divergences": 2,
    "torch/func/test_cuts.py::test_gradients_are": 2,
    "torch/func/test_functionalize.py::test_64_bits_inside": 8,
    "torch/func/test_functionalize.py::test_derivatives_of_64_bits": 8,
    "torch/func/test_functionalize.py::test_mapped_arrays_of_64_bits": 16,
    "torch/func/test_transforms.py": 6,
    "torch/nn/test_layers.py": 12,
    "torch/nn/test_refusals.py": 2,
    "torch/ops/test_forward.py::test_tangents": 4,
    "torch/ops/test_half.py::test_half": 4,
    "torch/ops/test_inplace.py": 8,
    "torch/ops/test_operations.py::test_operation": 3,
    "torch/ops/test_operations.py::test_saved": 8,
    "torch/ops/test_operators.py": 32,
    "torch/ops/test_sizes.py::test_graphs_are_those": 2,
    "torch/ops/test_special_points.py": 2,
    "torch/optim/test_optimizer.py": 2,
    "torch/optim/test_schedulers.py": 2,
    "torch/optim/test_updates.py": 12,
    "torch/random/test_distributions.py": 2,
    "torch/test_lanes.py::test_awkward_shapes": 4,
    "torch/test_lanes.py::test_long_loops": 3,
    "torch/test_lanes.py::test_operations": 4,
    "torch/test_lanes.py::test_programs": 6,
    "torch/test_lanes.py::test_recorded_programs": 3,
    "torch/test_mirror.py::test_random_programs": 6,
}


#: the long tables of which one sample of each family, a primitive or an operation, always runs, too
FAMILIES = (
    "rules/test_rules.py::test_rule",
    "run/test_kernels.py::test_samples_of_rules",
    "torch/func/test_functionalize.py::test_mapped_arrays_of_64_bits",
    "torch/ops/test_operations.py::test_operation",
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
