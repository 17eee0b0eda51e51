"""``torch.nn.utils``: gradients clipped, parameters as one vector, parameters computed from others,
sequences of different lengths."""

from fgrad.torch.nn.clip import (
    clip_grad_norm as clip_grad_norm,
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from fgrad.torch.nn.utils import parametrizations as parametrizations, parametrize as parametrize, rnn as rnn
from fgrad.torch.nn.vectors import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)
