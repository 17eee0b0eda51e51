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


def wrap_numpy(fn: Any) -> Any:
    """Refused: NumPy's functions are not captured.

    Raises:
      NotImplementedError: always.
    """
    raise NotImplementedError(
        "torch.compiler.wrap_numpy: NumPy's functions are not captured; write the function with torch's, or run it "
        "uncompiled"
    )
