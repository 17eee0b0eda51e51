"""Methods and attributes of tensors that are no operations of the table, and how all are entered."""
