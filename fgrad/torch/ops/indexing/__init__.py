"""Operations that pick elements, or write them, at places that are given."""
