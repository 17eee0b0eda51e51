"""Graphs in files: a zip of one JSON document and the constants as ``.npy`` arrays; no pickle, no eval.

NOTE [The file format]
``graph.json`` holds tables that refer to each other by position: ``graphs`` (input types, constants, nodes as
``[operation, inputs, source]``, outputs), ``ops`` (name, parameters, types), ``rules`` of custom calls, ``sources``.
``arrays/<sha256>.npy`` are the arrays, named by what is in them.  Graphs contain graphs through parameters, never
in a circle; rules may, since the rule of a function may call that function.  Equal graphs give equal files, byte for
byte (but for the source lines), whatever the machine.

NOTE [Rules in files]
A rule is recorded when it is first asked for; saving asks for all.  Rules are told apart by key, but a function that
JAX wraps anew on every call gets a new key on every level of itself.  So a rule found inside itself ``LEVELS``
times over, with the same listing on each level, is taken to be the same on all further ones.  Others never end (each
derivative of ``sinc`` has a rule of its own), or close over a tracer (that of the first derivative of ``exp1`` does;
JAX has no second one either).  So a rule that closes over a tracer, or stands inside of ``ORDERS`` others, is absent
from the file: the reason stands in its place, and an error has it where such a derivative is asked for.
What is loaded gets a key made from its content; a rule that this process has saved comes back as the same object, so
that a graph equals what is loaded from its file if no rule of it is absent there.
"""

import contextlib
import json
import os
import zipfile
from typing import IO, Any

import jax
import numpy as np

from fgrad import errors
from fgrad.graph.check import Misfit, check
from fgrad.graph.encoding import NoCode
from fgrad.graph.graph import Graph
from fgrad.graph.reading import FORMAT, MEMBER, VERSION, NeedsX64, Reader, member, remember
from fgrad.graph.writing import Writer, digest
from fgrad.jaxcore import eval_context, with_x64

EPOCH = (1980, 1, 1, 0, 0, 0)

File = str | os.PathLike[str] | IO[bytes]


def dump(graph: Graph, file: File, extra: Any = None) -> None:
    """Write a graph to a path or binary file.  ``extra`` is JSON that ``read`` gives back.

    Raises:
      GraphFileError: something in the graph has no place in a file (a Python callback, a traced value, a sharding);
        the message names it and the user's line.
    """
    if not isinstance(file, str | os.PathLike) and not hasattr(file, "write"):
        raise TypeError(
            f"A graph is saved to a path or to a binary file, got {errors.shown(file)} of type {type(file).__name__}."
        )
    document, arrays = encoded(graph)
    document["extra"] = extra
    if isinstance(file, str | os.PathLike):
        part = f"{os.fspath(file)}.part"  # so that no reader ever meets half a file
        with open(part, "wb") as stream:
            _write(stream, document, arrays)
        os.replace(part, file)
    else:
        _write(file, document, arrays)


def load(file: File) -> Graph:
    """The graph in a file that ``dump`` wrote, checked.

    Raises:
      GraphFileError: the file is damaged, of another version, or not what it claims; the message says where.
      OSError: it cannot be opened.

    >>> import io, jax
    >>> from fgrad.graph.importing import from_jaxpr
    >>> graph = from_jaxpr(jax.make_jaxpr(lambda x: x * 2.0)(1.0))
    >>> file = io.BytesIO()
    >>> dump(graph, file)
    >>> load(file) == graph
    True
    """
    return read(file)[0]


def read(file: File) -> tuple[Graph, Any]:
    """The graph in a file, and the ``extra`` that was written with it."""
    if not isinstance(file, str | os.PathLike) and not hasattr(file, "read"):
        raise TypeError(
            "A graph is loaded from a path or from a binary file, "
            f"got {errors.shown(file)} of type {type(file).__name__}."
        )
    name = os.fspath(file) if isinstance(file, str | os.PathLike) else f"<{type(file).__name__}>"
    with open(file, "rb") if isinstance(file, str | os.PathLike) else contextlib.nullcontext(file) as stream:
        try:
            with eval_context():
                return _read(stream)
        except Exception as error:  # a damaged file may trip anything: zip, JSON, or a primitive's type rule
            raise errors.bad_graph_file(str(name), str(error) or type(error).__name__) from error


def _read(stream: IO[bytes]) -> tuple[Graph, Any]:
    try:
        return Reader(stream).read()
    except NeedsX64:  # as while such a graph runs
        return with_x64(Reader(stream).read)


def encoded(graph: Graph) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The JSON document of a graph, and its arrays by name.

    Raises:
      GraphFileError: something in it cannot be written.
    """
    try:
        check(graph)
        writer = Writer()
        with eval_context():
            root = writer.graph(graph)
    except (NoCode, Misfit) as error:
        raise errors.unsaveable("the graph", str(error)) from error
    except RecursionError as error:
        raise errors.unsaveable("the graph", "graphs and rules are nested too deep in it") from error
    document = {
        "format": FORMAT, "version": VERSION, "jax": jax.__version__, "root": root, "graphs": writer.graphs,
        "ops": writer.ops, "rules": writer.rules, "sources": writer.sources,
    }  # fmt: skip
    for i, rule in enumerate(writer.originals):
        if "absent" not in writer.rules[i]:
            remember(digest(document, i), rule)
    return document, writer.arrays


def _write(stream: IO[bytes], document: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo(MEMBER, EPOCH), text, zipfile.ZIP_DEFLATED)
        for name in sorted(arrays):
            # stored as it is: then a file cannot unfold to more than its own length
            with archive.open(zipfile.ZipInfo(member(name), EPOCH), "w", force_zip64=True) as out:
                np.lib.format.write_array(out, arrays[name], version=(1, 0), allow_pickle=False)
