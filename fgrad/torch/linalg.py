"""``torch.linalg``: linear algebra, from the table of operations.

Source: `torch.linalg <https://docs.pytorch.org/docs/stable/linalg.html>`_.
"""

from typing import TYPE_CHECKING, Any

from fgrad.torch.ops.linalg import matrix_functions as matrix_functions
from fgrad.torch.ops.linalg.matrices import LinAlgError as LinAlgError
from fgrad.torch.ops.table.table import TABLE

globals().update({name.removeprefix("linalg."): TABLE[name].call for name in TABLE if name.startswith("linalg.")})

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
