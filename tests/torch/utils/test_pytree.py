from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import fgrad.torch as torch
from fgrad.torch.utils import _pytree as pytree

Pair = namedtuple("Pair", "first second")
TREE = {"b": 1, "a": [2, (3, None)], "c": OrderedDict(z=Pair(4, 5)), "d": deque([6], maxlen=2)}


def test_leaves_and_back():
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, None, 4, 5, 6] and pytree.tree_unflatten(leaves, spec) == TREE
    assert pytree.tree_unflatten(spec, leaves) == TREE
    assert (spec.type, spec.context, spec.num_leaves, spec.num_children) == (dict, ["b", "a", "c", "d"], 7, 4)
    assert spec.child(0) == pytree.LeafSpec() and spec.child(0).is_leaf() and len(spec.children()) == 4
    assert str(spec.child(1)) == "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*,\n    *])])"
    assert spec == pytree.tree_structure(TREE) and hash(spec) == hash(pytree.tree_structure(TREE))
    assert pytree.tree_leaves(TREE, is_leaf=lambda x: isinstance(x, tuple)) == [1, 2, (3, None), (4, 5), 6]
    assert pytree.tree_structure(defaultdict(list, a=1)).context == [list, ["a"]]
    assert list(pytree.tree_iter([1, [2]])) == pytree.arg_tree_leaves(1, key=[2])


def test_how_containers_are_flattened_has_names():
    """Libraries register containers of their own with them."""

    class Links(list):
        pass

    pytree.register_pytree_node(Links, pytree._list_flatten, pytree._list_unflatten)
    assert pytree.tree_map(str, Links([1, 2])) == ["1", "2"]
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_leaves_with_path(Links([1]))
    for name, tree in (
        ("tuple", (1, 2)),
        ("list", [1, 2]),
        ("dict", {"a": 1, "b": 2}),
        ("ordereddict", OrderedDict(a=1, b=2)),
        ("defaultdict", defaultdict(list, a=1, b=2)),
        ("deque", deque([1, 2], 3)),
        ("namedtuple", Pair(1, 2)),
    ):
        flat = getattr(pytree, f"_{name}_flatten")(tree)
        assert flat[0] == [1, 2] and getattr(pytree, f"_{name}_unflatten")(*flat) == tree
        assert [child for _, child in getattr(pytree, f"_{name}_flatten_with_keys")(tree)[0]] == [1, 2]


def test_paths():
    theirs = pytest.importorskip("torch.utils._pytree")
    for is_leaf in (None, lambda x: isinstance(x, tuple)):
        (mine, structure), (its, _) = (each.tree_flatten_with_path(TREE, is_leaf) for each in (pytree, theirs))
        assert [(pytree.keystr(path), x) for path, x in mine] == [(theirs.keystr(path), x) for path, x in its]
        assert all(pytree.key_get(TREE, path) == x for path, x in mine)
        assert pytree.tree_unflatten([x for _, x in mine], structure) == TREE
    found = pytree.tree_map_with_path(lambda path, x, y: (pytree.keystr(path), x, y), [1, {"a": 2}], [3, {"a": 4}])
    assert found == [("[0]", 1, 3), {"a": ("[1]['a']", 2, 4)}]


def test_a_size_is_a_container():
    """It comes back as a tuple, as in PyTorch: pyro's handlers go through it by ``tree_map`` until they meet a leaf."""
    size = torch.Size([2, 3])
    leaves, spec = pytree.tree_flatten([size])
    assert leaves == [2, 3] and spec.child(0).type is torch.Size
    for made in (pytree.tree_map(lambda n: n + 1, size), pytree.tree_unflatten([3, 4], spec)[0]):
        assert made == (3, 4) and type(made) is tuple
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(size)] == ["[0]", "[1]"]
    with pytest.raises(ValueError, match="expected <class 'fgrad.torch.Size'>, but got <class 'tuple'>"):
        pytree.tree_map(lambda x, y: x, size, (2, 3))
    assert torch.vmap(lambda x, sizes: x.view(sizes), (0, (None, None)))(torch.arange(12.0).view(2, 6), size).shape == (
        2,
        2,
        3,
    )
    x = torch.arange(6.0)
    assert type(torch.compile(lambda x, size: (x.view(size), size))(x, size)[1]) is torch.Size


def test_functions_of_leaves():
    assert pytree.tree_map(lambda x, y: (x, y), [1, {"a": 2, "b": 3}], [4, {"b": 5, "a": 6}]) == [
        (1, 4),
        {"a": (2, 6), "b": (3, 5)},
    ]
    assert pytree.tree_map_only(int, lambda x: x + 1, [1, 2.0, "x"]) == [2, 2.0, "x"]
    assert pytree.tree_map_only(lambda x: x == 2, lambda x: x + 1, [1, 2.0]) == [1, 3.0]
    assert pytree.tree_any(bool, [0, [1]]) and not pytree.tree_all(bool, [0, [1]])
    assert pytree.tree_all_only(int, bool, [1, 0.0]) and not pytree.tree_any_only(int, bool, [0, 1.0])
    assert pytree._broadcast_to_and_flatten([0, 1], pytree.tree_structure([5, [6, 7]])) == [0, 1, 1]
    seen = []
    assert pytree.tree_map_(seen.append, tree := [1, [2]]) is tree and seen == [1, 2]


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        ([1, [2]], [3, [4, 5]], "Node arity mismatch; expected 1, but got 2."),
        ([1, [2]], [3, (4,)], "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ({"a": 1}, {"b": 1}, "missing key\\(s\\): {'a'}; extra key\\(s\\): {'b'}"),
    ],
)
def test_trees_that_do_not_fit(one, other, text):
    with pytest.raises(ValueError, match=text):
        pytree.tree_map(lambda x, y: x, one, other)


def test_refusals():
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        pytree.tree_unflatten([1], 2)
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable"):
        pytree.tree_map_only(3, str, [1])


def test_classes_of_containers_can_be_registered():
    class Box:
        def __init__(self, inside, label):
            self.inside, self.label = inside, label

    pytree.register_pytree_node(Box, lambda box: ([box.inside], box.label), lambda inside, label: Box(inside[0], label))
    try:
        box = torch.vmap(lambda box: Box(2 * box.inside, box.label))(Box(torch.arange(2.0), "x"))
        assert box.inside.tolist() == [0.0, 2.0] and box.label == "x"
        with pytest.raises(ValueError, match="is already registered as pytree node"):
            pytree.register_pytree_node(Box, None, None)
        with pytest.raises(ValueError, match="Node context mismatch for custom node type"):
            pytree.tree_map(lambda x, y: x, Box(1, "x"), Box(1, "y"))
    finally:
        del pytree.SUPPORTED_NODES[Box]
