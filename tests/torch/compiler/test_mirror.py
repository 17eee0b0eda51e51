"""Random programs of the mutable layer, a part of each compiled, against the same uncompiled.

In one way the part changes Python's own objects and runs in pieces; in the other it takes and gives tensors, and is one
program where it can be.
"""

from collections.abc import Callable
from typing import Any

import pytest

import fgrad.torch as torch
from fgrad.torch.compiler import execution
from tests.torch.mirror import Player, alike, described, random_program


class Quiet(Player):
    """A player that looks at nothing while it plays."""

    def observe(self) -> list[Any]:
        return []


def in_place(player: Player, steps: Any) -> Callable[[], Any]:
    """The steps as a function that changes the player."""

    def part() -> Any:
        return [player.play(step)[:2] for step in steps]

    return part


def by_values(player: Player, steps: Any) -> Callable[[], Any]:
    """The steps as a function of the player's tensors."""

    def part(pool: list[Any]) -> Any:
        inner = Quiet(torch)
        inner.pool = list(pool)
        shown = [inner.play(step)[:2] for step in steps]
        return shown, inner.pool

    def call(run: Callable[..., Any]) -> Any:
        shown, player.pool = run(player.pool)
        return shown

    part.call = call  # type: ignore[attr-defined]
    return part


def compiled_player(seed: int, way: Any, compile: Callable[[Any], Any], length: int = 9) -> tuple[Any, Any]:
    """What a program shows whose middle is compiled, step by step; and the compiled function."""
    program = random_program(seed, length)
    player = Quiet(torch)
    for step in program[:3]:
        player.play(step)
    part = way(player, program[3:7])
    run = compile(part)
    seen = [(part.call(run) if hasattr(part, "call") else run()), Player.observe(player)]
    for step in program[7:]:
        seen += [player.play(step)[:2], Player.observe(player)]
    return seen, run


def has_one_node(seen: Any) -> bool:
    return "CompiledFunctionBackward" in str(seen)


def difference(seed: int, way: Any) -> str | None:
    found, _ = compiled_player(seed, way, torch.compile)
    wanted, _ = compiled_player(seed, way, lambda part: part)
    if has_one_node(found):
        return None  # its nodes are others, and it has no second derivative
    for at, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if not alike(a, b):
            return described(random_program(seed, 9), 7 + at // 2, ["", "", a], ["", "", b])
    return None


@pytest.fixture(autouse=True)
def uncompiled_programs(monkeypatch):
    """Programs run node by node: compiling each would take a minute."""

    monkeypatch.setattr(execution, "jit", lambda run, **options: run)
    monkeypatch.setattr(execution._Compiled, "check", lambda *_: True)


@pytest.mark.parametrize("way", [in_place, by_values])
@pytest.mark.parametrize("block", [0, *[pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 40)]])
def test_a_part_compiled_leaves_what_it_leaves_uncompiled(way: Any, block: int):
    for seed in range(25 * block, 25 * block + 25):
        found = difference(seed, way)
        assert found is None, f"seed {seed}: {found}"
