"""Which part of the large tables always runs.

The tables of samples are long, and each sample meets shapes that nothing has met before.  Of those listed here a fixed
share always runs, chosen by the name of the test; ``-m thorough`` runs the rest.
"""

import zlib

import pytest

#: of how many tests one always runs
SHARES = {
    "ops/test_operators.py": 16,
    "ops/test_operations.py::test_saved": 4,
    "ops/test_inplace.py": 4,
    "optim/test_updates.py": 4,
    "optim/test_optimizer.py": 2,
    "optim/test_schedulers.py": 2,
    "nn/test_layers.py": 4,
    "nn/test_refusals.py": 2,
    "autograd/test_functional.py": 4,
    "autograd/test_gradcheck.py": 4,
    "func/test_transforms.py": 3,
    "random/test_distributions.py": 2,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for place, share in SHARES.items():
            if f"tests/torch/{place}" in item.nodeid and zlib.crc32(item.name.encode()) % share:
                item.add_marker(pytest.mark.thorough)
