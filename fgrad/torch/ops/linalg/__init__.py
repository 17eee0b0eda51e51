"""Products of matrices, decompositions and solves."""
