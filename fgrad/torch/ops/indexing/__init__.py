"""Operations that read or write elements at indices."""
