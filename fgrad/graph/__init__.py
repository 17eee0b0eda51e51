"""First floor: the immutable graph of JAX's primitives; checking, printing, drawing and saving it."""
