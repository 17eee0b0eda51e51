"""Every port is filled by the function that it names, of the type that it says, and asked by whom it says."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from fgrad.graph import port as core
from fgrad.graph.port import Port
from fgrad.mutable import ports as mutable
from tests.test_architecture import ROOMS, ROOT, SOURCES, floor_of, parsed, room_of

#: the two lists
LISTS = {"fgrad.graph.port": core, "fgrad.mutable.ports": mutable}
PORTS = [
    pytest.param(place, name, port, id=name)
    for place, module in LISTS.items()
    for name, port in vars(module).items()
    if isinstance(port, Port)
]


def tree_of(module: str) -> ast.Module:
    return parsed(ROOT / (module.replace(".", "/") + ".py"))


def asked(path: Path) -> set[str]:
    """The ports that a file calls, by the names that the lists give them."""
    if not any(f"from {place} import" in path.read_text() for place in LISTS):
        return set()
    tree = parsed(path)
    own = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in LISTS:
            own |= {alias.asname or alias.name: alias.name for alias in node.names}
    return {
        own[node.value.id]
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "call" and isinstance(node.value, ast.Name)
        if node.value.id in own
    }


ASKED = {".".join(path.relative_to(ROOT).with_suffix("").parts): asked(path) for path in SOURCES}


@pytest.mark.parametrize(("place", "name", "port"), PORTS)
def test_a_port_is_asked_by_the_lower_floors_that_it_lists(place, name, port):
    # who stands above may ask too, as everybody may call downwards
    askers = {module for module, names in ASKED.items() if name in names and not module.startswith("fgrad.torch.")}
    assert askers == set(port.asked_by)


@pytest.mark.parametrize(("place", "name", "port"), PORTS)
def test_a_port_is_filled_by_a_function_of_its_type(place, name, port):
    function = getattr(importlib.import_module(port.filled_by), port.name)
    assert inspect.isfunction(function) and function.__module__ == port.filled_by and function.__doc__
    declared = next(
        ast.parse(node.annotation.value, mode="eval").body
        for node in tree_of(place).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name
        if isinstance(node.annotation, ast.Constant) and isinstance(node.annotation.value, str)
    )
    assert isinstance(declared, ast.Subscript) and isinstance(declared.slice, ast.Subscript)  # Port[Callable[...]]
    arguments, result = declared.slice.slice.elts
    defined = next(
        node for node in tree_of(port.filled_by).body if isinstance(node, ast.FunctionDef) and node.name == port.name
    )
    assert ast.unparse(defined.returns) == ast.unparse(result)
    if isinstance(arguments, ast.List):
        assert [ast.unparse(x.annotation) for x in defined.args.args] == [ast.unparse(x) for x in arguments.elts]
        assert not (defined.args.vararg or defined.args.kwonlyargs or defined.args.kwarg)


@pytest.mark.parametrize(("place", "name", "port"), PORTS)
def test_no_port_leads_downwards(place, name, port):
    floors = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms}
    for asker in port.asked_by:
        below, above = room_of(asker), room_of(port.filled_by)
        if below is None or above is None:
            assert floor_of(port.filled_by) > floor_of(asker)
        else:
            assert floors[above] >= floors[below]


def test_nobody_sets_a_function_of_another_module():
    """What a lower floor calls is found through a port; nobody fills an attribute of a module from elsewhere."""
    found = []
    for path in SOURCES:
        tree = parsed(path)
        modules = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
            if getattr(node, "module", alias.name).startswith("fgrad") and alias.name.islower()
        }
        for node in tree.body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                root = target
                while isinstance(root, ast.Attribute):
                    root = root.value
                if root is not target and isinstance(root, ast.Name) and root.id in modules:
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(target)}")
    assert not found


def test_what_fills_a_port_is_imported_when_it_is_asked():
    code = """
import sys, warnings
import fgrad.torch as torch
assert "fgrad.mutable.explain.backward_errors" not in sys.modules
x = torch.ones(2, requires_grad=True)
y = x * 2
y.register_hook(lambda grad: 1 / 0)
try:
    y.sum().backward()
except ZeroDivisionError as error:
    assert "This was in the backward of mul" in error.__notes__[0]
assert "fgrad.mutable.explain.backward_errors" in sys.modules
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr


def test_a_port_has_no_other_attributes():
    with pytest.raises(AttributeError, match="a port has no attribute 'other'"):
        _ = Port("json", "dumps", asked_by=()).other
