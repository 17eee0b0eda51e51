"""Samples of ``torch.nn.functional``: losses and distances."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal, positive

_F = "nn.functional."
_REDUCTIONS = ("mean", "sum", "none")

X, Y, CLASSES = normal(3, 4), normal(3, 4, seed=1), np.array([1, 0, 3])
IMAGE, IMAGE_CLASSES = normal(2, 3, 2, 2), integers(2, 2, 2, high=3)
PROBABILITIES = positive(3, 4) / 1.2
SIGNS = np.where(normal(3, 4, seed=2) > 0, 1.0, -1.0)
DISTRIBUTION = positive(3, 4, seed=3) / positive(3, 4, seed=3).sum(1, keepdims=True)

REGRESSION: list[Sample] = [
    *[
        Sample(_F + name, (X, Y), {"reduction": reduction, **named}, f"{reduction}{''.join(named)}", order=order)
        for reduction in _REDUCTIONS
        for name, named, order in [
            ("mse_loss", {}, 2),
            ("l1_loss", {}, 2),
            ("smooth_l1_loss", {"beta": 0.5}, 2),
            ("smooth_l1_loss", {}, 2),
            ("smooth_l1_loss", {"beta": 0.0}, 2),
            ("huber_loss", {"delta": 0.5}, 2),
        ]
    ],
    Sample(_F + "mse_loss", (X, Y), label="frozen", frozen=(1,)),
    Sample(_F + "mse_loss", (X, normal(4)), label="broadcast"),
    Sample(_F + "mse_loss", (X, Y, None, None, "mean", positive(3, 4)), label="weight"),
    Sample(_F + "mse_loss", (normal(3, dtype="float32"), normal(3)), label="types"),
    Sample(_F + "mse_loss", (integers(3), integers(3)), label="integers"),
    Sample(_F + "mse_loss", (X, Y), {"reduction": "other"}, "wrong"),
    Sample(_F + "mse_loss", (normal(), normal()), label="0-d"),
    Sample(_F + "mse_loss", (normal(0), normal(0)), label="empty", order=1),
    Sample(_F + "mse_loss", (normal(2), normal(3)), label="mismatch"),
    Sample(_F + "l1_loss", (X, X), label="ties", order=1),
    Sample(_F + "l1_loss", (X, Y), {"weight": positive(3, 4), "reduction": "sum"}, "weight"),
    Sample(_F + "smooth_l1_loss", (X, X), label="ties", order=1),
    Sample(_F + "smooth_l1_loss", (X, Y), {"beta": -1.0}, "negative"),
    Sample(_F + "huber_loss", (X, Y), {"weight": positive(3, 4)}, "weight"),
    Sample(_F + "huber_loss", (X, Y), {"delta": 0.0}, "zero"),
    Sample(_F + "poisson_nll_loss", (X, positive(3, 4)), frozen=(1,)),
    Sample(_F + "poisson_nll_loss", (positive(3, 4), positive(3, 4) * 3, False, True), label="full", frozen=(1,)),
    Sample(_F + "poisson_nll_loss", (X, Y), {"reduction": "other"}, "wrong"),
    Sample(_F + "gaussian_nll_loss", (X, Y, positive(3, 4))),
    Sample(_F + "gaussian_nll_loss", (X, Y, 0.5), {"full": True, "reduction": "sum"}, "number"),
    Sample(_F + "gaussian_nll_loss", (X, Y, positive(3)), {"reduction": "none"}, "rows"),
    Sample(_F + "gaussian_nll_loss", (X, Y, -positive(3, 4)), label="negative"),
    Sample(_F + "gaussian_nll_loss", (X, Y, positive(2, 4)), label="size"),
]

CLASSIFICATION: list[Sample] = [
    *[Sample(_F + "nll_loss", (X, CLASSES), {"reduction": r}, r) for r in _REDUCTIONS],
    *[Sample(_F + "nll_loss", (IMAGE, IMAGE_CLASSES), {"reduction": r}, f"2d-{r}") for r in _REDUCTIONS],
    Sample(_F + "nll_loss", (X, CLASSES, positive(4)), label="weight", frozen=(2,)),
    Sample(_F + "nll_loss", (X, CLASSES, positive(4)), {"ignore_index": 0, "reduction": "none"}, "ignore", frozen=(2,)),
    Sample(_F + "nll_loss", (normal(4), np.array(1)), label="1d"),
    Sample(_F + "nll_loss", (normal(2, 3, 4), integers(2, 4, high=3)), label="3d"),
    Sample(_F + "nll_loss", (normal(2, 3, 2, 2, 2), integers(2, 2, 2, 2, high=3)), {"reduction": "none"}, "5d"),
    Sample(_F + "nll_loss", (X, np.full(3, -100)), label="all-ignored", order=1),
    *[
        Sample(_F + "nll_loss", (X, np.array([1, -100, 3]), *weight), {"reduction": r}, f"one-ignored-{r}", frozen=(2,))
        for r in _REDUCTIONS
        for weight in ((), (positive(4),))
    ],
    *[
        Sample(_F + "nll_loss", (X, CLASSES, positive(4)), {"reduction": r}, f"weight-{r}", frozen=(2,))
        for r in _REDUCTIONS
    ],
    Sample(_F + "nll_loss", (normal(0, 4), np.zeros(0, int)), label="no rows", order=1),
    Sample(_F + "nll_loss", (X, np.array([0, 1, 9])), label="out-of-bounds"),
    Sample(_F + "nll_loss", (X, np.array([0, 1])), label="batch"),
    Sample(_F + "nll_loss", (X, normal(3)), label="floating"),
    Sample(_F + "nll_loss", (X, CLASSES, positive(3)), label="weight-size", frozen=(2,)),
    Sample(_F + "nll_loss", (X, CLASSES, positive(4)), label="weight-requires-grad"),
    Sample(_F + "soft_margin_loss", (X, SIGNS), label="target-requires-grad"),
    Sample(_F + "nll_loss", (normal(4), CLASSES), label="1d-several"),
    *[Sample(_F + "cross_entropy", (X, CLASSES), {"reduction": r}, r) for r in _REDUCTIONS],
    *[
        Sample(_F + "cross_entropy", (X, CLASSES), {"reduction": r, "label_smoothing": 0.1}, f"smoothed-{r}")
        for r in _REDUCTIONS
    ],
    *[Sample(_F + "cross_entropy", (X, DISTRIBUTION), {"reduction": r}, f"probabilities-{r}") for r in _REDUCTIONS],
    Sample(_F + "cross_entropy", (IMAGE, IMAGE_CLASSES), label="2d"),
    Sample(_F + "cross_entropy", (normal(4), np.array(1)), label="1d"),
    Sample(_F + "cross_entropy", (X, CLASSES, positive(4)), {"label_smoothing": 0.2}, "smoothed-weight", frozen=(2,)),
    Sample(_F + "cross_entropy", (X, CLASSES), {"label_smoothing": 0.2, "ignore_index": 3}, "smoothed-ignore"),
    Sample(
        _F + "cross_entropy",
        (X, DISTRIBUTION, positive(4)),
        {"label_smoothing": 0.2},
        "probabilities-smoothed",
        frozen=(1, 2),
    ),
    Sample(_F + "cross_entropy", (X, np.ones((3, 4), "int64")), label="integer-probabilities"),
    Sample(_F + "cross_entropy", (X, DISTRIBUTION), {"ignore_index": 1}, "probabilities-ignore"),
    Sample(_F + "cross_entropy", (X, CLASSES), {"label_smoothing": 2.0}, "smoothing"),
    Sample(_F + "cross_entropy", (normal(4, 0), normal(4, 0)), {"label_smoothing": 0.2}, "no-classes", order=1),
    Sample(_F + "cross_entropy", (X, DISTRIBUTION, positive(3)), label="weight-size"),
    Sample(_F + "linear_cross_entropy", (X, normal(5, 4), CLASSES), {"linear_bias": normal(5)}),
    Sample(_F + "linear_cross_entropy", (X, normal(5, 3), CLASSES), label="mismatch"),
    *[
        Sample(_F + "binary_cross_entropy", (PROBABILITIES, DISTRIBUTION), {"reduction": r}, r, frozen=(1,))
        for r in _REDUCTIONS
    ],
    Sample(_F + "binary_cross_entropy", (PROBABILITIES, DISTRIBUTION), label="target", order=1),
    Sample(_F + "binary_cross_entropy", (PROBABILITIES, DISTRIBUTION, positive(4)), label="weight", frozen=(1, 2)),
    Sample(
        _F + "binary_cross_entropy",
        (np.array([0.0, 1.0, 0.0]), np.array([0.0, 1.0, 1.0])),
        label="ends",
        frozen=(1,),
        order=1,
    ),
    Sample(_F + "binary_cross_entropy", (X, DISTRIBUTION), label="range"),
    Sample(_F + "binary_cross_entropy", (PROBABILITIES, normal(4)), label="size"),
    Sample(_F + "binary_cross_entropy", (PROBABILITIES, DISTRIBUTION.astype("float32")), label="types"),
    *[Sample(_F + "binary_cross_entropy_with_logits", (X, DISTRIBUTION), {"reduction": r}, r) for r in _REDUCTIONS],
    Sample(
        _F + "binary_cross_entropy_with_logits",
        (X, DISTRIBUTION),
        {"weight": positive(3, 4), "pos_weight": positive(4)},
        "weights",
        frozen=(2, 3),
    ),
    Sample(_F + "binary_cross_entropy_with_logits", (np.array([-1e3, 0.0, 1e3]), np.array([1.0, 0, 0])), label="far"),
    Sample(_F + "binary_cross_entropy_with_logits", (X, np.ones((3, 4), "int64")), label="integers"),
    Sample(_F + "binary_cross_entropy_with_logits", (X, normal(4)), label="size"),
    *[
        Sample(_F + "kl_div", (X, DISTRIBUTION), {"reduction": r, "log_target": log}, f"{r}-{log}")
        for r in ("sum", "none", "batchmean")
        for log in (False, True)
    ],
]

MARGINS: list[Sample] = [
    *[
        Sample(_F + name, args, {"reduction": r, **named}, r, order=order, frozen=frozen)
        for r in _REDUCTIONS
        for name, args, named, order, frozen in [
            ("margin_ranking_loss", (X, Y, SIGNS), {"margin": 0.3}, 2, (2,)),
            ("hinge_embedding_loss", (X, SIGNS), {"margin": 0.3}, 2, (1,)),
            ("cosine_embedding_loss", (X, Y, SIGNS[:, 0]), {"margin": 0.1}, 2, (2,)),
            ("soft_margin_loss", (X, SIGNS), {}, 2, (1,)),
            ("multi_margin_loss", (X, CLASSES), {}, 1, ()),
            ("multilabel_margin_loss", (X, np.array([[1, 0, -1, 2]] * 3)), {}, 1, ()),
            ("multilabel_soft_margin_loss", (X, (SIGNS + 1) / 2), {}, 2, (1,)),
            ("triplet_margin_loss", (X, Y, normal(3, 4, seed=5)), {}, 2, ()),
            ("triplet_margin_with_distance_loss", (X, Y, normal(3, 4, seed=5)), {}, 2, ()),
        ]
    ],
    Sample(_F + "multi_margin_loss", (X, CLASSES, 2, 0.5, positive(4)), label="squared", order=1, frozen=(2,)),
    Sample(_F + "multi_margin_loss", (normal(4), np.array(1)), label="1d", order=1),
    Sample(_F + "multi_margin_loss", (X, CLASSES + 9), label="out-of-range"),
    Sample(_F + "multi_margin_loss", (X, CLASSES, 3), label="power"),
    Sample(_F + "multilabel_margin_loss", (normal(4), np.array([2, 1, -1, 0])), label="1d", order=1),
    Sample(_F + "multilabel_margin_loss", (normal(4), np.array([2, 9, -1, 0])), label="out-of-range"),
    Sample(_F + "multilabel_margin_loss", (normal(), np.array(0)), label="0d", order=1),
    *[
        Sample(_F + "nll_loss", (normal(*shape), normal(*given)), label=f"target-type-{i}")
        for i, (shape, given) in enumerate(
            (
                ((4, 2), (5,)),
                ((4, 2), (4, 3)),
                ((4, 2), (4,)),
                ((4, 2, 3), (4, 4)),
                ((4, 2, 3, 3), (4, 3, 4)),
                ((2,), (2,)),
            )
        )
    ],
    Sample(_F + "multilabel_margin_loss", (X, np.full((3, 4), 9)), {"reduction": "other"}, "reduction"),
    Sample(_F + "multi_margin_loss", (X, normal(3)), label="target-type"),
    Sample(_F + "multi_margin_loss", (normal(3, 0), CLASSES), label="no-classes"),
    Sample(_F + "multilabel_soft_margin_loss", (X, (SIGNS + 1) / 2, positive(4)), label="weight", frozen=(1, 2)),
    Sample(_F + "cosine_embedding_loss", (X, Y, SIGNS), label="target-rank"),
    Sample(_F + "margin_ranking_loss", (X, Y, normal(3)), label="rank"),
    Sample(_F + "triplet_margin_loss", (X, Y, normal(3, 4, seed=5)), {"swap": True, "p": 1.0}, "swap"),
    Sample(_F + "triplet_margin_loss", (X, Y, Y), {"margin": 0}, "margin"),
    Sample(_F + "triplet_margin_loss", (X, Y, normal(4)), label="rank"),
    Sample("margin_ranking_loss", (X, Y, SIGNS), frozen=(2,)),
    Sample("hinge_embedding_loss", (X, SIGNS), frozen=(1,)),
    Sample("cosine_embedding_loss", (X, Y, SIGNS[:, 0]), frozen=(2,)),
    Sample("triplet_margin_loss", (X, Y, normal(3, 4, seed=5))),
    Sample("kl_div", (X, DISTRIBUTION)),
    Sample("poisson_nll_loss", (X, Y, True, False, 1e-8, 1), frozen=(1,)),
    Sample("binary_cross_entropy_with_logits", (X, DISTRIBUTION)),
]

DISTANCES: list[Sample] = [
    Sample(_F + "pairwise_distance", (X, Y)),
    Sample(_F + "pairwise_distance", (np.ones(()), np.ones(()), 1.0, 0.0), label="equal", order=1),
    Sample(_F + "pairwise_distance", (X, normal(4), 1.0), {"keepdim": True}, "p1"),
    Sample(_F + "cosine_similarity", (X, Y)),
    Sample(_F + "cosine_similarity", (normal(4), normal(4, seed=1), 0), label="1d"),
    Sample(_F + "cosine_similarity", (normal(2, 3).astype(np.float16), normal(2, 3, seed=1)), label="half", order=1),
    Sample(_F + "cosine_similarity", (X, normal(4), -1), label="broadcast"),
    Sample(_F + "cosine_similarity", (np.zeros((2, 3)), normal(2, 3)), label="zero", order=1),
    Sample(_F + "cosine_similarity", (normal(4), normal(4, seed=1)), label="no-such-dim"),
    *[Sample(_F + "pdist", (X, p), label=str(p), order=1) for p in (2.0, 1.0, 3.0, 1.5, float("inf"), 0.0)],
    *[Sample(_F + "pdist", (np.ones((3, 2)), p), label=f"equal{p}", order=1) for p in (2.0, 1.0, 1.5, float("inf"))],
    Sample(_F + "pdist", (normal(1, 4),), label="one", order=1),
    Sample(_F + "pdist", (normal(4),), label="rank"),
    Sample(_F + "pdist", (X, -1.0), label="negative"),
    Sample("pdist", (X,), order=1),
    Sample("cosine_similarity", (X, Y)),
    Sample("pairwise_distance", (X, Y)),
]

LOGS, LABELS = normal(6, 3, 4), np.array([[1, 2, 1], [1, 1, 3], [3, 2, 2]])
LENGTHS = (np.array([6, 5, 6]), np.array([2, 3, 1]))

ALIGNMENT: list[Sample] = [
    *[Sample(_F + "ctc_loss", (LOGS, LABELS, *LENGTHS), {"reduction": r}, r, order=1) for r in _REDUCTIONS],
    Sample(_F + "ctc_loss", (LOGS, LABELS.reshape(-1)[:6], *LENGTHS), {"reduction": "none"}, "joined", order=1),
    Sample(_F + "ctc_loss", (LOGS, LABELS, (6, 3, 6), (2, 3, 0)), {"reduction": "none"}, "impossible", order=1),
    Sample(_F + "ctc_loss", (LOGS, LABELS, (6, 3, 6), (2, 3, 0), 0, "sum", True), label="zero-infinity", order=1),
    Sample(_F + "ctc_loss", (LOGS[:, 0], LABELS[0][:2], np.array(6), np.array(2)), label="unbatched", order=1),
    Sample(_F + "ctc_loss", (LOGS, LABELS - 1, *LENGTHS, 3), label="blank", order=1),
    Sample(_F + "ctc_loss", (LOGS, LABELS, *LENGTHS, 2), label="blank-among-labels", order=1),
    Sample("ctc_loss", (LOGS, LABELS, *LENGTHS), order=1),
]

SAMPLES = [*ALIGNMENT, *REGRESSION, *CLASSIFICATION, *MARGINS, *DISTANCES]
