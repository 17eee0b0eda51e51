"""What JAX, PyTorch and fgrad say of the same mistakes, side by side, from the texts that the tests hold.

``python docs/make_messages.py`` prints it; the documentation's build includes it.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.messages import functional, mutable  # noqa: E402 (found by the path above)
from tests.messages.mistake import Mistake, Said, read  # noqa: E402

LAYERS = (("Functions, against JAX", functional, "JAX"), ("Tensors, against PyTorch", mutable, "PyTorch"))


def program(mistake: Mistake) -> str:
    """The body of a mistake's function."""
    source = textwrap.dedent(inspect.getsource(mistake.program))
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    lines = source.splitlines()[function.body[0].lineno - len(getattr(function.body[0], "decorator_list", ())) - 1 :]
    return textwrap.dedent("\n".join(lines))


def block(name: str, said: Said) -> str:
    """One answer as a block of text."""
    head = f"{name}: {said.kind}" if said.kind != "no error" else f"{name} goes on, and gives:"
    return f"```text\n{head}\n{textwrap.indent(said.text, '  ')}\n```"


def section(mistakes: dict[str, Mistake], texts: dict[str, dict[str, Said]], peer: str) -> Iterator[str]:
    """Each mistake of a layer, folded: what fgrad adds to its peer's text, the program, and what is said."""
    for name, mistake in mistakes.items():
        beyond = f"fgrad adds {mistake.better}." if mistake.better else f"fgrad says what {peer} says."
        yield f":::{{dropdown}} {name}\n{beyond}\n\n```python\n{program(mistake)}\n```\n"
        yield block(peer, texts[name][peer])
        yield ""
        yield block("fgrad", texts[name]["fgrad"])
        yield ":::\n"


def table() -> str:
    """Both layers."""
    parts: list[str] = []
    for title, module, peer in LAYERS:
        path: Any = Path(str(module.__file__)).with_suffix(".txt")
        parts += [f"\n## {title}\n", *section(module.MISTAKES, read(path), peer)]
    return "\n".join(parts)


if __name__ == "__main__":
    print(table())
