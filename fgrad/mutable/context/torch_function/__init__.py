"""The ``__torch_function__`` protocol: classes and modes that override calls of the library."""
