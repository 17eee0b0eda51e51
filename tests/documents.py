"""Running what the documents show: the code blocks of a page, in order and in one namespace, outputs compared.

A block that begins with ``>>>`` is a session at Python's prompt.  Any other block is the text of a file, whose name
may stand in a comment on its first line (``# model.py``); that name, with lines counted from it, is what error messages
and graphs then show.  Sessions are typed into ``<stdin>``, as Python calls it.

``python -m tests.documents docs/*.md`` writes what the sessions print now into the pages (outputs with ``...`` in them
stay): look at the difference before you commit it.  With ``--errors`` also errors that no page expects yet.
"""

import contextlib
import doctest
import io
import linecache
import math
import os
import re
import runpy
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sybil import Document, Example, Region
from sybil.document import PythonDocStringDocument
from sybil.evaluators.doctest import OutputChecker
from sybil.parsers.abstract.doctest import DocTestStringParser
from sybil.parsers.markdown.codeblock import CodeBlockParser

ROOT = Path(__file__).parent.parent


def pages() -> list[Path]:
    """The pages of the documentation, without what its build makes."""
    docs = ROOT / "docs"
    return sorted(path for path in docs.rglob("*.md") if not path.is_relative_to(docs / "_build"))


def typed(source: str, namespace: dict[str, Any]) -> tuple[str, Exception | None]:
    """Type one statement at the prompt: what it printed, and what it raised."""
    namespace.setdefault("__name__", "__main__")
    output, raised = io.StringIO(), None
    hook, sys.displayhook = sys.displayhook, sys.__displayhook__
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(source, "<stdin>", "single", dont_inherit=True), namespace)
    except Exception as error:
        raised = error
    finally:
        sys.displayhook = hook
    return output.getvalue(), raised


def program(path: Path) -> str:
    """Run a program in this process: what it printed."""
    output = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(output):
        warnings.simplefilter("ignore")
        runpy.run_path(str(path), run_name="__main__")
    return output.getvalue()


def message(error: Exception) -> str:
    """The last lines of a traceback, without the notes that JAX adds."""
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}: {error}\n"


#: a number with a fraction or an exponent, as Python and NumPy print it
NUMBER = re.compile(r"-?\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)")


def same(want: str, got: str, flags: int) -> bool:
    """Whether an output is the one shown; the last digits of a float32 may depend on the machine and on JAX."""
    if OutputChecker().check_output(want, got, flags):
        return True
    want = want.replace("<BLANKLINE>", "")
    texts = [re.sub(r"\s+", "", NUMBER.sub("0.", text)) for text in (want, got)]
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (want, got)]
    return texts[0] == texts[1] and all(map(_close, *numbers))


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6)


def session(example: Example) -> str | None:
    """Run one statement of a session; the difference from what is shown, or None."""
    parsed: doctest.Example = example.parsed
    flags = doctest.ELLIPSIS
    for flag, on in parsed.options.items():
        flags = flags | flag if on else flags & ~flag
    output, raised = typed(parsed.source, example.namespace)
    if raised is None:
        if same(parsed.want, output, flags):
            return None
        return OutputChecker().output_difference(parsed, output, flags)
    if parsed.exc_msg is not None:
        got, wanted = message(raised), parsed.exc_msg
        if flags & doctest.IGNORE_EXCEPTION_DETAIL:
            got, wanted = got.partition(":")[0], wanted.partition(":")[0]
        if same(wanted, got, flags):
            return None
    return f"{''.join(traceback.format_exception(raised))}\nexpected:\n{parsed.exc_msg or parsed.want}"


def run_file(source: str, name: str, line: int, namespace: dict[str, Any]) -> None:
    """Run a block that is the text of a file; ``name`` and ``line`` say where it stands, if it does not say itself."""
    namespace.setdefault("__name__", "__main__")
    named = re.match(r"# ([\w/]+\.py)\n", source)
    if named is not None:
        name, line = named.group(1), 0
        # errors show its lines, as if the file were there
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
    exec(compile("\n" * line + source, name, "exec", dont_inherit=True), namespace)


def blocks(document: Document) -> Iterable[Region]:
    """The runnable parts of a page: statements of sessions, and files."""
    statements = DocTestStringParser(session)  # type: ignore[arg-type]

    def file(example: Example) -> None:
        run_file(example.parsed, example.path, example.line + example.parsed.line_offset, example.namespace)

    for region in CodeBlockParser("python", file)(document):
        if region.parsed.startswith(">>>"):
            for statement in statements(region.parsed, document.path):
                statement.adjust(region, region.parsed)
                yield statement
        else:
            yield region


def failures(examples: Iterable[Example]) -> Iterator[str]:
    """Run the examples; where and how each failure differs from what is shown."""
    for example in examples:
        try:
            example.evaluate()
        except Exception as error:
            yield f"{Path(example.path).name}:{example.line}: {error}"


def run_page(path: Path) -> list[str]:
    """Run a page of Markdown; its failures."""
    return list(failures(Document.parse(str(path), blocks)))


def docstrings(path: Path) -> Iterator[tuple[int, Document]]:
    """The docstrings of a module's file that hold examples, with the line of each."""
    text = path.read_text()
    statements = DocTestStringParser(session)  # type: ignore[arg-type]
    for start, _, docstring in PythonDocStringDocument.extract_docstrings(text):
        document = Document(docstring, str(path))
        for region in statements(docstring, str(path)):
            document.add(region)
        if document.regions:
            yield text.count("\n", 0, start) + 1, document


def run_docstring(document: Document, names: dict[str, Any]) -> list[str]:
    """Run the examples of a docstring in a copy of its module's names; its failures."""
    document.namespace.update(names)
    return list(failures(document))


# --------------------------------------------------------------------------------------------------------------------
# writing the outputs


def retyped(block: str, namespace: dict[str, Any], errors: bool) -> str:
    """A session with the outputs that it has now; errors where none was shown are written only with ``errors``."""
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(block):
        first, *rest = example.source.rstrip("\n").split("\n")
        lines += [f">>> {first}", *(f"... {line}".rstrip() for line in rest)]
        output, raised = typed(example.source, namespace)
        if raised is not None and example.exc_msg is None and not errors:
            print(f"a new error, by {example.source.strip()}\n    {message(raised)}", file=sys.stderr)
            output = example.want
        elif "..." in (example.want if raised is None else example.exc_msg or ""):
            output = example.want
        elif raised is not None:
            output = f"Traceback (most recent call last):\n  ...\n{message(raised)}"
        lines += [line if line.strip() else "<BLANKLINE>" for line in output.rstrip("\n").split("\n")] if output else []
    return "\n".join(lines) + "\n"


def rewritten(path: Path, errors: bool) -> str:
    """The text of a page with the outputs that its sessions have now."""
    text = path.read_text()
    namespace: dict[str, Any] = {}

    def block(found: re.Match[str]) -> str:
        if found[1].startswith(">>>"):
            return f"```python\n{retyped(found[1], namespace, errors)}```"
        run_file(found[1], str(path), text.count("\n", 0, found.start()) + 1, namespace)
        return found[0]

    return re.sub(r"^```python\n(.*?)^```", block, text, flags=re.DOTALL | re.MULTILINE)


def main() -> None:
    errors = "--errors" in sys.argv
    for path in [Path(name).resolve() for name in sys.argv[1:] if name != "--errors"]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            path.write_text(rewritten(path, errors))


if __name__ == "__main__":
    main()
