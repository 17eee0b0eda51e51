"""The table of operations, which the other rooms fill: entries, overloads, signatures and ``out=``."""
