"""Transformers (Vaswani et al., 2017): encoders, decoders, and the layers they are made of."""

import copy
from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import is_grad_enabled
from fgrad.mutable.context.warning import warn
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init
from fgrad.torch.nn.modules.activation import GELU, ReLU
from fgrad.torch.nn.modules.attention import MultiheadAttention
from fgrad.torch.nn.modules.container import ModuleList
from fgrad.torch.nn.modules.dropout import Dropout
from fgrad.torch.nn.modules.linear import Linear
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Any], Any]


def _causal_mask(size: int, device: Any = None, dtype: Any = None) -> Any:
    return ops.triu(ops.full((size, size), float("-inf"), dtype=dtype, device=device), diagonal=1)


# names that other libraries import


def _get_clones(module: Module, N: int) -> ModuleList:
    """Copies of a module."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _get_activation_fn(activation: Activation) -> Callable[[Any], Any]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return F.relu if activation == "relu" else F.gelu


def _is_causal(mask: Any, is_causal: bool | None, src: Any, batch_first: bool) -> bool:
    """Whether ``mask`` is causal, by inspection if unstated."""
    if is_causal is not None or mask is None:
        return is_causal is True
    length = src.size(0 if src.dim() == 2 or not batch_first else 1)
    causal = _causal_mask(length, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _canonical(mask: Any, name: str, other: Any, other_name: str, like: Any) -> Any:
    """A mask as numbers to add; its type must agree with that of ``other``, if any."""
    return F._canonical_mask(
        mask=mask,
        mask_name=name,
        other_type=F._none_or_dtype(other),
        other_name=other_name,
        target_type=like.dtype,
        check_other=other_name != "",
    )


class Transformer(Module):
    """An encoder and a decoder.

    Arguments:
      d_model: the number of features.
      nhead: the number of heads.
      num_encoder_layers, num_decoder_layers: how many layers there are.
      dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: of each layer; see
        ``TransformerEncoderLayer``.
      custom_encoder, custom_decoder: modules instead of those made here.

    >>> import fgrad.torch as torch
    >>> model = torch.nn.Transformer(4, 2, 1, 1, dim_feedforward=8, batch_first=True)
    >>> model(torch.ones(1, 3, 4), torch.ones(1, 2, 4)).shape
    torch.Size([1, 2, 4])

    Source: `torch.nn.Transformer <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Transformer.html>`_.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """The causal mask: minus infinity above the diagonal, zero elsewhere.

        >>> import fgrad.torch as torch
        >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return _causal_mask(sz, device=device, dtype=dtype)


class TransformerEncoder(Module):
    """Copies of an encoder layer, one after another.

    Arguments:
      encoder_layer: the layer that is copied.
      num_layers: how often.
      norm: a module called at the end.
      enable_nested_tensor, mask_check: in evaluation PyTorch then skips padded positions and
        returns zeros for them; so does this, though it computes them.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=True)
    >>> torch.nn.TransformerEncoder(layer, 2)(torch.ones(1, 3, 4)).shape
    torch.Size([1, 3, 4])

    Source: `torch.nn.TransformerEncoder
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerEncoder.html>`_.
    """

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        obstacle = _obstacle_to_nesting(encoder_layer)
        self.use_nested_tensor: bool = enable_nested_tensor and obstacle is None
        if enable_nested_tensor and obstacle is not None:
            warn(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {obstacle}")

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        padding = _canonical(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src)
        mask = _canonical(mask, "mask", None, "", src)
        first = self.layers[0]
        is_causal = _is_causal(mask, is_causal, src, first.self_attn.batch_first)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self._skips_padding(src, padding):
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def _skips_padding(self, src: Any, padding: Any) -> bool:
        """Whether PyTorch computes this as a nested tensor, which has no padded positions."""
        first = self.layers[0]
        if not self.use_nested_tensor or first.training or src.dim() != 3:
            return False
        padded = padding != 0
        if self.mask_check and bool((padded[:, :-1] & ~padded[:, 1:]).any()):
            return False  # padding before the end of a sequence
        return not (is_grad_enabled() and any(tensor.requires_grad for tensor in (src, *first.parameters())))


def _obstacle_to_nesting(layer: Any) -> str | None:
    """Why PyTorch cannot use nested tensors with an encoder layer, in its words."""
    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    if layer.norm_first:
        return f"{name}.norm_first was True"
    if not layer.self_attn.batch_first:
        return f"{name}.self_attn.batch_first was not True(use batch_first for better inference performance)"
    if not layer.self_attn._qkv_same_embed_dim:
        return f"{name}.self_attn._qkv_same_embed_dim was not True"
    if layer.self_attn.in_proj_bias is None:
        return f"{name}.self_attn was passed bias=False"
    if not (layer.activation in (F.relu, F.gelu) or isinstance(layer.activation, ReLU | GELU)):
        return f"{name}.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return f"{name}.norm1.eps was not equal to {name}.norm2.eps"
    if layer.self_attn.num_heads % 2 == 1:
        return f"{name}.self_attn.num_heads is odd"
    return None


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after another.

    Arguments:
      decoder_layer: the layer that is copied.
      num_layers: how often.
      norm: a module called at the end.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.TransformerDecoderLayer(4, 2, dim_feedforward=8)
    >>> torch.nn.TransformerDecoder(layer, 2)(torch.ones(3, 1, 4), torch.ones(5, 1, 4)).shape
    torch.Size([3, 1, 4])

    Source: `torch.nn.TransformerDecoder
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerDecoder.html>`_.
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers: ModuleList = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, tgt, self.layers[0].self_attn.batch_first)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each with a residual connection and a normalisation.

    Arguments:
      d_model, nhead: the number of features and of heads.
      dim_feedforward: the number of features between the linear layers.
      dropout: of attention weights and of residual branches.
      activation: between the linear layers; ``"relu"``, ``"gelu"`` or a function.
      layer_norm_eps: of the normalisations.
      batch_first: whether inputs are ``(N, L, E)`` rather than ``(L, N, E)``.
      norm_first: whether normalisations come before rather than after.
      bias: whether linear layers and normalisations add one.

    Raises:
      RuntimeError: an activation with another name.

    >>> import fgrad.torch as torch
    >>> torch.nn.TransformerEncoderLayer(4, 2, dim_feedforward=8)(torch.ones(3, 1, 4)).shape
    torch.Size([3, 1, 4])

    Source: `torch.nn.TransformerEncoderLayer
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerEncoderLayer.html>`_.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.linear1: Linear = Linear(d_model, dim_feedforward, **options)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.activation: Callable[[Any], Any] = _get_activation_fn(activation)

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        padding = _canonical(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src)
        mask = _canonical(src_mask, "src_mask", None, "", src)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(attended)

    def _ff_block(self, x: Any) -> Any:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """An encoder layer with, in between, attention to the encoder's output; the arguments are the same.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.TransformerDecoderLayer(4, 2, dim_feedforward=8)
    >>> layer(torch.ones(3, 1, 4), torch.ones(5, 1, 4)).shape
    torch.Size([3, 1, 4])

    Source: `torch.nn.TransformerDecoderLayer
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.TransformerDecoderLayer.html>`_.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **options)
        self.linear1: Linear = Linear(d_model, dim_feedforward, **options)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        self.norm1: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm2: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.norm3: LayerNorm = LayerNorm(d_model, eps=layer_norm_eps, **options)
        self.dropout1: Dropout = Dropout(dropout)
        self.dropout2: Dropout = Dropout(dropout)
        self.dropout3: Dropout = Dropout(dropout)
        self.activation: Callable[[Any], Any] = _get_activation_fn(activation)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        x = tgt
        to_self = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        to_memory = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *to_self)
            x = x + self._mha_block(self.norm2(x), *to_memory)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *to_self))
        x = self.norm2(x + self._mha_block(x, *to_memory))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )
        return self.dropout1(attended)

    def _mha_block(self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        attended, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal, need_weights=False
        )
        return self.dropout2(attended)

    def _ff_block(self, x: Any) -> Any:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
