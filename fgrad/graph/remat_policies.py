"""The policies of ``checkpoint``: predicates over (primitive, input types, parameters) for what may be saved.

Equal policies are equal objects, for the caches.  A graph's file holds a policy by its name, or by the name of its
class and its fields: ``POLICIES``.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
from attrs import frozen

from fgrad.graph.regions import keeps


def _everything(_: Any, *types: Any, **params: Any) -> bool:
    return True


def _nothing(_: Any, *types: Any, **params: Any) -> bool:
    return False


_PRODUCTS = frozenset({"dot_general", "scaled_dot", "ragged_dot_general", "conv_general_dilated"})


def _dots(prim: Any, *types: Any, **params: Any) -> bool:
    return prim.name in _PRODUCTS


def _dots_without_batch(prim: Any, *types: Any, **params: Any) -> bool:
    if prim.name != "dot_general":
        return False
    (_, _), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


@frozen
class Names:
    """Keep values by their ``checkpoint_name``: those named in ``names``, or all (named) values but those."""

    names: frozenset[str]
    listed: bool
    unnamed: bool

    def __call__(self, prim: Any, *types: Any, **params: Any) -> bool:
        if prim.name != "name":
            return self.unnamed
        return (params["name"] in self.names) == self.listed


@frozen
class Either:
    """Keep what one of two policies keeps."""

    first: Callable[..., Any]
    second: Callable[..., Any]

    def __call__(self, prim: Any, *types: Any, **params: Any) -> Any:
        answer = self.first(prim, *types, **params)
        return answer if keeps(answer) else self.second(prim, *types, **params)


@frozen
class NamesOrOffload:
    """Save values with some names, and offload those with others."""

    saved: frozenset[str]
    offloaded: frozenset[str]
    source: str
    destination: str

    def __call__(self, prim: Any, *types: Any, **params: Any) -> Any:
        # JAX's own policy, because JAX must know the answer, which has the memory kinds
        policy = jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[*self.saved], names_which_can_be_offloaded=[*self.offloaded],
            offload_src=self.source, offload_dst=self.destination,
        )  # fmt: skip
        return policy(prim, *types, **params)


@frozen
class OffloadDots:
    """Offload products without batch dimensions."""

    source: str
    destination: str

    def __call__(self, prim: Any, *types: Any, **params: Any) -> Any:
        return jax.checkpoint_policies.offload_dot_with_no_batch_dims(self.source, self.destination)(
            prim, *types, **params
        )


class Policies:
    """The policies for ``checkpoint(policy=...)``, under JAX's names.

    ``everything_saveable``, ``nothing_saveable``; ``dots_saveable`` (matrix products and convolutions) and its other
    name ``checkpoint_dots``; ``dots_with_no_batch_dims_saveable``; and functions that make policies: from names given
    with ``checkpoint_name``, ``save_only_these_names``, ``save_any_names_but_these``,
    ``save_anything_except_these_names``; from two policies, ``save_from_both_policies``.  What
    ``save_and_offload_only_these_names`` and ``offload_dot_with_no_batch_dims`` keep may wait in the host's memory.

    Source: `jax.checkpoint_policies <https://docs.jax.dev/en/latest/_autosummary/jax.checkpoint_policies.html>`_.
    """

    everything_saveable: Any = staticmethod(_everything)
    nothing_saveable: Any = staticmethod(_nothing)
    dots_saveable: Any = staticmethod(_dots)
    checkpoint_dots: Any = staticmethod(_dots)
    dots_with_no_batch_dims_saveable: Any = staticmethod(_dots_without_batch)
    checkpoint_dots_with_no_batch_dims: Any = staticmethod(_dots_without_batch)

    @staticmethod
    def save_only_these_names(*names: str) -> Callable[..., bool]:
        """Keep values with these names and nothing else."""
        return Names(frozenset(names), listed=True, unnamed=False)

    @staticmethod
    def save_any_names_but_these(*names: str) -> Callable[..., bool]:
        """Keep named values except those with these names; no unnamed ones."""
        return Names(frozenset(names), listed=False, unnamed=False)

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Callable[..., bool]:
        """Keep every value, named or not, except those with these names."""
        return Names(frozenset(names), listed=False, unnamed=True)

    @staticmethod
    def save_from_both_policies(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
        """Keep what either policy keeps."""
        return Either(first, second)

    @staticmethod
    def save_and_offload_only_these_names(
        *,
        names_which_can_be_saved: Sequence[str],
        names_which_can_be_offloaded: Sequence[str],
        offload_src: str,
        offload_dst: str,
    ) -> Callable[..., Any]:
        """Keep values of the first names; move those of the others from one memory ("device") to another
        ("pinned_host") and back when they are needed; keep nothing else."""
        saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
        if both := saved & offloaded:
            raise ValueError(f"A value can be saved or offloaded, not both; named for both: {sorted(both)}.")
        return NamesOrOffload(saved, offloaded, offload_src, offload_dst)

    @staticmethod
    def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Callable[..., Any]:
        """Keep matrix products without batch dimensions, in another memory."""
        return OffloadDots(offload_src, offload_dst)


checkpoint_policies: Policies = Policies()

#: the classes of policies that a file may hold, each with what its fields are
POLICIES: dict[str, tuple[type, dict[str, str]]] = {
    "Either": (Either, {"first": "policy", "second": "policy"}),
    "Names": (Names, {"names": "names", "listed": "flag", "unnamed": "flag"}),
    "NamesOrOffload": (
        NamesOrOffload,
        {"saved": "names", "offloaded": "names", "source": "text", "destination": "text"},
    ),
    "OffloadDots": (OffloadDots, {"source": "text", "destination": "text"}),
}
# JAX's own policies of names, where they are objects and not functions
for _make in (jax.checkpoint_policies.save_only_these_names, jax.checkpoint_policies.save_any_names_but_these):
    _kind = type(_make())
    if _fields := getattr(_kind, "__match_args__", ()):
        POLICIES[_kind.__name__] = (_kind, dict.fromkeys(_fields, "names"))


# --------------------------------------------------------------------------------------------------------------------
# JAX's own policies that are functions


def _makers() -> dict[Any, Callable[..., Any]]:
    """The code of the functions that ``jax.checkpoint_policies`` makes; each with a policy of what these close over."""
    jaxs = jax.checkpoint_policies
    only, but = jaxs.save_only_these_names(), jaxs.save_any_names_but_these()
    made = [
        (only, lambda names_which_can_be_saved: checkpoint_policies.save_only_these_names(*names_which_can_be_saved)),
        (but, lambda names_not_to_save: checkpoint_policies.save_any_names_but_these(*names_not_to_save)),
        (jaxs.save_anything_except_these_names(), lambda: _everything),
        (
            jaxs.save_from_both_policies(only, but),
            lambda policy_1, policy_2: Either(as_record(policy_1), as_record(policy_2)),
        ),
        (jaxs.offload_dot_with_no_batch_dims("", ""), checkpoint_policies.offload_dot_with_no_batch_dims),
        (
            jaxs.save_and_offload_only_these_names(
                names_which_can_be_saved=(), names_which_can_be_offloaded=(), offload_src="", offload_dst=""
            ),
            checkpoint_policies.save_and_offload_only_these_names,
        ),
    ]
    # in some versions of JAX some of these are objects, which are equal as they are
    return {policy.__code__: make for policy, make in made if hasattr(policy, "__code__")}


_MAKERS = _makers()


def as_record(policy: Any) -> Any:
    """The same policy as one of ours, if a function of ``jax.checkpoint_policies`` made it: equal ones are equal."""
    make = _MAKERS.get(getattr(policy, "__code__", None))
    return policy if make is None else make(**inspect.getclosurevars(policy).nonlocals)
