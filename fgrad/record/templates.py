"""The fast lane: the first call of a function is recorded into a small graph, which later calls splice in.

Longer than most files: how a template is made, found and spliced is one path, which every fast call takes.

NOTE [Templates]
JAX's own wrappers cost some 50 us per operation.  So the first call of ``f`` with some argument types and static
arguments runs through them under a ``Stager``, and its graph is kept as a *template*; a later call is a dictionary
look-up and an append to the tape.  No function needs code of its own: arrays and Python floats are inputs of the
template, everything else (axes, shapes, dtypes, strings) is part of its key.  A function that cannot be recorded on
types alone (it needs a number, takes a function, has effects) goes through JAX: the open lane.  A Python float, or an
int that is an operand, is an input, so a changing number does not make a new program.
"""

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax, tree_util

from fgrad.graph.graph import Graph, Node, evaluate, unsourced
from fgrad.graph.op import Op
from fgrad.jaxcore import ShapedArray, Tracer as JaxTracer, is_array, set_trace, typeof
from fgrad.jaxtypes import mesh_of
from fgrad.record.configuration import configuration, precision
from fgrad.record.recording import new_tracer
from fgrad.record.stager import Stager
from fgrad.record.tracer import Tracer
from fgrad.run.cache import Cache

TEMPLATE_LIMIT = 1 << 14


class Template:
    """A function's graph for some argument types, and the structure of its outputs.

    ``op`` is set in the common case that the graph is one operation with one output.
    """

    __slots__ = ("graph", "tree", "op", "type", "order", "pair")

    def __init__(self, graph: Graph, tree: Any):
        #: without source lines, which would be those of the recorded call
        self.graph: Graph = unsourced(graph)
        self.tree: Any = tree
        self.op: Op | None = None
        #: ``op``, if its operands are the template's two inputs in order
        self.pair: Op | None = None
        n = len(graph.in_types)
        one = len(graph.nodes) == 1 and not graph.consts and len(graph.nodes[0].op.out_types) == 1
        if one and graph.outputs == (n,) and tree_util.treedef_is_leaf(tree):
            self.op = graph.nodes[0].op
            self.type: ShapedArray = self.op.out_types[0]
            self.order: tuple[int, ...] = graph.nodes[0].inputs
            if self.order == (0, 1) == tuple(range(n)):
                self.pair = self.op

    def __call__(self, trace: Any, args: Sequence[Any], frame: Any) -> Any:
        """Append the template to the tape of ``trace``."""
        if not trace.open:
            values = [x.full_lower() if type(x) is Tracer else x for x in args]
            return tree_util.tree_unflatten(self.tree, evaluate(self.graph, values))
        op, code = self.op, frame.f_code
        source = (code, frame.f_lasti) if code is trace.code else trace.position(frame)
        if op is None:
            return tree_util.tree_unflatten(self.tree, trace.splice(self.graph, args, source))
        numbers = list(map(trace.number, args))
        number = trace.append(op, tuple(map(numbers.__getitem__, self.order)), source)
        return new_tracer(trace, self.type, number)

    def pair_call(self, trace: Any, x: Any, y: Any, frame: Any) -> Tracer:
        """The call if ``pair`` is set; inlining ``append`` and ``new_tracer`` saves a third of its time."""
        a = x.number if type(x) is Tracer and x._trace is trace else trace.number(x)
        if type(y) is Tracer and y._trace is trace:
            b = y.number
        else:
            entry = trace.lifted.get(id(y))
            b = trace.number(y) if entry is None else entry[0]
        number = trace.count
        trace.ops.append(self.pair)
        trace.args += (a, b)
        code = frame.f_code
        if code is trace.code:
            trace.codes.append(code)
            trace.offsets.append(frame.f_lasti)
        else:
            trace.note(trace.position(frame))
        trace.count = number + 1
        tracer = _blank(Tracer)
        tracer._trace = trace
        tracer.aval = self.type
        tracer.number = number
        return tracer


_blank = object.__new__
_templates: Cache[tuple[Any, ...], Template | None] = Cache(TEMPLATE_LIMIT)


_UNKNOWN: Any = object()


def apply_pair(function: Callable[..., Any], x: Any, y: Any, frame: Any) -> Any:
    """``apply`` to two operands, the most frequent call, with as little work as possible."""
    trace = None
    if type(x) is Tracer:
        trace = x._trace
        first: Any = x.aval
    elif is_array(x):
        first = typeof(x)
    else:
        return apply(function, (x, y), {}, frame)
    if type(y) is Tracer:
        if trace is None or y._trace.order > trace.order:
            trace = y._trace
        second: Any = y.aval
    elif type(y) is float:
        second = float
    elif trace is not None and (entry := trace.lifted.get(id(y))) is not None:
        second = entry[2]
    elif is_array(y):
        second = typeof(y)
    else:
        return apply(function, (x, y), {}, frame)
    if trace is None:
        return function(x, y)
    # of the settings, only the precision of products can change inside the recorded function
    key = (function, first, second, trace.configuration, precision())
    template = _templates.get(key, _UNKNOWN)
    if template is _UNKNOWN:
        template = _make(key, function, (x, y), {}, (x, y))
    if template is None:
        return function(x, y)
    if template.pair is not None and trace.open:
        return template.pair_call(trace, x, y, frame)
    return template(trace, (x, y), frame)


class _OpenLane(Exception):
    """The call cannot be a template."""


#: functions of two operands, of which an int is a number and not a static argument
_OPERATORS = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.matmul,
     operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}
)  # fmt: skip


def _takes_numbers(function: Any) -> bool:
    if function in _OPERATORS:
        return True
    ufunc = getattr(np, getattr(function, "__name__", ""), None)
    return isinstance(ufunc, np.ufunc) and ufunc.nin == 2 and ufunc not in (np.power, np.float_power, np.ldexp)


def apply(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], frame: Any) -> Any:
    """Call ``function`` with arguments that may be fgrad tracers, from its template or through JAX."""
    dynamic: list[Any] = []
    try:
        parts = [function, configuration()]
        for x in args:
            parts.append(_key_of(x, dynamic, function))
        for name, value in kwargs.items():
            parts.append((name, _key_of(value, dynamic, function)))
        key = tuple(parts)
        template = _templates.get(key, _UNKNOWN)
    except (_OpenLane, TypeError):  # TypeError: an unhashable static
        return function(*args, **kwargs)
    trace = None
    for x in dynamic:
        if type(x) is Tracer and (trace is None or x._trace.order > trace.order):
            trace = x._trace
    if trace is None:
        return function(*args, **kwargs)
    if template is _UNKNOWN:
        template = _make(key, function, args, kwargs, dynamic)
    if template is None:
        return function(*args, **kwargs)
    return template(trace, dynamic, frame)


def _key_of(x: Any, dynamic: list[Any], function: Any) -> Any:
    """An argument's part of a template's key; its arrays and numbers are added to ``dynamic``."""
    kind = type(x)
    if kind is Tracer:
        dynamic.append(x)
        return x.aval
    if kind is float or kind is complex or (kind is int and _takes_numbers(function)):
        dynamic.append(x)
        return kind
    if kind is int or kind is str or kind is bool or x is None or x is Ellipsis:
        return (kind, x)
    if kind is tuple or kind is list:
        return (kind, *[_key_of(y, dynamic, function) for y in x])
    if kind is slice:
        return (slice, *[_key_of(y, dynamic, None) for y in (x.start, x.stop, x.step)])
    if isinstance(x, JaxTracer):
        raise _OpenLane
    if is_array(x) or isinstance(x, np.ndarray | np.generic):
        dynamic.append(x)
        return typeof(x)
    if isinstance(x, dict):
        return (dict, *[(k, _key_of(v, dynamic, function)) for k, v in x.items()])
    if isinstance(x, type | np.dtype) or not callable(x):
        hash(x)
        return (kind, x)
    if getattr(x, "dtype", None) is not None:  # jnp.float32 and the like, which are callable
        return x
    raise _OpenLane


def _make(
    key: tuple[Any, ...],
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    dynamic: Sequence[Any],
) -> Template | None:
    """Record ``function`` on the types of ``dynamic``; None if that fails."""
    template: Template | None
    try:
        template = None if _reads_exponent(key[0], dynamic) else _record(function, args, kwargs, dynamic)
    except Exception:
        # if it is the user's error, the open lane raises it again, for the user's values
        template = None
    return _templates.enter(key, template)


def _record(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], dynamic: Sequence[Any]
) -> Template | None:
    stager = Stager()
    inputs = iter([stager.new_input(x.aval if type(x) is _Typed else typeof(x)) for x in dynamic])
    try:
        staged = [_staged(x, inputs, function) for x in args]
        named = {name: _staged(x, inputs, function) for name, x in kwargs.items()}
        with set_trace(stager):
            result = function(*staged, **named)
        flat, tree = tree_util.tree_flatten(result)
        if not all(isinstance(x, jax.Array) for x in flat):
            return None
        graph = stager.closed_graph(stager.outputs(flat))
    finally:
        stager.open = False
    if graph.effects or any(isinstance(const.value, JaxTracer) for const in graph.consts):
        return None
    if any(_narrows(node, dynamic) for node in graph.nodes):
        return None
    return Template(graph, tree)


_POWERS = frozenset({operator.pow, jax.numpy.power, jax.numpy.pow})


def _reads_exponent(function: Any, dynamic: Sequence[Any]) -> bool:
    """Whether JAX makes a product of a power, if the exponent is known: its type is then that of the base.

    Not so of floats: both ways the type is theirs, unless it is weak, and a changing exponent makes no new program.
    """
    if function not in _POWERS or len(dynamic) != 2:
        return False
    base, exponent = [x.aval if type(x) is _Typed else typeof(x) for x in dynamic]
    typed = _kind(base.dtype) == "f" and not base.weak_type
    return exponent.ndim == 0 and exponent.dtype.kind in "iu" and not typed


#: the kinds of numbers, each of which a conversion to one before it cuts down
_NARROWER = "biufc"


def _narrows(node: Node, dynamic: Sequence[Any]) -> bool:
    """Whether an operation converts a Python number to a narrower kind: Python does so in JAX, or raises."""
    if node.op.name != "convert_element_type" or node.inputs[0] >= len(dynamic):
        return False
    if type(dynamic[node.inputs[0]]) not in (float, complex):
        return False
    to, of = node.op.out_types[0].dtype, node.op.in_types[0].dtype
    return _NARROWER.find(_kind(to)) < _NARROWER.find(of.kind)


def _staged(x: Any, inputs: Any, function: Any) -> Any:
    """``x`` with its dynamic parts replaced by the next staged inputs, in the order of ``_key_of``."""
    kind = type(x)
    if kind in (Tracer, _Typed, float, complex) or (kind is int and _takes_numbers(function)):
        return next(inputs)
    if kind in (tuple, list):
        return kind([_staged(y, inputs, function) for y in x])
    if kind is slice:
        return slice(*[_staged(y, inputs, None) for y in (x.start, x.stop, x.step)])
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        return next(inputs)
    if isinstance(x, dict):
        return {k: _staged(v, inputs, function) for k, v in x.items()}
    return x


# --------------------------------------------------------------------------------------------------------------------
# the tracer's own operators and methods


def _binary(name: str, function: Callable[..., Any], reflected: bool) -> None:
    through_jax = getattr(JaxTracer, name)
    # a template records JAX's own operator, which does not look for the template again
    recorded = getattr(JaxTracer, f"__{function.__name__.strip('_')}__")

    is_power = function is operator.pow
    lookup, frame_of = _templates.get, sys._getframe

    def method(self: Tracer, other: Any) -> Any:
        trace = self._trace
        kind: Any = type(other)
        if kind is Tracer:
            part: Any = other.aval
            theirs = other._trace
            if theirs is not trace and theirs.order > trace.order:
                trace = theirs
        elif kind is float or (kind is int and not is_power):
            part = kind
        elif kind is int and not reflected:
            # an integer exponent is static: x ** 2 is a product
            part = (int, other)
        elif is_array(other):
            part = typeof(other)
        else:
            return through_jax(self, other)
        # of the settings, only the precision of products can change inside the recorded function
        key = (function, self.aval, part, reflected, trace.configuration, precision())
        template = lookup(key)
        if template is None:
            template = _operator(key, recorded, self, other)
            if template is None:
                return through_jax(self, other)
        x, y = (other, self) if reflected else (self, other)
        if template.pair is not None and trace.open:
            return template.pair_call(trace, x, y, frame_of(1))
        return template(trace, (self,) if type(part) is tuple else (x, y), frame_of(1))

    method.__name__ = name
    method.__qualname__ = f"Tracer.{name}"
    setattr(Tracer, name, method)


#: the operators that are one primitive, for which JAX's would trace a program of its own; and their operands' kinds
_PRIMITIVES: dict[Any, tuple[Callable[..., Any], str]] = {
    operator.add: (lax.add, "iufc"),
    operator.sub: (lax.sub, "iufc"),
    operator.mul: (lax.mul, "iufc"),
    operator.truediv: (lax.div, "fc"),
    operator.lt: (lax.lt, "iuf"),
    operator.le: (lax.le, "iuf"),
    operator.gt: (lax.gt, "iuf"),
    operator.ge: (lax.ge, "iuf"),
    operator.eq: (lax.eq, "biufc"),
    operator.ne: (lax.ne, "biufc"),
    operator.and_: (lax.bitwise_and, "biu"),
    operator.or_: (lax.bitwise_or, "biu"),
    operator.xor: (lax.bitwise_xor, "biu"),
}
#: the kinds of the arrays in whose type a Python number is computed
_KINDS_OF_NUMBERS = {int: "iufc", float: "fc"}


def _operator(key: tuple[Any, ...], function: Any, x: Tracer, other: Any) -> Template | None:
    if key in _templates:
        return _templates[key]
    if type(key[2]) is tuple:
        return _make(key, function, (_Typed(x.aval), other), {}, (_Typed(x.aval),))
    args = (other, x) if key[3] else (x, other)
    types = [typeof(y) for y in args]
    primitive, kinds = _PRIMITIVES.get(key[0], (function, ""))
    if _kind(x.aval.dtype) in kinds:
        if _are_alike(*types):
            function = primitive if types[0].ndim == types[1].ndim else _of_one_rank(primitive)
        elif not x.aval.weak_type and _kind(x.aval.dtype) in _KINDS_OF_NUMBERS.get(key[2], ""):
            function = _with_number(primitive, x.aval.dtype, key[3])
    return _make(key, function, [_Typed(t) for t in types], {}, [_Typed(t) for t in types])


def _kind(dtype: np.dtype[Any]) -> str:
    """The kind of a type of numbers; NumPy does not know those of 16 bits that are not its own."""
    return "f" if dtype == jax.numpy.bfloat16 else dtype.kind


def _are_alike(x: ShapedArray, y: ShapedArray) -> bool:
    """Whether a primitive takes two types as they are, but for their ranks: it broadcasts scalars and axes of one."""
    if x.dtype != y.dtype or x.weak_type != y.weak_type:
        return False
    if x.shape == y.shape or () in (x.shape, y.shape):
        return True
    free = mesh_of([x, y]) is None and jax.config.jax_numpy_rank_promotion == "allow"  # type: ignore[attr-defined]
    return free and all(m == n or 1 in (m, n) for m, n in zip(x.shape[::-1], y.shape[::-1], strict=False))


def _of_one_rank(primitive: Callable[..., Any]) -> Callable[..., Any]:
    """A primitive of two arrays, the one of fewer axes with more in front; not of scalars."""

    def function(x: Any, y: Any) -> Any:
        rank = max(x.ndim, y.ndim)
        return primitive(*[lax.broadcast_to_rank(z, rank) if 0 < z.ndim < rank else z for z in (x, y)])

    return function


def _with_number(primitive: Callable[..., Any], dtype: np.dtype[Any], first: bool) -> Callable[..., Any]:
    """A primitive of an array and a number, which comes first or second, in the array's type."""
    if first:
        return lambda number, x: primitive(lax.convert_element_type(number, dtype), x)
    return lambda x, number: primitive(x, lax.convert_element_type(number, dtype))


class _Typed:
    """A placeholder for an operand, with its type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval


_UNARY_PRIMITIVES: dict[Any, tuple[Callable[..., Any], str]] = {
    operator.neg: (lax.neg, "iufc"),
    operator.invert: (lax.bitwise_not, "biu"),
}


def _unary(name: str, function: Callable[..., Any]) -> None:
    through_jax = getattr(JaxTracer, name)

    def method(self: Tracer) -> Any:
        return apply(function, (self,), {}, sys._getframe(1))

    primitive, kinds = _UNARY_PRIMITIVES.get(function, (through_jax, ""))

    def function_of(x: Any) -> Any:
        return primitive(x) if _kind(x.dtype) in kinds else through_jax(x)

    function = function_of
    method.__name__ = name
    method.__qualname__ = f"Tracer.{name}"
    setattr(Tracer, name, method)


_getitem_through_jax = JaxTracer.__getitem__


def _index(x: Any, index: Any) -> Any:
    return _getitem_through_jax(x, index)


def _getitem(self: Tracer, index: Any) -> Any:
    return apply(_index, (self, index), {}, sys._getframe(1))


class _Method:
    """A method of the array interface (``x.sum``), bound to a tracer."""

    __slots__ = ("function", "tracer")

    def __init__(self, function: Any, tracer: Tracer):
        self.function = function
        self.tracer = tracer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return apply(self.function, (self.tracer, *args), kwargs, sys._getframe(1))


_getattr_through_jax = JaxTracer.__getattr__


def _getattr(self: Tracer, name: str) -> Any:
    """Methods for versions of JAX whose tracers lack them."""
    attribute = _getattr_through_jax(self, name)
    function = getattr(attribute, "__func__", None)
    return attribute if function is None else _Method(function, self)


def _method(name: str) -> None:
    through_jax = getattr(JaxTracer, name, None)
    if through_jax is None:
        return

    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return apply(through_jax, (self, *args), kwargs, sys._getframe(1))

    method.__name__ = name
    method.__qualname__ = f"Tracer.{name}"
    method.__doc__ = through_jax.__doc__
    setattr(Tracer, name, method)


#: methods that return arrays
_METHODS = (
    "all", "any", "argmax", "argmin", "argsort", "astype", "choose", "clip", "conj", "conjugate", "cumprod", "cumsum",
    "diagonal", "dot", "flatten", "max", "mean", "min", "prod", "ptp", "ravel", "repeat", "reshape", "round", "sort",
    "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var",
)  # fmt: skip


def _property(name: str) -> None:
    def through_jax(x: Any) -> Any:
        return _getattr_through_jax(x, name)

    def method(self: Tracer) -> Any:
        return apply(through_jax, (self,), {}, sys._getframe(1))

    setattr(Tracer, name, property(method))


def install() -> None:
    """Give the tracer class its fast-lane operators, methods and properties."""
    # operator.__add__ and the like are named as the methods, also where operator.and_ is not
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul", "pow", "and", "or", "xor"):
        function = getattr(operator, f"__{name}__")
        _binary(f"__{name}__", function, False)
        _binary(f"__r{name}__", function, True)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        _binary(f"__{name}__", getattr(operator, name), False)
    for name in ("__neg__", "__pos__", "__abs__", "__invert__"):
        _unary(name, getattr(operator, name.strip("_")))
    for name in _METHODS:
        _method(name)
    for name in ("T", "mT", "real", "imag"):
        _property(name)
    Tracer.__getitem__ = _getitem  # type: ignore[method-assign]
    Tracer.__getattr__ = _getattr  # type: ignore[method-assign]
    Tracer.__hash__ = None  # type: ignore[assignment]


install()
