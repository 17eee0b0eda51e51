"""Operations over axes: sums, norms, extrema, cumulative sums, sorts, statistics."""
