"""The functional interface: each transformation is a recording, one or two passes, and a run."""
