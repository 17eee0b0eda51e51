"""The back ends of ``torch.compile``: XLA compiles every program, whichever of PyTorch's names is given."""

from typing import Any

#: PyTorch's back ends (torch/_dynamo/backends); those for debugging are only listed on request
_USUAL = ("cudagraphs", "inductor", "openxla", "tvm")
_FOR_DEBUGGING = (
    *("aot_eager", "aot_eager_decomp_partition", "aot_eager_decomp_partition_crossref"),
    *("aot_eager_decomp_partition_with_mode", "aot_eager_default_partitioner", "aot_ts"),
    *("dynamo_accuracy_minifier_backend", "dynamo_minifier_backend", "eager", "eager_debug", "eager_noexcept"),
    *("invoke_subgraph", "openxla_eval", "pre_dispatch_eager", "ts"),
)


class InvalidBackend(RuntimeError):
    """No back end has this name."""

    def __init__(self, name: str):
        super().__init__(
            f"Invalid backend: {name!r}, see `torch.compiler.list_backends(())` for the names that are accepted."
        )


class Default:
    """The back end of calls that name none, on all threads as in PyTorch."""

    backend: Any = "inductor"


_default: Default = Default()


def check_backend(backend: Any) -> None:
    """Raise ``InvalidBackend`` for a name that PyTorch does not have; functions are accepted."""
    if isinstance(backend, str) and backend not in (*_USUAL, *_FOR_DEBUGGING):
        raise InvalidBackend(backend)


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that ``torch.compile`` accepts; all stand for XLA.  With nothing excluded, those for debugging, too.

    >>> import fgrad.torch as torch
    >>> torch.compiler.list_backends()
    ['cudagraphs', 'inductor', 'openxla', 'tvm']
    """
    return [*_USUAL] if exclude_tags else sorted((*_USUAL, *_FOR_DEBUGGING))


def get_default_backend() -> Any:
    """The back end that ``set_default_backend`` has set."""
    return _default.backend


def set_default_backend(backend: Any) -> None:
    """Accepted as in PyTorch, for any back end that ``torch.compile`` accepts.

    Raises:
      InvalidBackend: a RuntimeError; no back end has this name.
    """
    check_backend(backend)
    _default.backend = backend


def save_cache_artifacts() -> None:
    """Nothing, as in PyTorch where nothing is cached: programs are kept on disk by JAX's own cache."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Nothing is loaded: see ``save_cache_artifacts``."""


def _all_kept(guard_entries: Any, **options: Any) -> list[bool]:
    """Keep every guard; for ``options={"guard_filter_fn": ...}``, which is accepted as in PyTorch."""
    return [True for _ in guard_entries]


keep_portable_guards_unsafe = keep_tensor_guards_unsafe = skip_all_guards_unsafe = _all_kept
skip_guard_on_all_nn_modules_unsafe = skip_guard_on_globals_unsafe = _all_kept
skip_guard_on_inbuilt_nn_modules_unsafe = _all_kept


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accepted as in PyTorch; returns False, since guards never ask other processes."""
    return False


def load_compiled_function(file: Any, **options: Any) -> Any:
    """Refused: programs are bound to the objects of their process.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.compiler.load_compiled_function: compiled functions cannot be saved; compile the function, and let JAX "
        "keep its programs on disk (jax_compilation_cache_dir)"
    )


def wrap_numpy(fn: Any) -> Any:
    """Refused: NumPy's functions are not captured.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.compiler.wrap_numpy: NumPy's functions are not captured; write the function with torch's, or run it "
        "uncompiled"
    )
