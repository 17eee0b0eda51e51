"""Special functions, as ``torch.special`` has them.

>>> import fgrad.torch as torch
>>> torch.special.entr(torch.tensor([0., 0.5]))
tensor([0.0000, 0.3466])

Source: `torch.special <https://docs.pytorch.org/docs/stable/special.html>`_.
"""

from typing import TYPE_CHECKING, Any

from fgrad.mutable.context.torch_function.wrap import built_in, raw
from fgrad.torch.ops.elementwise.elementary import (
    exp2 as exp2,
    expm1 as expm1,
    log1p as log1p,
    logit as logit,
    sigmoid as expit,
    xlogy as xlogy,
)
from fgrad.torch.ops.elementwise.modified_bessel import i0 as i0
from fgrad.torch.ops.elementwise.rounding import round as round
from fgrad.torch.ops.elementwise.special import (
    digamma as digamma,
    erf as erf,
    erfc as erfc,
    erfinv as erfinv,
    igamma as gammainc,
    igammac as gammaincc,
    lgamma as gammaln,
    mvlgamma as multigammaln,
    polygamma as polygamma,
)
from fgrad.torch.ops.elementwise.trigonometric import sinc as sinc
from fgrad.torch.ops.reductions.reductions import logsumexp as logsumexp
from fgrad.torch.ops.reductions.softmax import log_softmax as log_softmax, softmax as softmax
from fgrad.torch.ops.table.table import TABLE

#: those imported by another name
__all__ = ["expit", "gammainc", "gammaincc", "gammaln", "multigammaln", "psi"]

_SHARED = (
    *("exp2", "expm1", "log1p", "logit", "xlogy", "logsumexp", "round", "log_softmax", "softmax", "digamma", "erf"),
    *("erfc", "erfinv", "i0", "polygamma", "sinc"),
)

psi = digamma

# these are functions of ``torch`` too; ``__torch_function__`` sees them as two
for _name in (*__all__, *_SHARED):
    globals()[_name] = built_in(raw(globals()[_name]), f"torch.special.special_{_name}", __name__, _name)

_PREFIX = "special."

_OWN = {name.removeprefix(_PREFIX): TABLE[name].call for name in TABLE if name.startswith(_PREFIX)}
globals().update(_OWN)
__all__ += [*_SHARED, *_OWN]  # pyright: ignore[reportUnsupportedDunderAll]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
