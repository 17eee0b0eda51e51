"""Graph files with something changed in them, each made from a number; run as a program, a campaign over many of them.

``python -m tests.graph.mutations 20000`` loads so many files in processes of their own, and runs what loads; a second
number says with which file to begin.  A file must be refused with ``GraphFileError``, or hold a graph that passes its
check, is the same when saved and loaded again, and runs.  Any other exception, an abort, a load of over five seconds,
or a gigabyte of memory is reported with its number; ``python -m tests.graph.mutations --only 4711`` repeats that one.
"""

import io
import json
import math
import os
import re
import resource
import selectors
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fgrad
from fgrad.errors import GraphFileError
from fgrad.graph.check import check, expanded
from fgrad.graph.encoding import key_dtypes
from fgrad.graph.graph import Graph, evaluate
from fgrad.graph.saving import dump, load
from fgrad.graph.text import subgraphs
from fgrad.run.cache import clear_all
from fgrad.run.executable import run
from tests.graph.changes import common, document_of, mutated, with_text
from tests.graph.corpus import corpus

SECONDS, BYTES = 5.0, 1 << 30
#: what is run: values of so many bytes, so many operations, loops of so many steps
SMALL, OPERATIONS, STEPS = 1 << 16, 400, 64
#: how long a process may take over one file before it counts as hanging, compiling included
PATIENCE = 100.0


# --------------------------------------------------------------------------------------------------------------------
# what becomes of a file


def repaired(data: bytes) -> tuple[Graph | None, bytes]:
    """What a file holds, its stated results put right where only they are wrong, so that more gets past that check."""
    for _ in range(4):
        try:
            return load(io.BytesIO(data)), data
        except GraphFileError as error:
            said = re.search(r"ops\[(\d+)\]: \S+ is said to give (\[.*\]) and gives (\[.*\])$", str(error))
            if said is None or "'" not in said.group(3):
                return None, data
            document = document_of(data)
            document["ops"][int(said.group(1))]["outputs"] = re.findall(r"'([^']*)'", said.group(3))
            data = with_text(data, json.dumps(document))
    return None, data


def nodes_of(graph: Graph) -> Iterator[Any]:
    for node in graph:
        yield node
        for _, inner in subgraphs(node):
            yield from nodes_of(inner)


def is_small(graph: Graph) -> bool:
    if expanded(graph, OPERATIONS) > OPERATIONS:
        return False
    types, steps = [*graph.types], 1
    for node in nodes_of(graph):
        types += node.out_types
        if node.op.name == "scan":
            steps *= max(node.params["length"], node.params["unroll"], 1)
        if node.op.name == "integer_pow" and abs(node.params["y"]) > 1000:
            return False
    return steps <= STEPS and all(math.prod(t.shape) * max(t.dtype.itemsize, 1) <= SMALL for t in types)


def filled(type: Any, number: int) -> Any:
    if jax.dtypes.issubdtype(type.dtype, jax.dtypes.prng_key):
        implementation = key_dtypes()[type.dtype.name][1]
        width = jax.random.key_data(jax.random.key(0, impl=implementation)).shape
        return jax.random.wrap_key_data(jax.numpy.full((*type.shape, *width), number, "uint32"), impl=implementation)
    if type.dtype == jax.dtypes.float0:
        return np.zeros(type.shape, type.dtype)
    return jax.numpy.asarray(np.full(type.shape, number, type.dtype))  # jax.numpy.full compiles


def copied(graph: Graph) -> Graph:
    file = io.BytesIO()
    dump(graph, file)
    return load(io.BytesIO(file.getvalue()))


def outcome(data: bytes, original: Graph) -> str:
    """What came of a file; anything but ``GraphFileError`` is raised."""
    began = time.process_time()
    found, data = repaired(data)
    if time.process_time() - began > SECONDS:
        raise TimeoutError(f"loading took {time.process_time() - began:.1f} s")
    if found is None:
        return "refused"
    check(found)
    again = copied(found)  # without what is dead inside the jaxprs among the parameters
    assert copied(again) == again, "it is another graph when it is saved and loaded"
    if found == original:
        return "same"
    if not is_small(found):
        return "loaded"
    names = {node.op.name for node in nodes_of(found)}
    if "while" in names:  # which may go on for ever
        jax.jit(lambda *args: evaluate(found, args)).lower(*found.in_types).compile()
        return "compiled"
    try:
        for number in (0, 1):
            args = [filled(t, number) for t in found.in_types]
            jax.block_until_ready(run(found, args))  # as one that is new
            with fgrad.policy("compiled"):
                jax.block_until_ready(run(found, args))
    except NotImplementedError:  # JAX has it for other dtypes or devices, and says so
        return "unsupported"
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        if not re.search("is not supported by dot_general on|backend does not support|^UNIMPLEMENTED", str(error)):
            raise
        return "unsupported"
    return "ran"


# --------------------------------------------------------------------------------------------------------------------
# processes


def work(every: int) -> None:
    """Take numbers from the input, and say of each what came of it."""
    jax.config.update("jax_enable_x64", True)
    files = list(corpus(every))
    shared, originals = common(files), {name: load(io.BytesIO(data)) for name, data in files}
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a graph may print
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 4 * BYTES, used + 4 * BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", file=answers)
    for done, line in enumerate(sys.stdin):
        name, data = mutated(int(line), files, shared)
        before = resident()
        try:
            answer = outcome(data, originals[name.partition(": ")[0]])
            if resident() - before > BYTES:
                answer = f"FAILED {name}: {(resident() - before) / BYTES:.1f} GiB of memory"
        except BaseException as error:
            text = "".join(traceback.format_exception_only(error)).strip().replace("\n", " ")
            where = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            answer = f"FAILED {name}: {text[:400]} ({' '.join(where[-3:])})"
        print(answer, file=answers)
        if done % 100 == 99:
            clear_all()
            jax.clear_caches()


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Worker:
    """A process that is started anew when it has died, or has been at one file for too long."""

    def __init__(self, every: int):
        self.every = every
        self.number: int | None = None
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.graph.mutations", "--worker", str(self.every)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        flags = {"XLA_FLAGS": os.environ.get("XLA_FLAGS", "--xla_backend_optimization_level=0")}
        self.process = subprocess.Popen(command, text=True, bufsize=1, env={**os.environ, **flags}, **pipes)
        os.set_blocking(self.process.stderr.fileno(), False)  # type: ignore[union-attr]
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()  # type: ignore[union-attr]

    def give(self, number: int) -> None:
        self.number, self.since = number, time.monotonic()
        print(number, file=self.process.stdin, flush=True)

    def stop(self) -> str:
        """End the process; the last that it said."""
        self.process.kill()
        os.set_blocking(self.process.stderr.fileno(), True)  # type: ignore[union-attr]
        with self.process:  # closes its files
            return (self.process.stderr.read() or "")[-600:]  # type: ignore[union-attr]


def campaign(numbers: Iterable[int], every: int = 1, processes: int = 1) -> tuple[dict[str, int], list[str]]:
    """How often each outcome came up, and the failures with their numbers."""
    pending, counts, failures = list(numbers)[::-1], dict[str, int](), list[str]()
    workers = [Worker(every) for _ in range(min(processes, len(pending)))]
    selector = selectors.DefaultSelector()

    def enter(worker: Worker) -> None:
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        worker.give(pending.pop())

    for worker in workers:
        enter(worker)
    while selector.get_map():
        ready = [key.data for key, _ in selector.select(1.0)]
        for worker in [key.data for key in selector.get_map().values()]:
            late = time.monotonic() - worker.since > PATIENCE
            if worker not in ready and not late:
                continue
            answer = worker.process.stdout.readline().strip() if worker in ready else ""
            dead = not answer
            if dead:
                code = worker.process.poll()
                answer = f"FAILED {'it hangs' if late else f'the process ended ({code})'}"
            if answer.startswith("FAILED"):
                failures.append(f"{worker.number}: {answer[7:]}")
                print(failures[-1], file=sys.stderr, flush=True)
            counts[answer.partition(" ")[0]] = counts.get(answer.partition(" ")[0], 0) + 1
            if sum(counts.values()) % 1000 == 0:
                print(counts, file=sys.stderr, flush=True)
            selector.unregister(worker.process.stdout)
            if dead:
                failures[-1] += f" {worker.stop()}"
                worker.start()
            if pending:
                enter(worker)
    for worker in workers:
        worker.stop()
    return counts, failures


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        work(int(sys.argv[2]))
    else:
        if sys.argv[1] == "--only":
            chosen = [int(x) for x in sys.argv[2:]]
        else:
            first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
            chosen = list(range(first, first + int(sys.argv[1])))
        counted, failed = campaign(chosen)
        print(json.dumps(counted), *failed, sep="\n")
        sys.exit(bool(failed))
