"""Schemas that are written as PyTorch writes them: ``(Tensor(a!) x, int[] sizes, *, float y=1.0) -> Tensor``."""

import ast
import inspect
import re
from collections.abc import Iterator

from fgrad.torch.library.schema import Parameter, Schema

#: type, which may be written to, name and default of a parameter
_PARAMETER = re.compile(r"(?P<type>\w+)(?P<alias>\(\w+!?\))?(?P<rest>[\[\]?\d]*) (?P<name>\w+)(=(?P<default>.+))?")
#: the parts between commas, of which those in quotes and brackets do not count
_PARTS = re.compile(r"""(?:[^,'"\[]|'[^']*'|"[^"]*"|\[[^\]]*\])+""")
#: how a schema is inferred from the annotation ``int``
_SHORT = {"int": "SymInt"}


def read_schema(text: str) -> Schema:
    """Parse a schema.

    Raises:
      RuntimeError: the text is not a schema.

    >>> str(read_schema("(Tensor(a!) x, *, float y=1.0) -> ()"))
    '(Tensor(a!) x, *, float y=1.0) -> ()'
    """
    found = re.fullmatch(r"\s*\((?P<parameters>.*)\)\s*->\s*(?P<returns>.+?)\s*", text, re.DOTALL)
    if found is None:
        raise RuntimeError(f"a schema is written as (Tensor x, int n=1) -> Tensor, not as {text!r}")
    return Schema(tuple(_parameters(found["parameters"])), re.sub(r"\bint\b", "SymInt", found["returns"]))


def _parameters(text: str) -> Iterator[Parameter]:
    keyword_only = False
    for part in map(str.strip, _PARTS.findall(text)):
        if part == "*":
            keyword_only = True
            continue
        found = _PARAMETER.fullmatch(part)
        if found is None:
            raise RuntimeError(f"a parameter in a schema is written as Tensor x or int n=1, not as {part!r}")
        alias = found["alias"] or ""
        kind = _SHORT.get(found["type"], found["type"]) + alias + re.sub(r"\d", "", found["rest"])
        try:
            default = inspect.Parameter.empty if found["default"] is None else ast.literal_eval(found["default"])
        except (SyntaxError, ValueError):
            raise RuntimeError(f"the default in {part!r} is not a literal of Python's") from None
        yield Parameter(found["name"], kind, default, keyword_only, alias.endswith("!)"))
