"""Drawings of graphs: forward on the left, backward on the right, and what is saved between them."""
