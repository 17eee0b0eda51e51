"""Operations of one structure run as one program where that is faster."""

from typing import Any

from fgrad.mutable.values.fusion import Fusion
from fgrad.run.policy import POLICIES

TRIALS = POLICIES["default"].trials


class Compiled:
    """A program that is ready, or is not yet."""

    numpy = None
    compiled = True

    def __init__(self, ready: bool = True):
        self.is_ready = ready

    def ready(self) -> bool:
        return self.is_ready

    def __call__(self, args: Any) -> list[str]:
        return ["fused"]


def test_there_is_no_program_before_compiling_pays():
    fusion = Fusion(unspent=1.0)
    made: Any = Compiled()
    assert fusion.program(lambda: made) is None
    fusion.spend(1.5)
    assert fusion.program(lambda: made) is made
    assert fusion.fastest == 1.5


def test_the_operations_are_timed_while_it_is_compiled():
    fusion = Fusion(unspent=0)
    made: Any = Compiled(ready=False)
    assert fusion.program(lambda: made) is None
    for seconds in (2.0, 1.0, 3.0):
        fusion.spend(seconds)
    assert fusion.fastest == 1.0


def test_a_program_that_is_slower_is_dropped():
    program: Any = Compiled()
    fusion = Fusion(unspent=0, routine=program, fastest=1e-9)
    for _ in range(TRIALS):
        assert fusion.program(lambda: program) is program
        assert fusion.run(program, []) == ["fused"]
    assert fusion.program(lambda: program) is None


def test_a_program_that_is_faster_is_timed_once():
    program: Any = Compiled()
    fusion = Fusion(unspent=0, routine=program, fastest=1e9)
    fusion.run(program, [])
    assert fusion.won and not fusion.slower
    fusion.fastest = 0
    fusion.run(program, [])
    assert not fusion.slower
