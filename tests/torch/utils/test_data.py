"""``torch.utils.data`` against PyTorch: the order of samples bit for bit, batches, errors, and workers."""

import collections
import functools
import importlib
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ours
from tests.torch.both import Case, agree

torch = pytest.importorskip("torch")
pytest.importorskip("torch.utils.data")

Point = collections.namedtuple("Point", "x y")
A = np.arange(12, dtype="float32").reshape(6, 2)


def of(t: Any) -> Any:
    return t.utils.data


def seeded(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A run from one seed, and the number that is drawn after it."""

    def seeded_run(t: Any) -> Any:
        t.manual_seed(11)
        return run(t), float(t.rand(()))

    return seeded_run


def letters(t: Any) -> Any:
    class Letters(of(t).IterableDataset):
        def __init__(self, text: str):
            self.text = text

        def __iter__(self):
            return iter(self.text)

        def __len__(self):
            return len(self.text)

    return Letters


def sampled(name: str, *args: Any, **options: Any) -> Case:
    label = f"{name} {args} {options}"
    return Case(label, seeded(lambda t: [list(s := getattr(of(t), name)(*args, **options)), len(s)]))


def generator(t: Any, seed: int = 5) -> Any:
    return t.Generator().manual_seed(seed)


def distributed(t: Any, count: int, options: dict[str, Any]) -> Any:
    samplers = [of(t).DistributedSampler(range(count), 3, rank, **options) for rank in range(3)]
    first = [list(sampler) for sampler in samplers]
    for sampler in samplers:
        sampler.set_epoch(2)
    return first, [list(sampler) for sampler in samplers], [len(sampler) for sampler in samplers]


def first_of_many(t: Any, options: dict[str, Any]) -> Any:
    sampler = of(t).RandomSampler(range(5), num_samples=10**15, generator=generator(t), **options)
    batches = of(t).BatchSampler(sampler, 7, True)
    loader = of(t).DataLoader(range(5), batch_sampler=batches)
    islice = itertools.islice
    return list(islice(sampler, 70)), list(islice(batches, 3)), list(islice(loader, 3)), len(sampler), len(batches)


SAMPLERS = [
    sampled("SequentialSampler", "abc"),
    sampled("RandomSampler", range(20)),
    sampled("RandomSampler", range(5), num_samples=13),
    sampled("RandomSampler", range(5), replacement=True, num_samples=70),
    sampled("RandomSampler", range(5), replacement=1),
    sampled("RandomSampler", range(0)),
    sampled("RandomSampler", range(5), num_samples=-1),
    sampled("SubsetRandomSampler", [10, 20, 30, 40]),
    sampled("WeightedRandomSampler", [0.1, 0.9, 0.4, 3.0], 6),
    sampled("WeightedRandomSampler", [0.1, 0.9, 0.4, 3.0], 3, replacement=False),
    sampled("WeightedRandomSampler", [[0.1]], 3),
    sampled("WeightedRandomSampler", [0.1], 0),
    sampled("WeightedRandomSampler", [0.1], True),
    sampled("WeightedRandomSampler", [0.1], 1, 1),
    sampled("BatchSampler", range(7), 3, False),
    sampled("BatchSampler", range(7), 3, True),
    sampled("BatchSampler", range(7), 0, True),
    sampled("BatchSampler", range(7), 2, 1),
    Case("of a generator", lambda t: list(of(t).RandomSampler(range(20), generator=generator(t)))),
    Case("replacing, of a generator", lambda t: list(
        of(t).RandomSampler(range(9), replacement=True, num_samples=40, generator=generator(t)))),
    Case("subset, of a generator", lambda t: list(of(t).SubsetRandomSampler(range(9), generator=generator(t)))),
    Case("weighted, of a generator", lambda t: list(
        of(t).WeightedRandomSampler([1, 2, 3], 9, generator=generator(t)))),
    *[Case(f"distributed {count} {options}", functools.partial(distributed, count=count, options=options))
      for count in (1, 2, 7, 8) for options in ({}, {"shuffle": False}, {"drop_last": True}, {"seed": 3})],
    Case("distributed, of none", lambda t: of(t).DistributedSampler(range(5), 2, 2)),
    Case("base", lambda t: iter(of(t).Sampler())),
    *[Case(f"the first of very many, {options}", functools.partial(first_of_many, options=options))
      for options in ({}, {"replacement": True})],
]  # fmt: skip


@pytest.mark.parametrize("case", SAMPLERS, ids=str)
def test_samplers(case: Case):
    agree(case, torch)


def split(t: Any, lengths: Any, **options: Any) -> Any:
    return [(list(part.indices), list(part)) for part in of(t).random_split("abcdefghij", lengths, **options)]


DATASETS = [
    Case("tensors", lambda t: (lambda d: (d[1], d[1:3], len(d)))(of(t).TensorDataset(t.tensor(A), t.arange(6)))),
    Case("tensors of other lengths", lambda t: of(t).TensorDataset(t.tensor(A), t.arange(5))),
    Case("concatenated", lambda t: (lambda d: ([d[i] for i in (0, 1, 2, 4, -1, -5)], len(d), d.cumulative_sizes))(
        of(t).ConcatDataset(["ab", "cde"]))),
    Case("concatenated too far", lambda t: of(t).ConcatDataset(["ab", "cde"])[5]),
    Case("concatenated too far back", lambda t: of(t).ConcatDataset(["ab", "cde"])[-6]),
    Case("concatenated none", lambda t: of(t).ConcatDataset([])),
    Case("concatenated iterable", lambda t: of(t).ConcatDataset([letters(t)("ab")])),
    Case("added", lambda t: list(of(t).TensorDataset(t.arange(2)) + of(t).TensorDataset(t.arange(1)))),
    Case("chained", lambda t: (lambda d: (list(d), len(d)))(letters(t)("ab") + letters(t)("c"))),
    Case("chained by index", lambda t: list(of(t).ChainDataset(["ab"]))),
    Case("chained by index, length", lambda t: len(of(t).ChainDataset(["ab"]))),
    Case("stacked", lambda t: (lambda d: (d[1], d.__getitems__([0, 2]), len(d)))(of(t).StackDataset("abc", [1, 2, 3]))),
    Case("stacked by name", lambda t: (lambda d: (d[1], d.__getitems__([0])))(of(t).StackDataset(x="ab", y=[1, 2]))),
    Case("stacked both", lambda t: of(t).StackDataset("abc", y=[1, 2, 3])),
    Case("stacked none", lambda t: of(t).StackDataset()),
    Case("stacked of other lengths", lambda t: of(t).StackDataset("abc", "a")),
    Case("subset", lambda t: (lambda d: (d[0], d.__getitems__([1, 0]), len(d)))(of(t).Subset("abc", [2, 0]))),
    Case("subset of subset", lambda t: of(t).Subset(of(t).Subset("abcd", [3, 2, 1]), [0, 2]).__getitems__([1, 0])),
    Case("subset by list", lambda t: of(t).Subset(t.arange(9), [5, 6, 7])[[0, 2]]),
    Case("base", lambda t: of(t).Dataset()[0]),
    Case("base has no length", lambda t: len(of(t).Dataset())),
    Case("split", seeded(lambda t: split(t, [7, 3]))),
    Case("split by fractions", seeded(lambda t: split(t, [0.5, 0.25, 0.25]))),
    Case("split of a generator", lambda t: split(t, [7, 3], generator=generator(t))),
    Case("split into too few", lambda t: split(t, [7, 2])),
    Case("split by a negative fraction", lambda t: split(t, [1.5, -0.5])),
    Case("split into nothing", seeded(lambda t: split(t, [0.99, 0.01]))),
]  # fmt: skip


@pytest.mark.parametrize("case", DATASETS, ids=str)
def test_datasets(case: Case):
    agree(case, torch)


def test_subset_whose_items_would_be_missed():
    for t in (ours, torch):

        class Mine(t.utils.data.Subset):
            def __getitem__(self, idx):
                return 0

        with pytest.raises(NotImplementedError, match="Mine overrides __getitem__ but not __getitems__"):
            Mine("abc", [0])


def test_classes_take_types():
    """They may be written with the type of their samples."""
    for t in (ours, torch):
        assert t.utils.data.Dataset[int] is not None
        assert t.utils.data.DataLoader[int] is not None
        assert t.utils.data.Sampler[int] is not None


COLLATED: list[tuple[str, Callable[[Any], Any]]] = [
    ("tensors", lambda t: [t.ones(2), t.zeros(2)]),
    ("numbers", lambda t: [1, 2]),
    ("floats", lambda t: [1.5, 2]),
    ("booleans", lambda t: [True, False]),
    ("strings", lambda t: ["a", "b"]),
    ("bytes", lambda t: [b"a", b"b"]),
    ("arrays", lambda t: [A, A]),
    ("NumPy's numbers", lambda t: [np.float32(1), np.float32(2)]),
    ("NumPy's booleans", lambda t: [np.bool_(True), np.bool_(False)]),
    ("NumPy's doubles", lambda t: [np.float64(1), np.float64(2)]),
    ("tuples", lambda t: [(1, "a"), (2, "b")]),
    ("lists", lambda t: [[1, 2], [3, 4]]),
    ("dictionaries", lambda t: [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}]),
    ("ordered dictionaries", lambda t: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)]),
    ("named tuples", lambda t: [Point(1, 2.0), Point(3, 4.0)]),
    ("ranges", lambda t: [range(2), range(2)]),
    ("lengths", lambda t: [[1], [1, 2]]),
    ("shapes", lambda t: [t.ones(2), t.ones(3)]),
    ("objects", lambda t: [object, object]),
    ("words in arrays", lambda t: [np.array(["a"]), np.array(["b"])]),
    ("none", lambda t: [None]),
]


@pytest.mark.parametrize(("name", "batch"), COLLATED)
def test_default_collate(name: str, batch: Callable[[Any], Any]):
    agree(Case(name, lambda t: of(t).default_collate(batch(t))), torch)


def test_functions_for_types_of_samples():
    """Libraries enter types of their own in the map, or give one."""

    def collate(t):
        functions = importlib.import_module(f"{t.__name__}.utils.data._utils.collate")

        class Reading(float):
            pass

        def joined(batch, *, collate_fn_map=None):
            return sum(batch)

        found = functions.collate([{"a": Reading(1.5)}, {"a": Reading(2.0)}], collate_fn_map={Reading: joined})
        functions.default_collate_fn_map[Reading] = joined
        try:
            by_default = functions.default_collate([(Reading(1.0), 1.0), (Reading(4.0), 2.0)])
        finally:
            del functions.default_collate_fn_map[Reading]
        return found["a"], by_default, functions.default_collate([Reading(1.0)])

    agree(Case("functions for types", collate), torch)


@pytest.mark.parametrize(("name", "batch"), [each for each in COLLATED if each[0] != "words in arrays"])
def test_default_convert(name: str, batch: Callable[[Any], Any]):
    agree(Case(name, lambda t: of(t).default_convert(batch(t))), torch)


def loaded(t: Any, passes: int = 2, dataset: Any = None, **options: Any) -> Any:
    options = {key: value(t) if callable(value) else value for key, value in options.items()}
    data = tensors(t) if dataset is None else dataset(t)
    loader = of(t).DataLoader(data, **options)
    return [list(loader) for _ in range(passes)], len(loader)


def tensors(t: Any) -> Any:
    return of(t).TensorDataset(t.tensor(A), t.arange(6))


def own_tensors(t: Any) -> Any:
    class Own(of(t).TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index)[0] + 1

    return Own(t.tensor(A))


def load(name: str, **options: Any) -> Case:
    return Case(name, seeded(functools.partial(loaded, **options)))


LOADED = [
    load("plain"),
    load("batches", batch_size=4),
    load("last dropped", batch_size=4, drop_last=True),
    load("shuffled", batch_size=2, shuffle=True),
    load("of a generator", batch_size=2, shuffle=True, generator=generator),
    load("one by one", batch_size=None),
    load("one by one, shuffled", batch_size=None, shuffle=True),
    load("sampler", sampler=lambda t: of(t).SubsetRandomSampler([1, 3, 5])),
    load("list as sampler", sampler=[5, 0], batch_size=2),
    load("batch sampler", batch_sampler=lambda t: of(t).BatchSampler(of(t).RandomSampler(range(6)), 4, False)),
    load("weighted", sampler=lambda t: of(t).WeightedRandomSampler([1.0] * 6, 8), batch_size=3),
    load("own collation", batch_size=3, collate_fn=lambda t: lambda batch: [int(y) for _, y in batch]),
    load("stacked", dataset=lambda t: of(t).StackDataset(x="abcd", y=[1, 2, 3, 4]), batch_size=3),
    load("subset", dataset=lambda t: of(t).Subset(range(9), [3, 4, 5]), batch_size=2, shuffle=True),
    load(
        "subset of subset",
        dataset=lambda t: of(t).Subset(of(t).Subset(tensors(t), [5, 3, 1, 0]), [3, 0, 1]),
        batch_size=2,
    ),
    load("tensors, too far", sampler=[7], batch_size=2),
    load("tensors, from the end", sampler=[-1, 0], batch_size=2),
    load("tensors by tensors", sampler=lambda t: t.tensor([2, 4, 1]), batch_size=2),
    load(
        "tensors that require grad", dataset=lambda t: of(t).TensorDataset(t.tensor(A).requires_grad_()), batch_size=4
    ),
    load("own tensors", dataset=own_tensors, batch_size=4),
    load("list", dataset=lambda t: [1.5, 2.5, 3.5], batch_size=2),
    load("iterable", dataset=lambda t: letters(t)("abcde"), batch_size=2),
    load("iterable, last dropped", dataset=lambda t: letters(t)("abcde"), batch_size=2, drop_last=True),
    load("iterable, one by one", dataset=lambda t: letters(t)("abc"), batch_size=None),
    load("iterable, shuffled", dataset=lambda t: letters(t)("abc"), shuffle=True),
    load("iterable with a sampler", dataset=lambda t: letters(t)("abc"), sampler=[1]),
    load("iterable with a batch sampler", dataset=lambda t: letters(t)("abc"), batch_sampler=[[1]]),
    load("sampler and shuffled", sampler=[1], shuffle=True),
    load("batch sampler and size", batch_sampler=[[1]], batch_size=2),
    load("one by one, last dropped", batch_size=None, drop_last=True),
    load("negative workers", num_workers=-1),
    load("negative timeout", timeout=-1),
    load("timeout", timeout=1),
    load("ahead without workers", prefetch_factor=2),
    load("persistent without workers", persistent_workers=True),
    load("context without workers", multiprocessing_context="fork"),
    load("no size", batch_size=0),
    load("empty", dataset=lambda t: []),
    load("empty, shuffled", dataset=lambda t: [], shuffle=True),
]


@pytest.mark.parametrize("case", LOADED, ids=str)
def test_loader(case: Case):
    agree(case, torch)


def changed(t: Any) -> None:
    of(t).DataLoader("abc").batch_size = 3


def test_what_may_not_be_set_later():
    agree(Case("set", changed), torch)


def test_more_samples_than_told():
    for t in (ours, torch):

        class Short(letters(t)):
            def __len__(self):
                return 1

        loader = t.utils.data.DataLoader(Short("ab"))
        assert len(loader) == 1
        with pytest.warns(UserWarning, match="was reported to be 1.*but 2 samples have been fetched"):
            list(loader)


#: run by PyTorch in a process of its own, whose workers are forks
WORKERS = """
import random
import warnings

import numpy as np


def runs(torch):
    data = torch.utils.data

    class Drawn(data.Dataset):
        def __getitem__(self, index):
            info = data.get_worker_info()
            return index, info.id, info.seed, torch.rand(()), random.random(), np.random.rand(), self.shift

        def __len__(self):
            return 11

        shift = 0

    class Streamed(data.IterableDataset):
        length = 5

        def __iter__(self):
            info = data.get_worker_info()
            for i in range(self.length + info.id):
                yield 10 * info.id + i, torch.rand(())

    def begin(number):
        info = data.get_worker_info()
        info.dataset.shift = 100 * number + int(torch.randint(50, ()))

    def loaded(dataset, **options):
        torch.manual_seed(3)
        loader = data.DataLoader(dataset, num_workers=2, **options)
        found = [[plain(batch) for batch in loader] for _ in range(2)]
        return found, float(torch.rand(()))

    def plain(x):
        return [plain(y) for y in x] if isinstance(x, (list, tuple)) else x.tolist() if hasattr(x, "tolist") else x

    return [
        loaded(Drawn(), batch_size=2),
        loaded(Drawn(), batch_size=3, shuffle=True, worker_init_fn=begin),
        loaded(Drawn(), batch_size=3, shuffle=True, persistent_workers=True),
        loaded(Drawn(), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(1)),
        loaded(Drawn(), batch_size=2, sampler=data.RandomSampler(range(11), replacement=True, num_samples=40)),
        loaded(Drawn(), batch_size=None, prefetch_factor=1),
        loaded(Streamed(), batch_size=2),
        loaded(Streamed(), batch_size=3, drop_last=True, persistent_workers=True),
        loaded(Streamed(), batch_size=None),
    ]
"""


@pytest.mark.slow
def test_workers():
    """Workers that take turns here load and draw what PyTorch's processes do."""
    program = f"{WORKERS}\nimport torch\nwarnings.simplefilter('ignore')\nprint(repr(runs(torch)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        cwd=Path(__file__).parent,
    )
    names: dict[str, Any] = {}
    exec(WORKERS, names)
    assert names["runs"](ours) == eval(done.stdout)


def test_workers_leave_the_caller_alone():
    ours.manual_seed(0)
    before: Any = np.random.get_state()
    loader = ours.utils.data.DataLoader(range(3), num_workers=2)
    assert ours.utils.data.get_worker_info() is None
    assert [int(x) for x in loader] == [0, 1, 2]
    assert ours.utils.data.get_worker_info() is None
    after: Any = np.random.get_state()
    assert (after[1] == before[1]).all()


@pytest.mark.parametrize("kind", ("Map", "Iterable"))
@pytest.mark.parametrize("workers", (0, 2))
def test_loaders_of_others(kind, workers):
    """The iterators take whatever has the attributes that PyTorch's read, as fastai's and ignite's loaders have."""

    class Loader:
        _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
        generator, prefetch_factor, pin_memory, timeout, persistent_workers = None, 2, False, 0, False
        pin_memory_device, worker_init_fn, multiprocessing_context, num_workers = "", None, None, workers
        _get_shared_seed = collate_fn = staticmethod(lambda x=None: x)

        def __init__(self, t):
            modules = importlib.import_module(f"{t.__name__}.utils.data.dataloader")
            self.dataset = list("abcde")
            self._dataset_kind = getattr(modules._DatasetKind, kind)
            self._index_sampler = range(3)
            self.iterator = modules._MultiProcessingDataLoaderIter if workers else modules._SingleProcessDataLoaderIter

    assert list((loader := Loader(ours)).iterator(loader)) == (
        ["a", "b", "c"] if kind == "Map" or not workers else list("aab")
    )
    if not workers:  # PyTorch's workers are processes
        assert list((loader := Loader(torch)).iterator(loader)) == ["a", "b", "c"]
