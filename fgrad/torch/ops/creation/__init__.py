"""Operations that make tensors, of sizes, of data or of other tensors."""
