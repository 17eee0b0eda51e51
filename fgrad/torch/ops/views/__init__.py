"""Operations whose result is a view of their operand, and those that only move elements."""
