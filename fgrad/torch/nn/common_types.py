"""The types of arguments that are one number for all axes or a number for each, by PyTorch's private names."""

from fgrad.mutable.tensor.tensor import Tensor

_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = int | tuple[int, int, int, int]
_size_5_t = int | tuple[int, int, int, int, int]
_size_6_t = int | tuple[int, int, int, int, int, int]

_size_any_opt_t = int | tuple[int | None, ...] | None
_size_2_opt_t = int | tuple[int | None, int | None] | None
_size_3_opt_t = int | tuple[int | None, int | None, int | None] | None

_ratio_2_t = float | tuple[float, float]
_ratio_3_t = float | tuple[float, float, float]
_ratio_any_t = float | tuple[float, ...]

_tensor_list_t = Tensor | tuple[Tensor, ...]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
