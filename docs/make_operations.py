"""The table of the mutable layer's operations, made from the table of the library."""

from fgrad.torch.ops.table.table import TABLE


def table() -> str:
    """A row for each operation: how it may be called, and the node that it makes."""
    lines = ["| operation | function | method | in place | node |", "|---|---|---|---|---|"]
    for name, entry in sorted(TABLE.items()):
        if name.startswith("_") or name.endswith("_"):
            continue
        node = "" if entry.operation is None else entry.operation.node
        shown = "by its arguments" if callable(node) else f"`{node}`" if node else ""
        inplace = entry.inplace or f"{name}_" in TABLE
        marks = [" yes" if yes else "" for yes in (entry.function, entry.method, inplace)]
        lines.append(f"| `{name}` |{' |'.join(marks)} | {shown} |")
    return "\n".join(lines)
