"""Operations of each element by itself."""
