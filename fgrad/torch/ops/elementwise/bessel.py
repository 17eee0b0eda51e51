"""The Bessel and Airy functions of ``torch.special``, which have no derivatives.

On each part of the real line they are quotients of polynomials or Chebyshev series, with the coefficients of Stephen
Moshier's Cephes library.

Source: https://www.netlib.org/cephes/
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import numpy as jnp

from fgrad.mutable.operation.output_strides import elementwise
from fgrad.mutable.types.dtypes import get_default_dtype, is_half
from fgrad.torch.ops.elementwise.modified_bessel import bessel_i0, bessel_i1
from fgrad.torch.ops.table.broadcasting import choose
from fgrad.torch.ops.table.kinds import kind
from fgrad.torch.ops.table.table import Fixed, operation
from fgrad.torch.random.scalars import not_implemented

Coefficients = Sequence[float]

# -- coefficients, highest powers first ------------------------------------------------------------------------------

# fmt: off
#: far from zero, for orders 0 and 1: numerator and denominator of the cosine's factor and of the sine's
_PP0 = (
    0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687, 8.74716500199817,
    5.303240382353949, 1.0,
)
_PQ0 = (
    0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171, 8.761908832370695,
    5.306052882353947, 1.0,
)
_QP0 = (
    -0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683, -177.68116798048806,
    -147.07750515495118, -51.41053267665993, -6.050143506007285,
)
_QQ0 = (
    64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525, 5930.727011873169,
    2062.0933166032783, 242.0057402402914,
)
_PP1 = (
    0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076, 8.424045901417724,
    5.214515986823615, 1.0,
)
_PQ1 = (
    0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015, 8.399855543276042,
    5.209828486823619, 1.0,
)
_QP1 = (
    0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508, 710.8563049989261,
    597.4896124006136, 211.68875710057213, 25.207020585802372,
)
_QQ1 = (
    74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562, 7997.041604473507,
    2826.1927851763908, 336.0936078106983,
)
#: near zero, of the functions of the first kind
_RP0 = (
    -4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0,
)
_RQ0 = (
    499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683, 2112775201154.892,
    310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18,
)
_RP1 = (
    -899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0,
)
_RQ1 = (
    620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925, 4749141220799.914,
    784369607876235.9, 8.952223361846274e+16, 5.322786203326801e+18,
)
#: near zero, of the functions of the second kind
_YP0 = (
    15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115, 87590639439536.7,
    -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16,
)
_YQ0 = (
    1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935, 20297961275010.555,
    3171577528429750.5, 2.5059625617265306e+17,
)
_YP1 = (
    1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0, 2.024394757135949e+17,
    -7.788771962659501e+17,
)
_YQ1 = (
    594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617, 3882312774962.3857,
    620557727146953.8, 6.871410873553005e+16, 3.9727060811656064e+18,
)
#: of the modified functions of the second kind, near zero and far from it
_K0_NEAR = (
    1.374465435613523e-16, 4.25981614279661e-14, 1.0349695257633842e-11, 1.904516377220209e-09,
    2.5347910790261494e-07, 2.286212103119452e-05, 0.001264615411446926, 0.0359799365153615, 0.3442898999246285,
    -0.5353273932339028,
)
_K0_FAR = (
    5.300433772686263e-18, -1.6475804301524212e-17, 5.2103915050390274e-17, -1.678231096805412e-16,
    5.512055978524319e-16, -1.848593377343779e-15, 6.3400764774050706e-15, -2.2275133269916698e-14,
    8.032890775363575e-14, -2.9800969231727303e-13, 1.140340588208475e-12, -4.514597883373944e-12,
    1.8559491149547177e-11, -7.957489244477107e-11, 3.577397281400301e-10, -1.69753450938906e-09,
    8.574034017414225e-09, -4.660489897687948e-08, 2.766813639445015e-07, -1.8317555227191195e-06,
    1.39498137188765e-05, -0.00012849549581627802, 0.0015698838857300533, -0.0314481013119645, 2.4403030820659555,
)
_K1_NEAR = (
    -7.023863479386288e-18, -2.427449850519366e-15, -6.666901694199329e-13, -1.4114883926335278e-10,
    -2.213387630734726e-08, -2.4334061415659684e-06, -0.0001730288957513052, -0.006975723859639864,
    -0.12261118082265715, -0.3531559607765449, 1.5253002273389478,
)
_K1_FAR = (
    -5.756744483665017e-18, 1.7940508731475592e-17, -5.689462558442859e-17, 1.838093544366639e-16,
    -6.057047248373319e-16, 2.038703165624334e-15, -7.019837090418314e-15, 2.4771544244813043e-14,
    -8.976705182324994e-14, 3.3484196660784293e-13, -1.2891739609510289e-12, 5.13963967348173e-12,
    -2.1299678384275683e-11, 9.218315187605006e-11, -4.1903547593418965e-10, 2.015049755197033e-09,
    -1.0345762465678097e-08, 5.7410841254500495e-08, -3.5019606030878126e-07, 2.406484947837217e-06,
    -1.936197974166083e-05, 0.00019521551847135162, -0.002857816859622779, 0.10392373657681724, 2.7206261904844427,
)
#: of Airy's function, for large and for small numbers
_AN = (
    0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058, 159.75639135016442,
    70.53609068404442, 14.026469116338967, 1.0,
)
_AD = (
    0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045, 164.2346928715297,
    71.47784008255756, 14.095913560783403, 1.0,
)
_AFN = (
    -0.1316963234183318, -0.6264565444319123, -0.6931580360369335, -0.2797799815451191, -0.04919001326095003,
    -0.004062659235948854, -0.0001592764962392621, -2.776491081552329e-06, -1.6778769848911465e-08,
)
_AFD = (
    13.356042070655324, 32.682503279522464, 26.736704094149957, 9.187074029072596, 1.4752914677166642,
    0.11568717379518804, 0.004402916416152112, 7.547203482874142e-05, 4.5185009297058035e-07,
)
_AGN = (
    0.01973399320916857, 0.39110302961568827, 1.0657989759959559, 0.9391692298166502, 0.35146565610554764,
    0.06338889196289255, 0.005858041130483885, 0.000282851600836737, 6.98793669997261e-06, 8.117892395543892e-08,
    3.415517847659236e-10,
)
_AGD = (
    9.30892908077442, 19.835292871831214, 15.564662893286462, 5.476860694229755, 0.9542936116189619,
    0.08645808263523921, 0.004126565238242226, 0.00010125908511650914, 1.1716673321441352e-06, 4.9183457006293e-09,
)
# fmt: on


def _enter(name: str, doc: str) -> Callable[[Callable[..., Any]], None]:
    """Enter a function of arrays of floating-point numbers in the table."""

    def enter(function: Callable[..., Any]) -> None:
        def kernel(input: Fixed) -> Any:
            if is_half(input.dtype) or kind(input) == "c":
                raise not_implemented(f"{name}_cpu", input.dtype)
            return function(input if input.dtype.kind == "f" else input.astype(get_default_dtype().numpy))

        kernel.__doc__ = (
            f"{doc}, without a derivative.\n\n    Source: `torch.special.{name} "
            f"<https://docs.pytorch.org/docs/2.13/special.html#torch.special.{name}>`_.\n    "
        )
        make = operation(
            name=f"special.{name}", strides=elementwise, auxiliary=("result",), method=False, function=False
        )
        make(kernel)

    return enter


def _polynomial(coefficients: Coefficients, x: Any) -> Any:
    value = jnp.zeros_like(x)
    for coefficient in coefficients:
        value = value * x + coefficient
    return value


def _chebyshev(coefficients: Coefficients, x: Any) -> Any:
    """A Chebyshev series, by Clenshaw's recurrence."""
    previous, current, following = jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros_like(x)
    for coefficient in coefficients:
        previous, current, following = current, following, x * following - current + coefficient
    return 0.5 * (following - previous)


# -- of the first and the second kind --------------------------------------------------------------------------------


def _far(x: Any, tables: Sequence[Coefficients], shift: float, first: Callable[..., Any], sign: int) -> Any:
    """The asymptotic form; ``first`` is the cosine, or the sine for functions of the second kind."""
    pp, pq, qp, qq = tables
    z = (5.0 / x) * (5.0 / x)
    second = jnp.sin if first is jnp.cos else jnp.cos
    p = _polynomial(pp, z) / _polynomial(pq, z)
    q = _polynomial(qp, z) / _polynomial(qq, z)
    angle = x - shift
    return (p * first(angle) + sign * (5.0 / x) * q * second(angle)) * math.sqrt(2 / math.pi) / jnp.sqrt(x)


def _far_0(x: Any, first: Callable[..., Any], sign: int) -> Any:
    return _far(x, (_PP0, _PQ0, _QP0, _QQ0), math.pi / 4, first, sign)


def _far_1(x: Any, first: Callable[..., Any], sign: int) -> Any:
    return _far(x, (_PP1, _PQ1, _QP1, _QQ1), 3 * math.pi / 4, first, sign)


def _j0(x: Any) -> Any:
    x = jnp.abs(x)
    z = x * x
    near = (z - 5.78318596294678452118) * (z - 30.4712623436620863991) * _polynomial(_RP0, z) / _polynomial(_RQ0, z)
    near = choose(x < 1e-5, 1 - z / 4, near)
    return choose(x <= 5, near, _far_0(x, jnp.cos, -1))


def _j1(x: Any) -> Any:
    magnitude = jnp.abs(x)
    z = x * x
    near = _polynomial(_RP1, z) / _polynomial(_RQ1, z) * magnitude
    near = near * (z - 14.6819706421238932572) * (z - 49.2184563216946036703)
    value = choose(magnitude <= 5, near, _far_1(magnitude, jnp.cos, -1))
    return choose(x < 0, -value, value)


def _defined_for_positive(x: Any, value: Any, pole: float) -> Any:
    """A value for positive ``x``, the pole at zero, and NaN for negative ``x``."""
    return choose(x == 0, pole, choose(x < 0, np.nan, value))


def _y0(x: Any) -> Any:
    z = x * x
    near = _polynomial(_YP0, z) / _polynomial(_YQ0, z) + 2 / math.pi * jnp.log(x) * _j0(x)
    return _defined_for_positive(x, choose(x <= 5, near, _far_0(x, jnp.sin, 1)), -np.inf)


def _y1(x: Any) -> Any:
    z = x * x
    near = x * (_polynomial(_YP1, z) / _polynomial(_YQ1, z)) + 2 / math.pi * (_j1(x) * jnp.log(x) - 1 / x)
    return _defined_for_positive(x, choose(x <= 5, near, _far_1(x, jnp.sin, 1)), -np.inf)


_enter("bessel_j0", "The Bessel function of the first kind of order 0")(_j0)
_enter("bessel_j1", "The Bessel function of the first kind of order 1")(_j1)
_enter("bessel_y0", "The Bessel function of the second kind of order 0")(_y0)
_enter("bessel_y1", "The Bessel function of the second kind of order 1")(_y1)


@_enter("spherical_bessel_j0", "The spherical Bessel function of the first kind of order 0")
def _spherical_j0(x: Any) -> Any:
    quotient = choose(jnp.isinf(x), 0, jnp.sin(x) / choose(x == 0, 1, x))
    return choose(x == 0, 1, quotient)


# -- modified --------------------------------------------------------------------------------------------------------


def _k0(x: Any, scaled: bool) -> Any:
    near = _chebyshev(_K0_NEAR, x * x - 2) - jnp.log(0.5 * x) * bessel_i0(x)
    return _modified(x, near, _K0_FAR, scaled)


def _k1(x: Any, scaled: bool) -> Any:
    near = jnp.log(0.5 * x) * bessel_i1(x) + _chebyshev(_K1_NEAR, x * x - 2) / x
    return _modified(x, near, _K1_FAR, scaled)


def _modified(x: Any, near: Any, coefficients: Coefficients, scaled: bool) -> Any:
    far = _chebyshev(coefficients, 8 / x - 2) / jnp.sqrt(x)
    if scaled:
        near = near * jnp.exp(x)
    else:
        far = jnp.exp(-x) * far
    return _defined_for_positive(x, choose(x <= 2, near, far), np.inf)


_enter("modified_bessel_i0", "The modified Bessel function of the first kind of order 0")(bessel_i0)
_enter("modified_bessel_i1", "The modified Bessel function of the first kind of order 1")(bessel_i1)
_enter("modified_bessel_k0", "The modified Bessel function of the second kind of order 0")(lambda x: _k0(x, False))
_enter("modified_bessel_k1", "The modified Bessel function of the second kind of order 1")(lambda x: _k1(x, False))
_enter("scaled_modified_bessel_k0", "``modified_bessel_k0`` times ``exp(input)``")(lambda x: _k0(x, True))
_enter("scaled_modified_bessel_k1", "``modified_bessel_k1`` times ``exp(input)``")(lambda x: _k1(x, True))

# -- Airy ------------------------------------------------------------------------------------------------------------

#: the number of terms of the power series, enough for float64 in its range
_TERMS = 20


def _airy_near(x: Any) -> Any:
    """The power series about zero."""
    f_sum, g_sum, f_term, g_term = jnp.ones_like(x), x, jnp.ones_like(x), x
    z = x * x * x
    for k in range(1, 3 * _TERMS, 3):
        f_term = f_term * z / ((k + 1) * (k + 2))
        g_term = g_term * z / ((k + 2) * (k + 3))
        f_sum, g_sum = f_sum + f_term, g_sum + g_term
    return 0.355028053887817239260 * f_sum - 0.258819403792806798405 * g_sum


@_enter("airy_ai", "Airy's function Ai")
def _airy(x: Any) -> Any:
    magnitude = jnp.abs(x)
    zeta = 2 * magnitude * jnp.sqrt(magnitude) / 3
    factor = 1 / math.sqrt(math.pi)
    decaying = factor * _polynomial(_AN, 1 / zeta) / _polynomial(_AD, 1 / zeta)
    decaying = decaying / (2 * jnp.sqrt(jnp.sqrt(magnitude)) * jnp.exp(zeta))
    u = 1 / (zeta * zeta)
    angle = zeta + math.pi / 4
    even = 1 + u * _polynomial(_AFN, u) / _polynomial(_AFD, u)
    odd = _polynomial(_AGN, u) / _polynomial(_AGD, u) / zeta
    oscillating = factor / jnp.sqrt(jnp.sqrt(magnitude)) * (jnp.sin(angle) * even - jnp.cos(angle) * odd)
    value = choose(x < -2.09, oscillating, choose(x >= 2.09, decaying, _airy_near(x)))
    return choose(jnp.isinf(x), np.nan, choose(x > 103.892, 0, value))
