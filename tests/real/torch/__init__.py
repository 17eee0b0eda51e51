"""Programs of libraries that are written for PyTorch, from their own documentation, on PyTorch and on ``fgrad.torch``.

Each file in ``programs`` is a program that knows nothing of ``fgrad``: it imports ``torch`` and one library, and
leaves arrays in ``outputs``.  ``run`` plays one in a process of its own, with PyTorch or with
``fgrad.torch.install()``; the test compares what the two leave.  A program whose library is not there is skipped.
"""
