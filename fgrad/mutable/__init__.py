"""The semantics of mutable tensors: storages, versions, views, nodes, saved values, the engine, in-place writes.

Floors, from the ground up; a file imports from its own room and from those below:

1. ``types``: dtypes, devices, sizes, promotion.
2. ``context``: modes, warnings, ``__torch_function__``; ``layout``: strides and offsets.
3. ``values``: how a value is computed, and on which device it is.
4. ``tensor``: storage, version counter, node, tensor, saved tensor.
5. ``operation``: the plan of an operation for given types, its node, views.
6. ``write``: in-place writes; ``transforms``: levels of ``torch.func`` and forward mode.
7. ``backward``: the engine.
8. ``capture``: a program as a graph; ``explain``: what error messages add, and answers to the user's questions.

Calls from a lower floor to a higher one are listed in ``ports.py``.
Nothing here knows PyTorch's module tree; of the core it uses the names in ``fgrad/seam.py``.
"""
