"""The equations of ``einsum``: the subscripts of operands and result, from text or from lists of numbers."""

import operator
from collections.abc import Sequence
from typing import Any

from fgrad.mutable.tensor.tensor import Tensor


def labels_of(equation: str, count: int) -> tuple[list[list[str]], list[str] | None]:
    """The subscripts of each of ``count`` operands and of the output; an ellipsis is the subscript ``...``."""

    def split(text: str, offset: int, operand: int | None) -> list[str]:
        labels: list[str] = []
        i = 0
        while i < len(text):
            character = text[i]
            if character == " ":
                pass
            elif character == ".":
                if text[i : i + 3] != "..." or "..." in labels:
                    raise _misplaced_dot(operand, "..." in labels)
                labels.append("...")
                i += 2
            elif character.isascii() and character.isalpha():
                labels.append(character)
            else:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {offset + i} in the equation string, subscripts must "
                    "be in [a-zA-Z]"
                )
            i += 1
        return labels

    arrow = equation.find("->")
    left = equation if arrow < 0 else equation[:arrow]
    texts = left.split(",")
    if count > len(texts):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if count < len(texts):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    inputs, offset = [], 0
    for operand, text in enumerate(texts):
        inputs.append(split(text, offset, operand))
        offset += len(text) + 1
    return inputs, None if arrow < 0 else split(equation[arrow + 2 :], arrow + 2, None)


def _misplaced_dot(operand: int | None, repeated: bool) -> RuntimeError:
    """The error for a dot outside the first ellipsis of an operand or the output."""
    if operand is None:
        problem = "but an ellipsis (...) was already found" if repeated else "that is not part of any ellipsis (...)"
        return RuntimeError(f"einsum(): found '.' for output {problem}")
    problem = "for which an ellipsis was already found" if repeated else "that is not part of any ellipsis"
    return RuntimeError(f"einsum(): found '.' for operand {operand} {problem}")


def _subscript(index: Any) -> str:
    index = operator.index(index)
    if not 0 <= index < 52:
        raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return chr(index + (65 if index < 26 else 71))


def from_sublists(args: Sequence[Any]) -> tuple[str, list[Tensor]]:
    """The equation of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

    def text(sublist: Sequence[Any]) -> str:
        return "".join(["..." if s is Ellipsis else _subscript(s) for s in sublist])

    count = len(args) // 2
    equation = ",".join([text(args[2 * i + 1]) for i in range(count)])
    if len(args) % 2:
        equation += "->" + text(args[-1])
    return equation, [args[2 * i] for i in range(count)]
