"""Samples of windows and of short-time Fourier transforms."""

import fgrad.torch as torch
from tests.torch.ops.sample import Sample, integers, normal, positive

X, Y = normal(2, 40), normal(40, dtype="complex128")
W, S = positive(8, seed=1), normal(2, 5, 21, dtype="complex128")
C = {"return_complex": True}
V = {"window": W}

WINDOWS = [
    *[Sample(f"{name}_window", (length, periodic), {"dtype": torch.float64}, label=f"{length} {periodic}")
      for name in ("hann", "hamming", "bartlett", "blackman", "kaiser")
      for length, periodic in ((0, True), (1, False), (5, True), (6, True), (6, False))],
    *[Sample(f"{name}_window", (-1,), label="negative") for name in ("hann", "kaiser")],
    Sample("hann_window", (5,), {"requires_grad": True}, label="requires grad"),
    Sample("hann_window", (5,), {"dtype": torch.float16}, label="half"),
    Sample("hann_window", (5,), {"dtype": torch.int64}, label="integers"),
    Sample("kaiser_window", (5,), {"dtype": torch.bool}, label="booleans"),
    Sample("hann_window", (5.0,), label="no integer"),
    Sample("hamming_window", (5, True, 0.6, 0.3), {"dtype": torch.float64}, label="alpha and beta"),
    Sample("kaiser_window", (5, False, 3), {"dtype": torch.float64}, label="beta"),
]  # fmt: skip

_COMMON = ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_hamming", "hamming", "hann", "kaiser",
           "nuttall")  # fmt: skip
NAMED_WINDOWS = [
    *[Sample(f"signal.windows.{name}", (length,), {"sym": sym, "dtype": torch.float64}, label=f"{length} {sym}")
      for name in _COMMON for length, sym in ((0, True), (1, False), (6, True), (5, False))],
    *[Sample(f"signal.windows.{name}", (6,), {"requires_grad": True, "dtype": torch.float64}, label="requires grad")
      for name in _COMMON],
    Sample("signal.windows.general_cosine", (6,), {"a": [0.3, 0.5, 0.1], "dtype": torch.float64}),
    Sample("signal.windows.general_cosine", (6,), {"a": 3}, label="no list"),
    Sample("signal.windows.general_cosine", (6,), {"a": []}, label="empty"),
    Sample("signal.windows.exponential", (6,), {"tau": 2.0, "center": 1, "sym": False}, label="center", tolerance=1e-5),
    Sample("signal.windows.exponential", (6,), {"center": 1}, label="symmetric"),
    Sample("signal.windows.exponential", (6,), {"tau": -1}, label="tau"),
    Sample("signal.windows.gaussian", (6,), {"std": 0}, label="std"),
    Sample("signal.windows.kaiser", (6,), {"beta": -1}, label="beta"),
    Sample("signal.windows.hann", (-1,), label="negative"),
    Sample("signal.windows.hann", (3,), {"dtype": torch.float16}, label="half"),
]  # fmt: skip

TRANSFORMS = [
    Sample("stft", (X, 8), V | C),
    Sample("stft", (X[0], 8, 3, 6), {"window": W[:6]} | C, label="one signal, short window"),
    Sample("stft", (X, 8), {"return_complex": False, "center": False} | V, label="pairs"),
    Sample("stft", (X, 7, 2), C, label="no window, odd"),
    Sample("stft", (X, 8, 3, 6), C, label="no window, short"),
    Sample("stft", (X, 8), {"normalized": True, "onesided": False, "pad_mode": "constant"} | V | C, label="two sides"),
    Sample("stft", (Y, 8), V, label="complex"),
    Sample("stft", (X, 8), {"window": normal(8, dtype="complex128")}, label="complex window"),
    Sample("stft", (X, 8, None, 4, W[:4]), {"center": False, "align_to_window": True} | C, label="aligned"),
    Sample("Tensor.stft", (X, 8), V | C, label="method"),
    Sample("stft", (X, 8), label="neither"),
    Sample("stft", (X, 8), {"align_to_window": True} | C, label="aligned in the centre"),
    Sample("stft", (integers(40), 8), V | C, label="integers"),
    Sample("stft", (normal(2, 2, 40), 8), V | C, label="three axes"),
    Sample("stft", (X, 0), {"center": False} | C, label="no length"),
    Sample("stft", (X, 80), {"center": False} | C, label="too long"),
    Sample("stft", (X, 8, 0), V | C, label="no hop"),
    Sample("stft", (X, 8, None, 9), V | C, label="window too long"),
    Sample("stft", (X, 8, None, 6), V | C, label="wrong window"),
    Sample("stft", (Y, 8), {"onesided": True} | V, label="one side of complex"),
]

INVERSES = [
    Sample("istft", (S, 8), V),
    Sample("istft", (S[0], 8), V | {"normalized": True}, label="one signal"),
    Sample("istft", (S, 8), label="no window"),
    Sample("istft", (S, 8, 2, 6), {"window": W[:6]}, label="short window"),
    Sample("istft", (S, 8), V | {"length": 30}, label="cut"),
    Sample("istft", (S, 8), V | {"length": 60}, label="filled up"),
    Sample("istft", (S, 8), V | {"center": False}, label="from the beginning"),
    Sample("istft", (normal(8, 5, dtype="complex128"), 8), V, label="two sides"),
    Sample("istft", (normal(8, 5, dtype="complex128"), 8), V | {"onesided": False, "return_complex": True},
           label="complex"),
    Sample("Tensor.istft", (S, 8), V, label="method"),
    Sample("istft", (X, 8), V, label="real"),
    Sample("istft", (S, 8, 9), V, label="hop too long"),
    Sample("istft", (S, 8, None, 9), V, label="window too long"),
    Sample("istft", (S, 8, None, 6), V, label="wrong window"),
    Sample("istft", (S, 10), V, label="wrong length"),
    Sample("istft", (S, 8), V | {"onesided": False}, label="wrong number of sides"),
    Sample("istft", (S, 8), V | {"return_complex": True}, label="complex of one side"),
    Sample("istft", (S, 8), {"window": normal(8, dtype="complex128")}, label="complex window"),
    Sample("istft", (S, 8), {"window": W * 0}, label="no weight"),
    Sample("istft", (S[None], 8), V, label="four axes"),
    Sample("istft", (S[..., :0], 8), V, label="empty"),
]  # fmt: skip

SAMPLES = [*WINDOWS, *NAMED_WINDOWS, *TRANSFORMS, *INVERSES]
