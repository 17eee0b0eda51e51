"""The house as its source shows it: nobody leans on JAX's differentiation, reads private names or imports upwards."""

import ast
import functools
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "fgrad").rglob("*.py"))

#: The floors from the ground up: a file imports from its own floor and from those below.  ``run`` is below ``record``,
#: since a recorder runs what is on its tape when somebody asks for a value.
FLOORS = ("deferred", "errors", "jaxcore", "jaxtypes", "graph", "run", "record", "rules", "passes", "api", "questions")
#: What stands on all floors of the core, beside each other: the package, the namespaces and the tools for tests.
ROOF = len(FLOORS)
#: What stands on the core: the seam with the names of it that the mutable layer may use, that layer, and its users.
UPPER = {"seam": ROOF + 1, "mutable": ROOF + 2, "torch": ROOF + 3}
#: The rooms of the mutable layer from its ground up; those of one floor know nothing of each other.
ROOMS = (
    ("ports",),
    ("types",),
    ("context", "layout"),
    ("values",),
    ("tensor",),
    ("operation",),
    ("write", "transforms"),
    ("backward",),
    ("capture", "explain"),
)

#: the lists of the calls that lead upwards: NOTE [Ports]
PORTS = ("fgrad/graph/port.py", "fgrad/mutable/ports.py")

#: JAX's own differentiation
BORROWED = {
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "linear_transpose", "jacfwd", "jacrev", "jacobian", "hessian",
    "hvp", "checkpoint", "remat", "vjp3", "fwd_and_bwd", "saved_input_vjp", "jet",
}  # fmt: skip
#: where JAX keeps it
BORROWED_MODULES = ("jax.interpreters", "jax.ad_checkpoint", "jax.experimental", "jax.api_util", "jax.test_util")
#: where JAX keeps the base class of primitives that bring their own rules
EXTENSIONS = "jax.experimental.hijax"
#: where JAX keeps the rules that authors of primitives register, and the one file that may read it
REGISTRY, READER = "jax.interpreters.ad", "fgrad/rules/foreign.py"
#: what it may read there: the two tables, and the marks for zeros and unknown inputs that rules take
READ = {"primitive_jvps", "primitive_transposes", "Zero", "UndefinedPrimal"}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` for a chain of attributes on a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def imports(tree: ast.Module) -> Iterator[tuple[int, str, str, str]]:
    """Line, module, name in it (empty for the module itself) and local name of everything imported, anywhere."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, "", alias.asname or alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, node.module or "", alias.name, alias.asname or alias.name


def mentioned(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported, and of every attribute of something imported."""
    local: dict[str, str] = {}
    for line, module, name, alias in imports(tree):
        whole = f"{module}.{name}" if name else module
        local[alias] = whole if name or alias != module.split(".")[0] else alias
        yield line, whole
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = dotted(node)
            if chain is not None:
                first, _, rest = chain.partition(".")
                yield node.lineno, f"{local.get(first, first)}.{rest}"


def offences(tree: ast.Module, file: str) -> Iterator[str]:
    for line, name in mentioned(tree):
        where = f"{file}:{line}: {name}"
        parts = name.split(".")
        if parts[0] == "torch":
            yield f"{where}: torch"
        if parts[0] != "jax":
            continue
        if any(part.startswith("_") and part != "_fields" and not part.endswith("__") for part in parts):
            yield f"{where}: a private name of JAX"
        allowed = (name.startswith(EXTENSIONS) and file == "fgrad/jaxcore.py") or (
            file == READER and (name == REGISTRY or name.removeprefix(f"{REGISTRY}.").split(".")[0] in READ)
        )
        if name.startswith(BORROWED_MODULES) and not allowed:
            yield f"{where}: a module of JAX's differentiation"
        if len(parts) == 2 and parts[1] in BORROWED:
            yield f"{where}: JAX's own differentiation"
        if name.startswith(("jax.core", "jax.extend")) and file != "fgrad/jaxcore.py":
            yield f"{where}: only fgrad/jaxcore.py touches jax.core and jax.extend"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_leans_on_nothing_but_the_public_jax(path):
    assert not list(offences(parsed(path), name_of(path)))


@pytest.mark.parametrize(
    "source",
    [
        "import jax\njax.grad(f)",
        "import jax as j\nj.vjp(f, x)",
        "from jax import jvp",
        "from jax import checkpoint as block",
        "from jax.interpreters import ad",
        "import jax.interpreters.ad",
        "import jax\njax.interpreters.ad.add_jaxvals",
        "from jax._src import core",
        "import jax\njax._src.core",
        "def f():\n    from jax import hessian",
        "from jax.core import Tracer",
        "import jax\njax.extend.core.primitives",
        "import torch.nn",
    ],
)
def test_an_offence_is_seen(source):
    assert list(offences(ast.parse(source), "fgrad/some.py"))


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("from jax.interpreters import ad\nad.primitive_jvps", "fgrad/rules/kinds.py"),
        ("from jax.interpreters import ad\nad.jvp", READER),
        ("from jax.interpreters.ad import linearize", READER),
        ("from jax.interpreters import mlir", READER),
    ],
)
def test_one_file_reads_the_rules_of_foreign_primitives_and_no_more(source, file):
    assert list(offences(ast.parse(source), file))


@pytest.mark.parametrize("source", ["import fgrad\nfgrad.grad(f)", "import jax\njax.jit(f)", "from jax import lax"])
def test_what_is_no_offence(source):
    assert not list(offences(ast.parse(source), "fgrad/some.py"))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_stand_at_the_top(path):
    tree = parsed(path)
    nodes = [*ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = [
        f"{name_of(path)}:{node.lineno}"
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(f.lineno <= node.lineno <= (f.end_lineno or 0) for f in functions)
    ]
    assert not inside, "imports inside functions"
    # a checker may read all names of another package; a program may not take them in
    taken = [(line, module) for line, module, name, _ in imports(run_part(path)) if name == "*"]
    assert not [line for line, module in taken if not module.startswith("jax")]


def floor_of(module: str) -> int:
    """The floor of a module by its dotted name."""
    room = (*module.split("."), "")[1]
    return FLOORS.index(room) if room in FLOORS else UPPER.get(room, ROOF)


def run_part(path: Path) -> ast.Module:
    """The source of a file without what only type checkers read: types, and names that are imported late."""
    run = [
        node for node in parsed(path).body if not (isinstance(node, ast.If) and dotted(node.test) == "TYPE_CHECKING")
    ]
    return ast.Module(run, [])


def modules_imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each module of fgrad that a file imports."""
    for line, module, name, _ in imports(tree):
        if module.split(".")[0] != "fgrad":
            continue
        whole = f"{module}.{name}"
        is_module = (ROOT / (whole.replace(".", "/") + ".py")).exists() or (ROOT / whole.replace(".", "/")).is_dir()
        yield line, whole if name and is_module else module


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_lead_downwards(path):
    own = floor_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    wrong = []
    for line, module in modules_imported(run_part(path) if name_of(path) in PORTS else parsed(path)):
        if floor_of(module) > own:
            wrong.append(f"{name_of(path)}:{line}: {module} is on a higher floor")
    assert not wrong


def room_of(module: str) -> str | None:
    """The room of a module of the mutable layer."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "mutable" else None


def misplaced(path: Path) -> Iterator[str]:
    """The imports of a file of the mutable layer that lead up, across, or past the seam."""
    floors = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
    own = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
    for line, module in modules_imported(run_part(path) if name_of(path) in PORTS else parsed(path)):
        where = f"{name_of(path)}:{line}: {module}"
        room = room_of(module)
        if room is None:
            if module != "fgrad.seam":
                yield f"{where} is reached past fgrad/seam.py"
        elif own is None or (room != own and floors[room] >= floors[own]):
            yield f"{where} is not below"


MUTABLE = [path for path in SOURCES if path.is_relative_to(ROOT / "fgrad" / "mutable")]


@pytest.mark.parametrize("path", MUTABLE, ids=name_of)
def test_the_mutable_layer_is_built_floor_by_floor(path):
    assert not list(misplaced(path))


def test_a_misplaced_import_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.test_architecture.ROOT", tmp_path)
    path = tmp_path / "fgrad" / "mutable" / "layout" / "wrong.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from fgrad.graph.graph import Graph\nfrom fgrad.mutable.tensor.node import Node\n"
        "from fgrad.mutable.context.modes import modes\nfrom fgrad.mutable.types.dtypes import dtype\n"
    )
    assert len(list(misplaced(path))) == 3


def test_every_room_has_a_floor():
    rooms = {path.relative_to(ROOT / "fgrad" / "mutable").parts[0].removesuffix(".py") for path in MUTABLE}
    rooms.remove("__init__")
    assert rooms == {room for rooms in ROOMS for room in rooms}


ORDINALS = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth")
#: every room of the core and of the mutable layer that is a folder: its name, its floor, and how modules of it begin
FOLDERS = [
    *((room, floor, f"fgrad.{room}") for floor, room in enumerate(FLOORS[FLOORS.index("graph") :])),
    *((room, floor, f"fgrad.mutable.{room}") for floor, rooms in enumerate(ROOMS[1:]) for room in rooms),
]


@pytest.mark.parametrize(("room", "floor", "package"), FOLDERS, ids=[package for _, _, package in FOLDERS])
def test_a_room_says_its_floor_and_what_it_uses(room, floor, package):
    folder = ROOT / package.replace(".", "/")
    doc = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    assert doc.startswith("Top floor of the core:" if room == "questions" else f"{ORDINALS[floor]} floor:")
    named = re.findall(r"``(\w+)``", doc.partition("It uses ")[2])
    building = package.rpartition(".")[0]
    rooms = [
        other for other, _, path in FOLDERS if path.startswith(f"{building}.") and path.count(".") == package.count(".")
    ]
    used = {
        module.removeprefix(f"{building}.").split(".")[0]
        for path in folder.rglob("*.py")
        for _, module in modules_imported(run_part(path) if name_of(path) in PORTS else parsed(path))
        if module.startswith(f"{building}.")
    }
    assert named == [other for other in rooms if other in used and other != room]


def test_every_folder_says_what_it_is_for():
    assert not [name_of(path) for path in SOURCES if path.stem == "__init__" and not ast.get_docstring(parsed(path))]


def test_the_seam_has_what_is_used_and_no_more():
    seam = parsed(ROOT / "fgrad" / "seam.py")
    given = {alias for _, module, _, alias in imports(seam) if module.startswith("fgrad")}
    used = {name for path in MUTABLE for _, module, name, _ in imports(parsed(path)) if module == "fgrad.seam"}
    assert given == used


def test_nothing_imports_itself_in_a_circle():
    """Within a floor, too, imports make no cycle."""
    edges = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): {
            m for _, m in modules_imported(run_part(path))
        }
        for path in SOURCES
    }
    done: set[str] = set()
    while len(done) < len(edges):
        free = {
            module
            for module, needs in edges.items()
            if module not in done and not (needs & edges.keys()) - done - {module}
        }
        assert free, f"a circle among {sorted(edges.keys() - done)}"
        done |= free


def test_the_top_level_holds_only_what_belongs_there():
    """What belongs to the project, as git says; a user's own files beside it are none of its business."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout of git")
    entries = {line.partition("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in entries if name[0] != "."} == {
        "pyproject.toml", "README.md", "fgrad", "tests", "examples", "docs"
    }  # fmt: skip


def test_dependency_groups_and_extras_are_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    assert groups.pop("dev") == [{"include-group": name} for name in ("test", "docs", "lint")]
    assert groups == project["project"]["optional-dependencies"]
    assert [d.split(">")[0] for d in project["project"]["dependencies"]] == ["numpy", "jax", "attrs"]


def test_no_file_is_much_too_long():
    """A file is one idea; some 400 lines is a sign to split."""
    long = {name_of(path): n for path in SOURCES if (n := len(path.read_text().splitlines())) > 600}
    assert not long
