"""What passed last of the programs of others: the rows of ``passed.json``, which a page of the documents shows.

``python -m tests.real.passed`` runs the programs of all libraries that are installed, and writes both.  The rows of
other libraries stay as they were, so that two environments can be run one after the other.
"""

import ast
import importlib.metadata
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from attrs import asdict, field, frozen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FILE = HERE / "passed.json"
#: the page with the tables, each between two comments
PAGE = ROOT / "docs" / "libraries.md"
#: the modules that programs are about, where their files are named otherwise
MODULES = {
    ("jax", "e3nn"): "e3nn_jax",
    ("jax", "jax_sparse"): "jax",
    ("jax", "kfac"): "kfac_jax",
    ("jax", "tutorials"): "jax",
    ("torch", "tutorials"): "torch",
}
TORCH_MODULES = {"denoising_diffusion": "denoising_diffusion_pytorch", "unfoldnd": "unfoldNd"}

#: how the reason begins why a program was left out
NOT_RUN = "not run:"


@frozen
class Row:
    """The programs of one library: how many there are, how many pass, and why the others do not."""

    library: str
    version: str
    #: "jax" or "torch", and its version
    peer: str
    peer_version: str
    programs: int
    passed: int
    about: str
    others: tuple[str, ...] = field(default=(), converter=tuple)

    @property
    def key(self) -> tuple[str, str]:
        return self.peer, self.library

    @property
    def ran(self) -> bool:
        return not all(why.startswith(NOT_RUN) for why in self.others) or not self.others


def read() -> list[Row]:
    return [Row(**row) for row in json.loads(FILE.read_text())] if FILE.exists() else []


def write(rows: Iterable[Row]) -> None:
    """Keep the rows, a line for each."""
    lines = ",\n".join("  " + json.dumps(asdict(row)) for row in sorted(rows, key=lambda row: row.key))
    FILE.write_text(f"[\n{lines}\n]\n")


def table(rows: Iterable[Row]) -> str:
    rows = list(rows)
    lines = ["| library | programs | pass | what they do |", "|---|---|---|---|"]
    for row in rows:
        about = row.about + "".join(f" {why[:1].upper()}{why[1:]}." for why in row.others)
        lines.append(f"| {row.library} {row.version} | {row.programs} | {row.passed} | {about} |")
    lines.append(f"| all | {sum(row.programs for row in rows)} | {sum(row.passed for row in rows)} | |")
    peers = " and ".join(sorted({row.peer_version for row in rows}))
    return f"Run beside {rows[0].peer} {peers}.\n\n" + "\n".join(lines) + "\n"


def page_with(rows: Iterable[Row]) -> str:
    """The page, with the tables of these rows."""
    page, rows = PAGE.read_text(), list(rows)
    for peer in sorted({row.peer for row in rows}):
        begin, end = f"<!-- {peer}:begin -->\n", f"<!-- {peer}:end -->"
        before, rest = page.split(begin)
        page = before + begin + table(row for row in rows if row.peer == peer) + end + rest.split(end)[1]
    return page


# -- the run ---------------------------------------------------------------------------------------------------------


def version(module: str) -> str:
    """The version of the package that a module comes from."""
    packages = importlib.metadata.packages_distributions().get(module)
    return importlib.metadata.version(packages[0]).partition("+")[0] if packages else ""


def named(path: Path) -> tuple[str, str, str, str]:
    """The peer of a file of programs, the library that it is about, the library's module, and what the programs do."""
    document = ast.get_docstring(ast.parse(path.read_text())) or ""
    first = document.split("\n\n")[0].replace("\n", " ")
    if path.parent.name == "programs":
        return "torch", path.stem, TORCH_MODULES.get(path.stem, path.stem), first
    library, _, what = first.partition(": ")
    module = path.stem.removeprefix("test_")
    return path.parent.name, library, MODULES.get((path.parent.name, module), module), what[:1].upper() + what[1:]


def about(item: pytest.Item) -> tuple[str, str, str, str] | None:
    """What ``named`` says of the program that a test plays; None of a test that plays none."""
    played = item.callspec.params if hasattr(item, "callspec") else {}  # type: ignore[attr-defined]
    if item.path.parent.name == "jax" or (item.path.stem == "test_tutorials" and played):
        return named(item.path)
    name = played.get("name")
    return None if name is None else named(item.path.parent / "programs" / f"{name}.py")


class Recorder:
    """A plugin of pytest that counts, for each library, what passes."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[str, str, str, str] | None] = {}
        self.outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = {item.nodeid: about(item) for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        refused = getattr(report, "wasxfail", None)
        if refused is not None:
            self.outcomes[report.nodeid] = f"refused: {refused.removeprefix('reason: ')}"
        elif report.failed:
            self.outcomes[report.nodeid] = f"`{report.nodeid.rpartition('::')[2]}` fails"
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.outcomes[report.nodeid] = f"{NOT_RUN} {report.longrepr[2].removeprefix('Skipped: ')}"
        elif report.when == "call" and report.passed:
            self.outcomes[report.nodeid] = ""

    def rows(self) -> list[Row]:
        found: dict[tuple[str, str], list[str]] = {}
        known = {}
        for node, outcome in self.outcomes.items():
            if (where := self.items[node]) is not None:
                found.setdefault(where[:2], []).append(outcome)
                known[where[:2]] = where
        made = []
        for (peer, library), outcomes in found.items():
            _, _, module, what = known[peer, library]
            others = tuple(dict.fromkeys(filter(None, outcomes)))
            passed = outcomes.count("")
            made.append(Row(library, version(module), peer, version(peer), len(outcomes), passed, what, others))
        return made


def main(arguments: list[str]) -> int:
    recorder = Recorder()
    options = ["-m", "real or not real", "-q", "-p", "no:cacheprovider", *(arguments or [str(HERE)])]
    status = pytest.main(options, plugins=[recorder])
    rows = {row.key: row for row in read()}
    write((rows | {row.key: row for row in recorder.rows() if row.ran or row.key not in rows}).values())
    PAGE.write_text(page_with(read()))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
