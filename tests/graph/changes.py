"""Ways to change a graph file, each change made from a number."""

import copy
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from typing import Any

from fgrad.graph.encoding import DTYPES, key_dtypes
from fgrad.graph.reading import MEMBER

NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    4,
    7,
    8,
    64,
    127,
    1000,
    -2,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    2**63,
    -(2**63),
]
NUMBERS += [2**64, 10**30, -(10**400)]
VALUES: list[Any] = [
    *NUMBERS, None, True, False, 0.0, 0.5, 1.0, -1.5, 1e308, "", "a", "sin", "float32[3]", [], [0], [1], [1, 0], [0, 0],
    [-1], [[0, 0]], [[0, 0, 0]], [[], []], {}, "\ud800", "\0", {"float": "inf"}, {"float": "7ff8000000000000"},
    {"float": "1"}, {"enum": "Precision.HIGHEST"}, {"enum": "GatherScatterMode.CLIP"}, {"enum": "FftType.RFFT"},
    {"enum": "AccuracyMode.HIGHEST"}, {"enum": "DotAlgorithmPreset.BF16_BF16_F32_X9"}, {"enum": "Precision.mro"},
    {"dtype": "float32"}, {"dtype": "float0"}, {"dtype": "int4"}, {"dtype": "key<fry>"}, {"scalar_type": "float32"},
    {"graph": 0}, {"graph": 1}, {"jaxpr": 0, "closed": False}, {"jaxpr": 0, "closed": True}, {"rule": 0},
    {"function": "add"}, {"function": "mul"}, {"primitive": "sin"}, {"primitive": "ge"}, {"tree": {"tuple": ["*"]}},
    {"tree": {"dict": [[[], "*"]]}}, {"key_implementation": "rbg"}, {"scalar": "int64", "bytes": "0100000000000000"},
    {"scalar": "bool", "bytes": "02"}, {"list": [0]}, {"dict": [[0, 1]]}, {"dict": [[{"list": []}, 1]]},
    {"frozenset": [0]}, {"frozenset": [{"list": []}]}, {"complex": [0.0, 1.0]}, {"registered": "print"},
    {"record": "Tolerance", "fields": {"atol": 0.0, "rtol": -1.0, "ulps": 2}},
    {"record": "DotAlgorithm", "fields": {}}, {"array": "0", "dtype": "float32", "shape": [2]},
]  # fmt: skip


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) below ``data``."""
    found, pending = [], [data]
    while pending:
        container = pending.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            found.append((container, key))
            if isinstance(container[key], dict | list):
                pending.append(container[key])
    return found


def a_place(rng: random.Random, document: dict[str, Any]) -> tuple[Any, Any]:
    """Somewhere in a document, more often where there is more to be wrong."""
    table = rng.choices(["ops", "graphs", "rules", "sources", ""], [60, 22, 6, 2, 10])[0]
    start = document.get(table) or document
    if table == "ops" and isinstance(start, list) and rng.random() < 0.8:
        start = [op.get("params") for op in start if isinstance(op, dict)] or start
    found = places(start)
    if not found or start is not document.get(table, document):
        found = [place for place in found if place[0] is not start] or places(document)
    return rng.choice(found)


# --------------------------------------------------------------------------------------------------------------------
# ways to change a document


def replace(rng: random.Random, document: Any, other: Any) -> None:
    container, key = a_place(rng, document)
    container[key] = copy.deepcopy(rng.choice(VALUES))


def nudge(rng: random.Random, document: Any, other: Any) -> None:
    """Another number or truth value in the place of one."""
    for _ in range(20):
        container, key = a_place(rng, document)
        value = container[key]
        if isinstance(value, bool):
            container[key] = rng.choice([not value, int(value), None])
            return
        if isinstance(value, int | float):
            close = [
                value + 1,
                value - 1,
                -value,
                value * 2,
                float(value),
                bool(value),
                str(value),
                [value],
                -value - 1,
            ]
            container[key] = rng.choice([*close, *NUMBERS])
            return


def retype(rng: random.Random, document: Any, other: Any) -> None:
    """Another dtype or extent in one place, or wherever the same type stands."""
    spots = [(c, k) for c, k in places(document) if isinstance(c[k], str) and re.search(r"\[[\d,]*\]$", c[k])]
    spots += [(c, k) for c, k in places(document) if k in ("dtype", "scalar") and isinstance(c[k], str)]
    if not spots:
        return
    container, key = rng.choice(spots)
    old = container[key]
    if rng.random() < 0.7:
        dtype = re.match(r"[\w<>]*", old.lstrip("~")).group()  # type: ignore[union-attr]
        new = dtype_like(rng)
        everywhere = rng.random() < 0.8
        for c, k in spots if everywhere else [(container, key)]:
            c[k] = re.sub(rf"^(~?){re.escape(dtype)}(?![\w<>])", lambda m: m.group(1) + new, c[k])
        return
    extent = rng.choice([0, 1, 2, 3, 4, 5, 100, 2**31, 2**40, 2**61, 2**63])
    shapes = {
        "extent": re.sub(r"\d+", lambda m: str(extent) if rng.random() < 0.6 else m.group(), old.partition("[")[2]),
        "more": f"{extent}," + old.partition("[")[2] if old.partition("[")[2] != "]" else f"{extent}]",
        "many": ",".join(["1"] * rng.choice([33, 65, 300])) + "]",
    }
    new = old.partition("[")[0] + "[" + shapes[rng.choice(list(shapes))]
    for c, k in spots if rng.random() < 0.7 else [(container, key)]:
        if c[k] == old:
            c[k] = new


def dtype_like(rng: random.Random) -> str:
    return rng.choice(
        [*DTYPES, *key_dtypes(), "float0", "object", "str", "float31", "float32", "int32", "bool", "bfloat16"]
    )


def swap(rng: random.Random, document: Any, other: Any) -> None:
    (c, k), (d, j) = a_place(rng, document), a_place(rng, document)
    c[k], d[j] = copy.deepcopy(d[j]), copy.deepcopy(c[k])


def delete(rng: random.Random, document: Any, other: Any) -> None:
    container, key = a_place(rng, document)
    del container[key]


def duplicate(rng: random.Random, document: Any, other: Any) -> None:
    for _ in range(20):
        container, key = a_place(rng, document)
        if isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), copy.deepcopy(container[key]))
            return


def insert(rng: random.Random, document: Any, other: Any) -> None:
    for _ in range(20):
        container, key = a_place(rng, document)
        if isinstance(container, dict):
            name = rng.choice(
                ["weak", "effects", "wrt", "accuracy", "sharding", "axis", "", f"{key}2", "python", "bytes"]
            )
            container[name] = copy.deepcopy(rng.choice(VALUES))
            return


def rename(rng: random.Random, document: Any, other: Any) -> None:
    """Another operation's name, or another key."""
    named = [op for op in document.get("ops") or () if isinstance(op, dict)]
    if named and rng.random() < 0.7:
        rng.choice(named)["name"] = rng.choice(other["names"])
        return
    for _ in range(20):
        container, key = a_place(rng, document)
        if isinstance(container, dict):
            container[f"{key}_"] = container.pop(key)
            return


def splice(rng: random.Random, document: Any, other: Any) -> None:
    """What stands under the same key in another file, or anything of it."""
    container, key = a_place(rng, document)
    found = places(other["document"])
    alike = [c[k] for c, k in found if k == key and isinstance(key, str)]
    container[key] = copy.deepcopy(
        rng.choice(alike) if alike and rng.random() < 0.8 else rng.choice([c[k] for c, k in found])
    )


def transplant(rng: random.Random, document: Any, other: Any) -> None:
    """The parameter of the same name that another operation has, of those in the whole corpus."""
    ops = [op for op in document.get("ops") or () if isinstance(op, dict) and op.get("params")]
    if ops:
        params = rng.choice(ops)["params"]
        if isinstance(params, dict):
            name = rng.choice(list(params))
            params[name] = copy.deepcopy(rng.choice(other["params"].get(name) or VALUES))


CHANGES: dict[Callable[..., None], int] = {
    replace: 20, nudge: 20, retype: 18, swap: 6, delete: 6, duplicate: 6, insert: 5, rename: 6, splice: 6,
    transplant: 12,
}  # fmt: skip


def of_text(rng: random.Random, text: str) -> str:
    """JSON with something in it that a parser might trip over."""
    at = rng.randrange(len(text))
    what = rng.randrange(7)
    if what == 0:
        return text[:at]
    if what == 1:
        return text[:at] + rng.choice("[{" * 4 + '"') * rng.choice([1, 2000, 100_000]) + text[at:]
    if what == 2:
        return re.sub(r'"(\w+)":', r'"\1":0,"\1":', text, count=rng.randrange(1, 9))
    if what == 3:
        return re.sub(r"\b\d+\b", rng.choice(["NaN", "-Infinity", "1e999", "9" * 5000, "1.5", "01"]), text, count=1)
    if what == 4:
        return text[:at] + rng.choice(["\u0000", "\ud800", "é", "\\ud800", "}"]) + text[at:]
    if what == 5:
        return "[" * 3000 + text + "]" * 3000
    return text[:at] + text[at + rng.randrange(1, 9) :]


def common(files: list[tuple[str, bytes]]) -> dict[str, Any]:
    """What stands in all files together: the names of operations, and the values of each parameter by its name."""
    names, params = set(), {}
    for _, data in files:
        for op in document_of(data)["ops"]:
            names.add(op["name"])
            for name, value in op["params"].items():
                params.setdefault(name, {})[json.dumps(value)] = value
    return {"names": sorted(names), "params": {name: list(v.values()) for name, v in params.items()}}


def mutated(number: int, files: list[tuple[str, bytes]], shared: dict[str, Any]) -> tuple[str, bytes]:
    """The file of a number: what it was made from and how, and its bytes."""
    rng = random.Random(number)
    name, data = rng.choice(files)
    if rng.random() < 0.08:
        return f"{name}: bytes", of_bytes(rng, data)
    document = json.loads(zipfile.ZipFile(io.BytesIO(data)).read(MEMBER))
    other = {**shared, "document": document_of(rng.choice(files)[1])}
    how = rng.choices(list(CHANGES), list(CHANGES.values()), k=rng.choices([1, 2, 4], [75, 20, 5])[0])
    for change in how:
        try:
            change(rng, document, other)
        except (
            TypeError,
            AttributeError,
            KeyError,
            IndexError,
            OverflowError,
        ):  # an earlier change left nothing there to change
            break
    text = json.dumps(document)
    if rng.random() < 0.05:
        text = of_text(rng, text)
    return f"{name}: {', '.join([f.__name__ for f in how])}", with_text(data, text)


def document_of(data: bytes) -> Any:
    return json.loads(zipfile.ZipFile(io.BytesIO(data)).read(MEMBER))


def with_text(data: bytes, text: str) -> bytes:
    """The file with other JSON."""
    found = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(found, "w") as new:
        for info in old.infolist():
            content = text.encode("utf-8", "surrogatepass") if info.filename == MEMBER else old.read(info)
            new.writestr(info.filename, content)
    return found.getvalue()


def of_bytes(rng: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(found) + 1)
        what = rng.randrange(4)
        if what == 0:
            found[at : at + 1] = bytes([rng.randrange(256)])
        elif what == 1:
            del found[at:]
            found += b"\0"
        elif what == 2:
            found[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            del found[at : at + rng.randrange(1, 9)]
    return bytes(found)
