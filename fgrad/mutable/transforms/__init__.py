"""Sixth floor: the levels of ``torch.func`` and of forward-mode differentiation."""
