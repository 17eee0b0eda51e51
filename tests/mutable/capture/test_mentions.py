"""Names in code: which may be attributes that are read, which are only called."""

from fgrad.mutable.capture.mentions import Mentions


def test_names_are_variables_attributes_or_methods():
    def function(x):
        import math  # noqa: PLC0415

        return x.called(1).read + variable(x.both(), x.both) + math.pi  # noqa: F821

    found = Mentions.of(function.__code__)
    assert set(found.names) == {"math", "called", "read", "variable", "both", "pi"}
    assert found.read == {"read", "both", "pi", "math"} and found.called == {"called", "both"}
    assert found.imported == {"math"}


def test_names_of_inner_functions_and_names_in_strings_are_found():
    def function(x):
        return [getattr(y, "scale") for y in map(lambda y: y.inner, x)], "no name"  # noqa: B009, C417

    found = Mentions.of(function.__code__)
    assert {"scale", "inner"} <= found.read and "no name" not in found.read
