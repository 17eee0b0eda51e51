"""What to do about PyTorch's errors, by the errors' texts."""

import re
from functools import lru_cache

_WAYS: dict[str, str] = {
    # -- shapes
    r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)": (
        "the first has {1} columns and the second {2} rows. A layer's in_features must be the last size of what it is "
        "given; flatten(1) makes one row of each sample, and .T or .mT turns a matrix."
    ),
    r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]": (
        "the last size of the first factor ({1}) must be the last but one of the second ({3}), and the batches must "
        "agree; .mT turns matrices."
    ),
    r"size mismatch, got|inconsistent tensor size": "the sizes that are summed over must agree.",
    r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)": (
        "shapes are compared from the last axis on, and each pair of sizes must be equal or have a 1; b[:, None] "
        "(unsqueeze) gives b an axis of size 1."
    ),
    r"einsum\(\): subscript \w has size": (
        "a letter of einsum stands for one size; give axes of different sizes different letters."
    ),
    r"Sizes of tensors must match except in dimension|stack expects each tensor to be equal size": (
        "all axes but the one that is joined must agree; dim= chooses it, and torch.stack joins along a new one."
    ),
    r"view size is not compatible": "x.reshape(...) copies where it must; x.contiguous().view(...) copies always.",
    r"shape '(.*)' is invalid for input of size (\d+)": (
        "the sizes must multiply to {1}; a -1 among them is worked out."
    ),
    r"expected input\[(.*)\] to have (\d+) channels, but got (\d+) channels": (
        "channels come second: shape (batch, {1}, height, width). x.permute(0, 3, 1, 2) brings them there from the "
        "last place."
    ),
    r"input.size\(-1\) must be equal to input_size. Expected (\d+), got (\d+)": (
        "make the layer with input_size={1}, or give it sequences whose last size is {0}."
    ),
    r"Expected more than 1 value per channel when training": (
        "a batch of one sample has no variance: take larger batches (DataLoader(drop_last=True) leaves out a last one "
        "of 1), call model.eval() for inference, or use LayerNorm or GroupNorm."
    ),
    r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)": (
        "indices along this axis run from 0 to {2} - 1, or from -{2} to -1."
    ),
    r"expected sequence of length (\d+) at dim (\d+)": (
        "pad the rows to one length (torch.nn.utils.rnn.pad_sequence), or keep a list of tensors."
    ),
    # -- types
    r"mat1 and mat2 must have the same dtype, but got (\w+) and (\w+)": (
        "convert the input, x.to(layer.weight.dtype) (x.float() for an ordinary layer), or the layer, "
        "layer.to(x.dtype)."
    ),
    r"to have one of the following scalar types: Long, Int": "indices are integers: tokens.long().",
    r"index out of range in self": (
        "an index is negative or not below num_embeddings; see the largest with x.max(), and make the embedding that "
        "large."
    ),
    r"Boolean value of Tensor with more than one value": (
        "mask.any() or mask.all() says which is meant; torch.where chooses element by element."
    ),
    r"a Tensor with (\d+) elements cannot be converted to Scalar": (
        "reduce it first, x.mean().item(), or take all of them, x.tolist()."
    ),
    r"Can't call numpy\(\) on Tensor that requires grad": (
        "where the number is only looked at, detach() is right. In a loss it cuts the gradient: compute there with "
        "torch's functions instead."
    ),
    r"only Tensors of floating point": "x.float().requires_grad_(); integers have no derivative.",
    # -- losses
    r"Target (-?\d+) is out of bounds": (
        "classes are numbered from 0 to the second size of the input less 1: subtract 1 from labels that begin with "
        "1, widen the last layer, or leave labels out with ignore_index."
    ),
    r"expected target dtype to be Long|expected scalar type Long but found": (
        "class numbers are integers: target.long(); floats are taken as probabilities if they have the input's shape."
    ),
    r"0D or 1D target tensor expected": (
        "one class number for each sample: target.squeeze(1), or target.argmax(1) of one-hot rows."
    ),
    r"all elements of input should be between 0 and 1": (
        "the input must be probabilities: apply torch.sigmoid, or use binary_cross_entropy_with_logits "
        "(BCEWithLogitsLoss), which takes logits and is stable."
    ),
    r"Using a target size .* that is different to the input size": "target.view_as(input), or input.squeeze(1).",
    # -- backward
    r"grad can be implicitly created only for scalar outputs": (
        "reduce the output, loss.mean().backward() or loss.sum().backward(), or give the gradient that comes in: "
        "out.backward(torch.ones_like(out))."
    ),
    r"grad_output\[(\d+)\] has a shape of": "the gradient given to backward has the shape of the output.",
    r"can't retain_grad on Tensor that has requires_grad=False": (
        "call x.requires_grad_() before computing with x; a leaf keeps its gradient anyway."
    ),
    r"you can only change requires_grad flags of leaf variables": (
        "x = x.detach() gives the number without its history."
    ),
    r"attempting to assign a gradient of size": "a gradient has its tensor's shape; assign None to clear it.",
    r"Only Tensors created explicitly by the user": (
        "copy.deepcopy(x.detach()), or x.clone(), which keeps the history."
    ),
    r"more than one element of the written-to tensor refers to a single memory location": (
        "expand() repeats without a copy: x.expand(...).clone() or x.repeat(...) has memory of its own to write to."
    ),
    r"does not require grad and does not have a grad_fn": (
        "it was computed without recording (no_grad, detach, .item(), torch.tensor(...), integers, a gradient without "
        "create_graph=True), or from nothing that requires grad; fgrad.torch.why_no_grad(y, x) shows where."
    ),
    r"appears to not have been used in the graph": (
        "fgrad.torch.why_no_grad(y, x) shows where the way from the output breaks; allow_unused=True gives None."
    ),
    # -- modules and optimisers
    r'Unexpected key\(s\) in state_dict: "module\.': (
        "the entries were saved from a DataParallel model: load {{k.removeprefix('module.'): v for k, v in "
        "state.items()}}."
    ),
    r"Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict": (
        "load it into a model built as the saved one was; strict=False takes the entries that fit and returns the "
        "others' names."
    ),
    r"size mismatch for ([\w.]+)": (
        "build the model with the sizes of the checkpoint, or leave these entries out and pass strict=False."
    ),
    r'missing the required "forward" function': "define forward(self, ...) in the class; look for a misspelt name.",
    r"cannot assign (?:module|parameters?|buffers?) before Module.__init__\(\) call": (
        "call super().__init__() first in __init__."
    ),
    r"cannot assign '.*' as (?:parameter|child module|buffer)": (
        "wrap it, torch.nn.Parameter(x), or write the numbers: with torch.no_grad(): module.weight.copy_(x)."
    ),
    r"optimizer got an empty parameter list": (
        "layers in a Python list or dict are not registered: use nn.ModuleList or nn.ModuleDict. A generator such as "
        "model.parameters() can be gone through once: list(model.parameters())."
    ),
    r"params argument given to the optimizer should be an iterable": "put it in a list: [w].",
    r"can't optimize a non-leaf Tensor": (
        "make the leaf last: w = (torch.randn(3) * 0.1).requires_grad_(), or w.detach().requires_grad_()."
    ),
}

_COMPILED = tuple((re.compile(pattern), way) for pattern, way in _WAYS.items())


@lru_cache(1 << 10)
def way_out(text: str) -> str | None:
    """What to do about an error with this text, if known.

    >>> way_out("shape '[2, 16]' is invalid for input of size 30")
    'the sizes must multiply to 30; a -1 among them is worked out.'
    """
    for pattern, way in _COMPILED:
        match = pattern.search(text)
        if match is not None:
            return way.format(*match.groups())
    return None
