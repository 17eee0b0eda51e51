"""``torch.backends.opt_einsum``: not available: XLA computes everything."""


def is_available() -> bool:
    """Never."""
    return False


#: settings of opt_einsum, without effect
enabled, strategy = False, None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, None]:
    """What the settings were; nothing is set."""
    return enabled, strategy
