"""Calls that ask for numbers run in pieces: Python's statements run at each call, what is between them as programs."""

import copy
import gc

import numpy as np
import pytest

import fgrad
import fgrad.torch as torch
from fgrad.mutable.capture.pieces import LiveTape, Piece
from fgrad.mutable.values.evaluation import is_abstract
from tests.torch.compiler.programs import classifier, close, same


def programs(compiled):
    return [each for held in compiled._compiled.programs.values() for each in held]


def training(read):
    """A step of a classifier that calls ``read(loss)`` between backward and the update, and what it is made of."""
    program = classifier(lambda params: torch.optim.Adam(params, lr=0.1))
    inner = program.optimizer.step

    def step(x, y):
        program.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(program.model(x), y)
        loss.backward()
        seen = read(loss)
        inner()
        return seen, program.model[0].weight[0].detach()

    return program, step


READS = {
    "item": lambda loss: str(loss.item() > 1),
    "if": lambda loss: "large" if loss > 1 else "small",
    "print": lambda loss: f"{loss:.3f}",
    "repr": lambda loss: repr((loss > 0).int()),
    "numpy": lambda loss: loss.detach().numpy().shape,
    "tolist": lambda loss: loss.isnan().tolist(),
    "float": lambda loss: round(float(loss.detach()), 3),
}


@pytest.mark.parametrize("name", READS)
def test_a_step_that_reads_a_number_leaves_what_it_leaves_uncompiled(name):
    plain, step = training(READS[name])
    other, uncompiled = training(READS[name])
    compiled = torch.compile(step)
    for k in range(3):
        stream = torch.get_rng_state()
        wanted, row = uncompiled(*other.batches[k])
        expected = other.state()
        torch.set_rng_state(stream)
        found, view = compiled(*plain.batches[k])
        same(plain.state(), expected)
        assert found == wanted or found == pytest.approx(wanted, abs=2e-3)
        assert view.stride() == row.stride() and view._base is None and view.storage_offset() == row.storage_offset()
        close(view.numpy(), row.numpy(), exact=False)
    assert all(len(each.pieces) == 2 and len(each.breaks) == 1 for each in programs(compiled))


def test_effects_of_python_come_once_at_each_call(capsys):
    class Log:
        pass

    log, losses = Log(), []
    log.calls = 0
    w = torch.ones(2, requires_grad=True)

    def step(x):
        log.calls += 1
        print("begin", log.calls)
        loss = (w * x).sum()
        losses.append(loss.item())
        print("loss", loss)
        w.sub_(x) if log.calls > 2 else None
        return loss

    compiled = torch.compile(step)
    with torch.no_grad():
        for _ in range(4):
            compiled(torch.ones(2))
    assert losses == [2, 2, 2, 0] and log.calls == 4 and w.tolist() == [-1, -1] and w._version == 2
    shown = [f"begin {k + 1}\nloss {torch.tensor(x)!r}\n" for k, x in enumerate(losses)]
    assert capsys.readouterr().out == "".join(shown)
    assert compiled._compiled.recorded == 1


total = 0


def test_what_changes_in_python_is_changed_at_each_call():
    count, found, seen = 0, [], {"last": None}

    def step(x):
        global total
        nonlocal count
        total += 1
        count += 2
        found.append((x * count).detach())
        seen["last"] = count
        return x * count

    compiled = torch.compile(step)
    for k in range(4):
        assert compiled(torch.ones(1)).item() == 2 * k + 2
    assert (total, count, seen["last"]) == (4, 8, 8) and [x.item() for x in found] == [2, 4, 6, 8]
    assert compiled._compiled.recorded == 1


def test_a_gradient_passes_from_one_piece_into_another():
    w = torch.tensor([2.0], requires_grad=True)

    def f(x):
        y = w * x
        scale = 3.0 if y.item() > 1 else 1.0
        return (y * y * scale).sum()

    compiled = torch.compile(f)
    for _ in range(3):
        w.grad = None
        x = torch.tensor([1.0], requires_grad=True)
        compiled(x * 1).backward()
        assert w.grad.item() == 12 and x.grad.item() == 24


def test_draws_around_a_break_continue_the_stream_to_the_bit():
    def draw():
        probability = torch.rand(3)
        ones = torch.bernoulli(probability)
        more = torch.randn(2) if ones.sum() > -1 else None
        return probability, ones, more, torch.bernoulli(probability)

    compiled = torch.compile(draw)
    torch.manual_seed(3)
    wanted = [draw() for _ in range(3)]
    torch.manual_seed(3)
    for each in wanted:
        for a, b in zip(compiled(), each, strict=True):
            assert np.array_equal(a.numpy(), b.numpy())


def test_data_dependent_shapes_and_memory_for_numpy():
    def f(x):
        y = x * 2
        kept = y[y > 2]
        shared = kept.numpy()
        kept += 1
        return kept, shared

    compiled = torch.compile(f)
    for data in ([1.0, 2.0, 3.0], [3.0, 0.0, 0.0], [1.0, 5.0, 6.0]):
        kept, shared = compiled(torch.tensor(data))
        wanted, _ = f(torch.tensor(data))
        assert kept.tolist() == wanted.tolist() == shared.tolist()
        assert kept.data_ptr() == shared.ctypes.data


def test_an_error_after_a_break_leaves_what_it_leaves_uncompiled():
    def f(x, log):
        x.add_(1)
        log.append(x.sum().item())
        x.mul_(3)
        raise ValueError("no")

    compiled = torch.compile(f)
    for _ in range(3):
        x, log = torch.ones(2), []
        with pytest.raises(ValueError, match="no"):
            compiled(x, log)
        assert x.tolist() == [6, 6] and x._version == 2 and log == [4]


def test_an_interrupt_while_a_piece_runs_leaves_nothing_half_written(monkeypatch):
    w = torch.ones(2)

    def f():
        w.add_(1)
        float(w.sum())
        w.mul_(2)

    compiled = torch.compile(f)
    compiled()
    run, calls = Piece.run, []

    def interrupted(piece, values):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(piece, values)

    monkeypatch.setattr(Piece, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiled()
    assert w.tolist() == [10, 10] and w._version == 4


def test_a_deep_copy_holds_an_array_afterwards():
    w, kept = torch.ones(2), {}

    def function():
        w.add_(1)
        kept["copy"] = copy.deepcopy({"w": w})

    compiled = torch.compile(function)
    later = torch.compile(lambda x: x * 2)
    for i in range(3):
        compiled()
        assert later(kept["copy"]["w"]).tolist() == [2 * i + 4, 2 * i + 4]


def test_hooks_run_in_pieces_too():
    seen = []
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda grad: seen.append(grad.sum().item()))
    compiled = torch.compile(lambda x: (w * x).sum().backward())
    for k in range(3):
        compiled(torch.full((2,), float(k)))
    assert seen == [0, 2, 4] and w.grad.tolist() == [3, 3]


def test_another_learning_rate_is_the_same_program():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def step():
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.item()

    compiled = torch.compile(step)
    assert [compiled() for _ in range(4)] == [2, 2, 0, 0]
    assert optimizer.param_groups[0]["lr"] == 0.0625 and scheduler.last_epoch == 4


def test_explain_lists_the_pieces_and_changes_nothing():
    w = torch.ones(2, requires_grad=True)
    log = []

    def step():
        loss = w.square().sum()
        loss.backward()
        log.append(float(loss.detach()))
        with torch.no_grad():
            w.sub_(torch.rand(2))

    before = torch.get_rng_state()
    found = torch.compiler.explain(step)()
    assert found.graph_count == 2 and found.graph_break_count == 1 and "test_pieces.py" in found.breaks[0]
    assert w.tolist() == [1, 1] and w.grad is None and not log and w._version == 0
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(fgrad.errors.CaptureError, match=r"test_pieces.py:\d+"):
        torch.compile(step, fullgraph=True)()


def written_by_numpy(x):
    y = x + 1
    x.numpy()[0] = 5
    return x + y


def added(x, y):
    more = torch.rand(1) + y  # recorded, and not asked for
    return x * float(torch.rand(1)) + more


#: calls in which the only number that is asked for is one of an input or of a fresh draw
ASKED_OF_INPUTS = {
    "item": (lambda x, n: x * abs(int(n.item())), (torch.ones(2), torch.tensor(3.0))),
    "if": (lambda x, flag: x * 2 if flag else x, (torch.ones(2), torch.tensor(True))),
    "index": (lambda x, i: x[int(i)], (torch.arange(2.0), torch.tensor(1))),
    "repr": (lambda x: (repr(x), x + 1)[1], (torch.ones(2),)),
    "numpy": (written_by_numpy, (torch.ones(2),)),
    "draw": (added, (torch.ones(2), torch.ones(1))),
    "randperm": (lambda x: x[torch.randperm(4).tolist()], (torch.arange(4.0),)),
    "rrelu": (lambda x: torch.nn.functional.rrelu(x, training=True), (-torch.ones(3),)),
    "pooling": (
        lambda x: torch.nn.functional.fractional_max_pool2d(x, 2, output_size=(2, 2)),
        (torch.arange(16.0).reshape(1, 1, 4, 4),),
    ),
}


@pytest.mark.parametrize("name", ASKED_OF_INPUTS)
def test_numbers_of_inputs_and_of_fresh_draws(name):
    function, args = ASKED_OF_INPUTS[name]
    compiled, calls = torch.compile(function), []
    for call in (function, compiled):
        torch.manual_seed(0)
        calls.append([call(*[x.clone() for x in args]).tolist() for _ in range(3)])
    assert calls[0] == calls[1]
    found = torch.compiler.explain(function)(*args)
    assert found.graph_break_count == 1 and "test_pieces.py" in found.breaks[0]


def test_the_call_that_asks_for_an_input_is_made_once():
    w = torch.zeros(1)

    def f(x):
        w.add_(1)
        scale = x.item()
        w.add_(1)
        return scale

    compiled = torch.compile(f)
    assert [(compiled(torch.tensor(2.0)), w.item()) for _ in range(3)] == [(2, 2), (2, 4), (2, 6)]


@pytest.mark.parametrize("late", [False, True])
def test_a_memory_given_to_a_tensor_from_outside_holds_an_array_afterwards(late):
    p, w = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)

    def f(x):
        large = bool(x.sum() > 0) if late else False
        p.data = p.data * 0.5
        w.set_(x + 1)
        return large or bool(x.sum() > 0)

    compiled = torch.compile(f)
    for k in range(3):
        compiled(torch.full((2,), float(k)))
        assert not is_abstract(p._storage.array) and not is_abstract(w._storage.array)
        assert p.tolist() == [0.5 ** (k + 1)] * 2 and w.tolist() == [k + 1, k + 1]


def test_numbers_that_were_drawn_for_tensors_are_drawn_before_the_next():
    def draw(mean):
        normal = torch.normal(mean, torch.ones(3))  # leaves a number for the next draw
        more = torch.randn(3)
        sampled = torch.multinomial(torch.softmax(mean + normal, 0), 2)
        return normal, more, sampled, torch.poisson(mean + 3), bool(normal.sum() > 100), torch.rand(1)

    compiled, calls = torch.compile(draw), []
    for call in (draw, compiled):
        torch.manual_seed(0)
        calls.append([[x if isinstance(x, bool) else x.tolist() for x in call(torch.zeros(3))] for _ in range(3)])
    assert calls[0] == calls[1]


def test_a_bad_parameter_of_a_draw_is_an_error_as_uncompiled_in_pieces():
    def draw(p):
        return bool(p.sum() > 0), torch.bernoulli(p * 1)

    compiled = torch.compile(draw)
    compiled(torch.ones(2))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="p_in >= 0"):
            compiled(torch.tensor([2.0, 0.5]))


def test_memory_that_numpy_looks_at_shows_what_a_piece_writes():
    def f(x, y):
        shared = x.numpy()
        x.add_(y)
        seen = shared.tolist()
        shared[0] = 7
        x.mul_(2)
        return seen, shared.tolist(), (x + y).tolist()

    compiled = torch.compile(f)
    for k in range(3):
        wanted = f(torch.ones(2), torch.full((2,), float(k)))
        assert compiled(torch.ones(2), torch.full((2,), float(k))) == wanted
    x = torch.ones(2)
    shared = x.numpy()
    torch.compiler.explain(f)(x, torch.ones(2))
    assert shared.tolist() == x.tolist() == [1, 1]


def test_what_ran_in_pieces_keeps_no_values():
    """A step's tape is in a cycle, and would keep all parameters and gradients until the collector comes."""
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        w.square().sum().backward()
        optimizer.step()

    compiled = torch.compile(step)
    gc.collect()
    gc.disable()
    try:
        compiled()
        tapes = [x for x in gc.get_objects() if type(x) is LiveTape]
        assert tapes and not any(tape.known for tape in tapes)
    finally:
        gc.enable()


def test_a_parameter_that_gets_other_memory_after_a_write_runs_in_pieces():
    def train(way):
        w = torch.ones(2, requires_grad=True)
        kept = {}

        def step(x):
            kept["w"] = w.data.clone()
            with torch.no_grad():
                w.add_(x)
            result = (w * x).sum()
            w.data = kept["w"]
            return result.detach()

        step = way(step)
        return [(step(torch.full((2,), float(i))).item(), w.tolist()) for i in range(4)], step

    results, compiled = train(torch.compile)
    assert results == train(lambda f: f)[0]
    for programs in compiled._compiled.programs.values():
        assert all(program.breaks for program in programs)


# -- a 0-dimensional index tensor makes a view -----------------------------------------------------------------------


def write_the_part(table, step):
    part = table[step % 3]
    part.add_(1)
    return part.sum()


def write_the_whole(table, step):
    part = table[step % 3]
    table.add_(1)
    return part.sum()


@pytest.mark.parametrize("function", [write_the_part, write_the_whole, lambda table, step: table[step].detach()])
def test_a_part_by_an_index_tensor_shares_memory(function):
    tables = torch.zeros(3, 2), torch.zeros(3, 2)
    compiled = torch.compile(function)
    for step in range(3):
        results = [run(table, torch.tensor(step)) for run, table in zip((function, compiled), tables, strict=True)]
        assert torch.equal(*results)
        if results[0].dim():
            for part in results:
                part.mul_(2).add_(step)
        assert torch.equal(*tables)


def test_a_part_that_is_only_read_is_in_one_program():
    table = torch.arange(3.0)
    compiled = torch.compile(lambda x, step: x * table[step], fullgraph=True)
    for step in range(3):
        assert compiled(torch.ones(2), torch.tensor(step)).tolist() == [step, step]
    assert compiled._compiled.recorded == 1


def test_a_part_that_is_written_is_no_single_program():
    compiled = torch.compile(write_the_part, fullgraph=True)
    with pytest.raises(fgrad.errors.CaptureError, match="is a view"):
        compiled(torch.zeros(3, 2), torch.tensor(1))
