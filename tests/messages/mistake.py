"""A typical mistake as a program, what a library says of it, and the file that holds what was said."""

import re
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Mistake:
    """A program that somebody wrote in good faith.

    Attributes:
      name: what the mistake is, in words.
      program: takes the library (``fgrad`` or ``jax``, ``fgrad.torch`` or ``torch``) and does the wrong thing.
      better: what fgrad says beyond its peer; empty where both say the same.
    """

    name: str
    program: Callable[[Any], Any]
    better: str


@frozen
class Said:
    """What a library says: the class of the error or warning, and its text; or what it gave without a word."""

    kind: str
    text: str


def registry() -> tuple[dict[str, Mistake], Callable[..., Any]]:
    """An empty table of mistakes, and the decorator that fills it."""
    table: dict[str, Mistake] = {}

    def mistake(name: str, better: str = "") -> Callable[..., Any]:
        def enter(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
            assert name not in table
            table[name] = Mistake(name, program, better)
            return program

        return enter

    return table, mistake


def said(mistake: Mistake, library: Any) -> Said:
    """Run a mistake: the error with its notes, else the warnings, else what came of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = mistake.program(library)
        except Exception as error:
            text = "\n".join([str(error), *(getattr(error, "__notes__", ()))])
            return Said(type(error).__name__, _settled(text, mistake))
    if caught:
        return Said(
            caught[0].category.__name__, _settled("\n".join(dict.fromkeys(str(w.message) for w in caught)), mistake)
        )
    return Said("no error", _settled(repr(result), mistake))


#: a place in a file; its line is counted from the first one inside of the program, so that others may move
_PLACE = re.compile(r"(?:[\w./-]*/)?(functional|mutable)\.py:(\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]+|(?<=object id )\d+")
#: lines that JAX adds to every error of its own
_JAXS_NOTE = re.compile(r"\n-{20}\nFor simplicity, JAX has removed .*", re.DOTALL)
_LINK = re.compile(r"\n*See https://docs.jax.dev/\S*")


def _settled(text: str, mistake: Mistake) -> str:
    first = mistake.program.__code__.co_firstlineno + 1  # below the decorator and the line with def
    text = _PLACE.sub(lambda m: f"{m[1]}.py:{_counted(int(m[2]), first)}", _JAXS_NOTE.sub("", text))
    # from Python 3.12 on, comprehensions are no functions
    text = re.sub(r"\b_\.(?=\w)", "", re.sub(r"\.<locals>\.<listcomp>|<locals>\.", "", text))
    text = re.sub(r"(?:/[\w.+-]+)+/((?:\w|-)+\.py)", r"\1", text)
    text = re.sub(r"\b(?!functional|mutable)(\w+\.py):\d+", r"\1", text)  # the library's own lines move
    return "\n".join(line.rstrip() for line in _ADDRESS.sub("0x...", _LINK.sub("", text)).strip().splitlines())


def _counted(line: int, first: int) -> int:
    """A line counted from the program's first; one above it, in what programs share, as it is."""
    return line - first if line >= first else line


# -- the files -------------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, dict[str, Said]]:
    """What was said, by mistake and library."""
    found: dict[str, dict[str, Said]] = {}
    for part in re.split(r"^== ", path.read_text(), flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition(" ==\n")
        of: dict[str, Said] = {}
        for answer in re.split(r"^-- ", rest, flags=re.MULTILINE)[1:]:
            head, _, text = answer.partition("\n")
            library, _, kind = head.partition(": ")
            of[library] = Said(kind, textwrap.dedent(text).strip())
        found[name] = of
    return found


def write(path: Path, mistakes: dict[str, Mistake], libraries: dict[str, Any]) -> None:
    """Run every mistake in every library and write what was said."""
    lines: list[str] = []
    for name, mistake in mistakes.items():
        lines.append(f"== {name} ==")
        for library, module in libraries.items():
            answer = said(mistake, module)
            lines += [f"-- {library}: {answer.kind}", textwrap.indent(answer.text, "   "), ""]
    path.write_text("\n".join(lines))
