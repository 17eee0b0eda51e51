"""Methods and attributes of tensors outside the table of operations, and how all are made overridable."""
