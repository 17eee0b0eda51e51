"""``torch.backends.opt_einsum``: opt_einsum, in whose place XLA computes."""


def is_available() -> bool:
    """Whether opt_einsum computes: never."""
    return False
