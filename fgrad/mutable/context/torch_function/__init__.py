"""The protocol ``__torch_function__``: classes and modes that answer calls in place of the library."""
