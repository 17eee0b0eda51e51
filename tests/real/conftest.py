"""What libraries warn of is theirs."""

import pytest


def pytest_itemcollected(item):
    item.add_marker(pytest.mark.filterwarnings("ignore"))
