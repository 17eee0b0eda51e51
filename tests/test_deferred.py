"""What a first program does not need is imported when it is first asked for, and nobody can tell."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import fgrad
import fgrad.torch.nn.functional
from tests.test_architecture import ROOT, SOURCES, dotted, modules_imported, parsed, run_part


def run(code: str, *options: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def declared(path: Path) -> list[tuple[str, str, str]]:
    """Of each name that a type checker sees and that is deferred: the module, its name there and its name here."""
    if "TYPE_CHECKING" not in path.read_text():
        return []
    tree = parsed(path)
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    if not calls & {"deferred", "_deferred", "submodules"}:
        return []
    return [*checked(tree)]


def checked(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Of each name that is imported for type checkers: the module, its name there and its name here."""
    for block in tree.body:
        for node in block.body if isinstance(block, ast.If) and dotted(block.test) == "TYPE_CHECKING" else []:
            for alias in node.names if isinstance(node, ast.ImportFrom) and node.module else []:
                if alias.name == "*":
                    yield from starred(node.module)
                else:
                    yield node.module, alias.name, alias.asname or alias.name


def starred(module: str) -> Iterator[tuple[str, str, str]]:
    """The same of what checkers take a star for: ``__all__``, or all public names that a module defines and imports."""
    found = importlib.import_module(module)
    names = vars(found).get("__all__")
    if names is None:
        tree = parsed(Path(str(found.__file__)))
        yield from [(source, name, here) for source, name, here in checked(tree) if name == here and here[0] != "_"]
        names = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        assigned = [x for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for x in ast.walk(node)]
        names += [x.id for x in assigned if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)]
    yield from [(module, name, name) for name in names if name[0] != "_"]


DEFERRED = {
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): names
    for path in SOURCES
    if (names := declared(path))
}


@pytest.mark.parametrize("package", sorted(DEFERRED))
def test_checkers_and_programs_see_the_same(package):
    module = importlib.import_module(package)
    for source, name, here in DEFERRED[package]:
        found = importlib.import_module(source)
        expected = getattr(found, name) if hasattr(found, name) else importlib.import_module(f"{source}.{name}")
        assert getattr(module, here) is expected, here


@pytest.mark.parametrize("package", ["fgrad.torch.nn", "fgrad.torch.nn.modules", "fgrad.torch.nn.functional"])
def test_checkers_see_all_that_is_deferred(package):
    module = importlib.import_module(package)
    listed = [name for name in dir(module) if name[0] != "_" and not isinstance(getattr(module, name), ModuleType)]
    assert not {*listed} - {here for _, _, here in DEFERRED[package]}


def test_what_is_deferred():
    assert {"fgrad", "fgrad.seam", "fgrad.torch", "fgrad.torch.utils"} <= set(DEFERRED)
    assert {here for _, _, here in DEFERRED["fgrad.torch"]} >= {
        "nn",
        "optim",
        "func",
        "amp",
        "utils",
        "compile",
        "vmap",
    }


@pytest.mark.parametrize(
    ("package", "most", "without"),
    [
        ("fgrad", 90, "questions.compare graph.text graph.saving graph.drawing api.graphs api.jacobians api.checkpoint "
         "passes.regions.loops rules.windows run.kernels.decompositions lax random testing"),
        ("fgrad.torch", 247, "questions.draw mutable.explain.names torch.nn torch.optim torch.func torch.amp "
         "torch.utils torch.serialization torch.backends torch.distributions torch.compiler torch.overrides "
         "torch.autograd.function torch.autograd.gradcheck torch.random.generator torch.ops.elementwise.special "
         "torch.ops.linalg.decompositions torch.ops.reductions.ordering torch.ops.signal"),
    ],
)  # fmt: skip
def test_what_an_import_loads(package, most, without):
    loaded = run(f"import sys, {package}; print(*[name for name in sys.modules if name.startswith('fgrad')])").split()
    assert len(loaded) <= most
    assert not set(loaded) & {f"fgrad.{name}" for name in without.split()}


#: in a fork for each module of a table that is imported late: what it enters is what is listed for it, and for those
#: that it imports
ENTERED = """
import importlib, os, sys
{setup}
late = dict(table.late)
for module in sorted(set(late.values())):
    if not os.fork():
        before = set(table.rows)
        importlib.import_module(module)
        listed = {{name for name, place in late.items() if place in sys.modules}}
        entered = {{name for name in set(table.rows) - before if name in late or {public}}}
        if entered != listed:
            print(module, entered ^ listed, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize(
    ("setup", "public"),
    [
        pytest.param("from fgrad.rules.kinds import RULES as table", "True", id="rules"),
        pytest.param("from fgrad.run.kernels.kernel import TABLE as table", "True", id="kernels"),
        pytest.param(
            "from fgrad.torch.ops.table.table import TABLE as table",
            "table[name].function or '.' in name",
            id="operations",
        ),
    ],
)
def test_rows_are_listed_for_the_module_that_enters_them(setup, public):
    assert not run(ENTERED.format(setup=setup, public=public))


def test_methods_are_listed_for_the_module_that_enters_them():
    told = run(
        """
import importlib, os, sys
import fgrad.torch as torch
from fgrad.torch.ops import families
from fgrad.torch.ops.families import METHODS
for module in sorted({method.module for method in METHODS.values()}):
    if not os.fork():
        before = {name for name, value in vars(torch.Tensor).items() if value is not METHODS.get(name)}
        importlib.import_module(module)
        listed = {name for name, method in METHODS.items() if method.module in sys.modules}
        for name in listed:
            getattr(torch.Tensor, name)
        after = {name for name, value in vars(torch.Tensor).items() if value is not METHODS.get(name)}
        entered = set(families._methods)
        if not after - before == listed == entered:
            print(module, (after - before) ^ listed, listed ^ entered, flush=True)
        os._exit(0)
    os.wait()
"""
    )
    assert not told


def test_a_method_of_the_programs_own_stays():
    told = run(
        """
import fgrad.torch as torch
x = torch.ones(1)
torch.Tensor.erf = lambda self: "own"
assert torch.erfc(x) is not None and x.erf() == "own"
class Sub(torch.Tensor):
    def exp(self):
        return "of", super().exp().tolist()
assert x.as_subclass(Sub).exp()[0] == "of"
held = vars(torch.Tensor)["sin"]  # what mock.patch puts back
torch.Tensor.sin = lambda self: "own"
assert x.cos() is not None and x.sin() == "own"
torch.Tensor.sin = held
assert x.sin().tolist() == torch.sin(x).tolist()
"""
    )
    assert not told


def test_a_second_name_is_of_the_familys_own_method():
    told = run(
        """
import fgrad.torch as torch
torch.Tensor.acos = lambda self: "own"
x = torch.ones(2)
assert x.acos() == "own" and x.arccos().tolist() == [0, 0]
"""
    )
    assert not told


def test_a_method_that_nobody_has_asked_for_is_callable():
    told = run(
        """
import inspect
from unittest import mock
import fgrad.torch as torch
x = torch.zeros(2)
stands = vars(torch.Tensor)["sinc"]
assert stands(x).tolist() == [1, 1] and stands.__name__ == "sinc"
assert stands.__doc__ == torch.Tensor.sinc.__doc__
assert inspect.signature(vars(torch.Tensor)["tan"]) == inspect.signature(torch.Tensor.tan)
with mock.patch.object(torch.Tensor, "sort", autospec=True) as patched:
    patched.return_value = "patched"
    assert x.sort(descending=True) == "patched"
    patched.assert_called_once_with(descending=True)
assert x.sort().values.tolist() == [0, 0]
"""
    )
    assert not told


#: in a fork for each package: what ``import *`` binds is what ``dir`` lists
STARS = """
import os, sys, fgrad.torch
for package in {packages}:
    if not os.fork():
        found = {{}}
        exec(f"from {{package}} import *", found)
        del found["__builtins__"]
        module = sys.modules[package]
        listed = vars(module).get("__all__") or [name for name in dir(module) if name[0] != "_"]
        if set(found) != set(listed) or set(listed) & {own}:
            print(package, set(found) ^ set(listed), flush=True)
        os._exit(0)
    os.wait()
"""

#: what PyTorch has in one file, and we in several
SPLIT = [f"fgrad.torch.nn.modules.{name}" for name in ("activation", "container", "conv", "pooling", "rnn")]


def test_names_that_a_star_imports():
    own = {"TYPE_CHECKING", "submodules", "FUNCTIONAL"}
    packages = [*sorted({*DEFERRED, *SPLIT} - {"fgrad.seam"}), "fgrad.torch.special"]
    assert not run(STARS.format(packages=packages, own=own))
    assert run("from fgrad.torch.nn import *; from fgrad.torch.special import *; print(Linear(2, 1), entr)")


def test_a_name_is_found_in_the_dict_of_its_package():
    code = """
import fgrad.torch as torch
import fgrad.torch.optim.lr_scheduler

for package in torch.optim, torch.optim.lr_scheduler, torch.nn, torch.distributions, torch.utils.data, torch.special:
    print(sorted({*dir(package)} - {*package.__dict__}), vars(package) is package.__dict__)
print(torch.optim.__dict__["Adam"] is torch.optim.Adam, "_PackageOfNamesakes" in repr(torch.nn))
"""
    assert run(code).splitlines() == ["[] True"] * 6 + ["True False"]


def test_a_function_that_names_a_package_can_be_pickled():
    """As pools of processes do it that send functions of ``__main__``."""
    cloudpickle = pytest.importorskip("cloudpickle")
    names = {"fgrad": fgrad, "torch": fgrad.torch, "F": fgrad.torch.nn.functional, "result": None}
    exec("def result(): return fgrad.grad, torch.nn.Linear, F.relu", names)  # no module is named: it goes by value
    names["result"].__module__ = "__main__"
    found = cloudpickle.loads(cloudpickle.dumps(names["result"]))()
    assert found == (fgrad.grad, fgrad.torch.nn.Linear, fgrad.torch.nn.functional.relu)


def test_a_second_thread_waits_for_a_whole_family():
    """Thread A is stopped in the middle of a family's file: B, which asks for what stands above, must not run it."""
    told = run(
        """
import sys, threading
import fgrad.torch as torch
x = torch.ones(2)
stopped, go = threading.Event(), threading.Event()
def pause(file, row):
    def trace(frame, event, arg):
        if not frame.f_code.co_filename.endswith(file) or frame.f_code.co_name != "<module>":
            return None if event == "call" and frame.f_code.co_filename.endswith(file) else trace
        def line(frame, event, arg):
            if row in table.rows and not stopped.is_set():
                stopped.set()
                go.wait(10)
            return line
        return line
    return trace
from fgrad.torch.ops.table.table import TABLE as table
def first(file, row, code):
    sys.settrace(pause(file, row))
    eval(code)
    sys.settrace(None)
def second(code):
    try:
        print(eval(code).tolist())
    except BaseException as error:
        print(repr(error))
for file, row, a, b in (
    ("creation/ranges.py", "arange", "torch.linspace(0, 1, 3)", "torch.arange(3)"),
    ("elementwise/rounding.py", "floor", "torch.frac(x)", "x.floor()"),
):
    stopped.clear(), go.clear()
    threads = [threading.Thread(target=first, args=(file, row, a)), threading.Thread(target=second, args=(b,))]
    threads[0].start()
    print(stopped.wait(10))
    threads[1].start()
    threads[1].join(0.2)
    print(threads[1].is_alive())
    go.set()
    for thread in threads:
        thread.join()
"""
    )
    assert told.split("\n") == ["True", "True", "[0, 1, 2]", "True", "True", "[1.0, 1.0]", ""]


def test_a_fork_waits_for_an_import_of_another_thread():
    told = run(
        """
import os, threading, time
from fgrad import deferred
held = threading.Event()
def hold():
    with deferred._turn:
        held.set()
        time.sleep(0.2)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
if not os.fork():
    print(deferred._turn.acquire(timeout=5), flush=True)
    os._exit(0)
os.wait()
thread.join()
with deferred._turn:
    print("parent")
"""
    )
    assert told == "True\nparent\n"


def test_a_function_of_the_name_of_its_module():
    told = run(
        """
import fgrad.torch as torch
import fgrad.torch.autograd.gradcheck
from fgrad.torch.autograd.gradcheck import GradcheckError
assert torch.autograd.gradcheck is torch.autograd.gradcheck.__globals__["gradcheck"]
"""
    )
    assert not told


def test_the_same_by_every_way():
    run(
        """
import pickle, sys, threading
import fgrad.torch as torch
assert "nn" in dir(torch) and "conv2d" in dir(torch) and "_foreach_add" in dir(torch) and "compile" in dir(torch)
from fgrad.torch import nn
import fgrad.torch.nn.functional as F
assert torch.nn is nn is sys.modules["fgrad.torch.nn"] and nn.functional is F
assert repr(nn.Parameter(torch.ones(1))) == "Parameter containing:\\ntensor([1.], requires_grad=True)"
assert pickle.loads(pickle.dumps(torch.conv2d)) is torch.conv2d
found = []
threads = [threading.Thread(target=lambda: found.append(torch.optim.SGD)) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert set(found) == {torch.optim.SGD} and len(found) == 8
""",
        "-W",
        "error",
    )


#: what ``fgrad.torch`` has and PyTorch has not
OWN = {
    *("audit", "capture", "compat", "draw", "from_jax", "functionalize", "graph_of", "hook_schedule", "inplace"),
    *("install", "nonfinite", "pure", "residuals", "to_jax", "uninstall", "views", "watch", "why_no_grad"),
}


def test_names_of_the_package_are_pytorchs_and_its_own():
    theirs = pytest.importorskip("torch")
    # in a fresh process: a submodule that a program has imported, such as ``onnx``, is listed from then on
    listed = run(
        """
import fgrad.torch as ours
names = [name for name in dir(ours) if name[0] != "_"]
assert ours.__all__ == names
print(*names)
"""
    ).split()
    # PyTorch has ``add_`` as a method only
    assert {name for name in listed if name[-1] != "_"} - set(dir(theirs)) == OWN
    assert not {"sys", "TYPE_CHECKING", "TABLE", "names"} & set(listed)


def test_names_of_fgrad():
    assert not {"TYPE_CHECKING", "_deferred", "fgrad"} & set(dir(fgrad))


def test_first_uses_in_threads_at_once():
    told = run(
        """
import sys, threading
import fgrad.torch as torch
def use(name):
    try:
        getattr(torch, name)
    except BaseException as error:
        print(name, repr(error))
sys.setswitchinterval(1e-4)
names = ("nn", "optim", "func", "conv2d", "_foreach_add", "distributions", "utils", "compile", "distributed", "vmap")
threads = [threading.Thread(target=use, args=(name,)) for name in names]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""
    )
    assert not told


def test_imports_in_threads_at_once():
    told = run(
        """
import os, sys, threading
import fgrad.torch as torch
names = ("nn", "optim", "nn.functional", "nn.modules.linear", "nn.utils.parametrize", "func", "distributions")
def use(name):
    begin.wait()
    try:
        exec(f"import fgrad.torch.{name}")
    except BaseException as error:
        print(name, repr(error), flush=True)
sys.setswitchinterval(1e-5)
for _ in range(2):
    if not os.fork():
        begin = threading.Barrier(len(names))
        threads = [threading.Thread(target=use, args=(name,)) for name in names]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        os._exit(0)
    os.wait()
"""
    )
    assert not told


#: packages that import all of their modules themselves, or of whose modules users import none by name
CLOSED = ("fgrad.torch.func", "fgrad.torch.compiler", "fgrad.torch.serialization", "fgrad.torch.utils.tensorboard")


def test_imports_of_threads_meet_in_one_order():
    """See NOTE [Imports in threads]; what comes with ``fgrad.torch`` is imported before threads begin."""

    def closed(module: str) -> str:
        return next((package for package in CLOSED if module.startswith(f"{package}.")), module)

    needs: dict[str, set[str]] = {}
    for path in SOURCES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found = {module for _, module in modules_imported(run_part(path))} | {name.rpartition(".")[0]}
        needs.setdefault(closed(name), set()).update({closed(module) for module in found} - {closed(name)})
    done = set(
        run("import sys, fgrad.torch; print(*[name for name in sys.modules if name.startswith('fgrad')])").split()
    )
    while free := {module for module in needs if module not in done and not needs[module] & needs.keys() - done}:
        done |= free
    assert not needs.keys() - done


def test_a_thread_that_is_in_an_import_does_not_wait():
    told = run(
        """
import importlib.util, sys, threading
import fgrad.torch as torch
from fgrad import deferred
done = threading.Event()
class Finder:  # of a module whose import begins while another thread has its turn
    def find_spec(self, name, path=None, target=None):
        if name == "fgrad.asks":
            return importlib.util.spec_from_loader(name, self)
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile("import fgrad.torch; fgrad.torch.fft", "asks.py", "exec"), vars(module))
        done.set()
sys.meta_path.insert(0, Finder())
with deferred._turn:
    threading.Thread(target=lambda: __import__("fgrad.asks"), daemon=True).start()
    print(done.wait(10))
"""
    )
    assert told == "True\n"


#: in a process where nothing has asked yet, each by itself
FIRST_USES = [
    "assert torch.conv1d(torch.ones(1, 1, 3), torch.ones(1, 1, 2)).tolist() == [[[2, 2]]]",
    "assert torch._foreach_add([torch.ones(1)], 1)[0].item() == 2",
    "assert torch.cuda.amp.autocast and torch.utils.checkpoint.checkpoint",
    "from fgrad.torch import *; assert nn.Linear and conv2d and vmap and Tensor",
    "from fgrad.torch.nn import Linear; assert Linear(2, 1).weight.shape == (1, 2)",
    "import fgrad.torch.nn.modules.activation as there; assert there.MultiheadAttention",
    "torch.install()\nimport torch.nn as nn\nfrom torch import optim, conv2d",
    "assert not fgrad.compare(torch.sin, torch.sin)(torch.ones(2))",
    "assert 'compare' in dir(fgrad) and fgrad.draw",
    "import copy; assert copy.deepcopy(torch.ones(1)).item() == 1",
    "import pickle; assert pickle.loads(pickle.dumps(torch.ones(1))).item() == 1",
]


def in_forks(codes: list[str]) -> str:
    """What the errors say of statements, each run in a fork of a process that has imported ``fgrad.torch``."""
    return run(
        f"""
import importlib, os, sys
import fgrad, fgrad.torch as torch
for code in {codes!r}:
    if not os.fork():
        try:
            exec(code)
            os._exit(0)
        except BaseException as error:
            print(code, repr(error), flush=True)
            os._exit(1)
    os.wait()
"""
    )


def test_first_uses():
    assert not in_forks(FIRST_USES)


@pytest.mark.parametrize("package", ["fgrad", "fgrad.torch", "fgrad.torch.nn", "fgrad.torch.utils", "fgrad.torch.cuda"])
def test_a_name_that_is_not_there(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


@pytest.mark.thorough
def test_every_module_can_be_the_first():
    """No module needs another to have been imported before it."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES if path.stem[0] != "_"]
    if importlib.util.find_spec("tensorboard") is None:
        names = [name for name in names if not name.startswith("fgrad.torch.utils.tensorboard")]
    assert not in_forks([f"importlib.import_module({name!r})" for name in names])
