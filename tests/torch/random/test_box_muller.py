"""Normal numbers in blocks: a compiled program gives the bits that NumPy gives."""

import numpy as np
import pytest

from fgrad.run.background import wait_for_compilations
from fgrad.torch.random import box_muller
from fgrad.torch.random.generator import Generator


@pytest.mark.parametrize("rows", [500, 513])
def test_compiled_as_by_numpy(rows: int, monkeypatch: pytest.MonkeyPatch):
    uniform = Generator().manual_seed(rows).floats(16 * rows)
    uniform[:2] = 0, 1 - 2.0**-24
    compiled, by_numpy = uniform.copy(), uniform.copy()
    box_muller.blocks_of_sixteen(by_numpy, 0.5, 2.0)
    monkeypatch.setattr(box_muller, "TRIALS", -1)
    box_muller.blocks_of_sixteen(compiled.copy(), 0.5, 2.0)  # begins to compile
    wait_for_compilations()
    box_muller.blocks_of_sixteen(compiled, 0.5, 2.0)
    assert any(each.routine is not None and each.routine.compiled is not None for each in box_muller._SIZES)
    np.testing.assert_array_equal(compiled.view(np.int32), by_numpy.view(np.int32))
