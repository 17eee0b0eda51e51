"""Samples of ``torch.nn.functional``: normalisation and dropout."""

import numpy as np

from tests.torch.ops.sample import Sample, normal, positive

_F = "nn.functional."

IMAGE, MEANS, VARIANCES, WEIGHT, BIAS = normal(3, 4, 3, 2), normal(4, seed=1), positive(4), normal(4), normal(4, seed=2)

BATCH: list[Sample] = [
    Sample(_F + "batch_norm", (IMAGE, MEANS, VARIANCES, WEIGHT, BIAS, True), label="training", frozen=(1, 2)),
    Sample(_F + "batch_norm", (IMAGE, MEANS, VARIANCES, WEIGHT, BIAS), label="evaluation", frozen=(1, 2)),
    Sample(_F + "batch_norm", (IMAGE, None, None, WEIGHT, BIAS, True), label="no-statistics"),
    Sample(_F + "batch_norm", (normal(4, 3), None, None), {"training": True}, "plain"),
    Sample(_F + "batch_norm", (normal(4, 3, dtype="float32"), None, None), {"training": True}, "single", order=1),
    Sample(_F + "batch_norm", (IMAGE, None, None), label="no-statistics-evaluation"),
    Sample(
        _F + "batch_norm", (normal(0, 3, 2), normal(3), positive(3), normal(3), normal(3)), label="empty", frozen=(1, 2)
    ),
    Sample(_F + "batch_norm", (normal(0), None, None), {"training": True}, "nothing"),
    Sample(_F + "batch_norm", (normal(2, 0, 3), normal(0), normal(0), normal(0)), label="no-channels", frozen=(1, 2)),
    Sample(_F + "batch_norm", (normal(1, 4), None, None), {"training": True}, "one-value"),
    Sample(_F + "batch_norm", (IMAGE, normal(3), positive(3)), label="channels", frozen=(1, 2)),
    Sample(_F + "batch_norm", (IMAGE, MEANS, None), {"training": True}, label="half-given", frozen=(1,)),
    Sample(_F + "batch_norm", (IMAGE, MEANS, VARIANCES), {"training": True}, label="statistics-require-grad"),
    Sample(_F + "batch_norm", (IMAGE, None, None), {"training": True, "eps": 0.0}, label="eps"),
    Sample(_F + "instance_norm", (IMAGE,)),
    Sample(_F + "instance_norm", (IMAGE, MEANS, VARIANCES, WEIGHT, BIAS), label="training", frozen=(1, 2)),
    Sample(_F + "instance_norm", (IMAGE, MEANS, VARIANCES, WEIGHT, BIAS, False), label="evaluation", frozen=(1, 2)),
    Sample(_F + "instance_norm", (normal(2, 4, 1),), label="one-element"),
    Sample(_F + "instance_norm", (IMAGE,), {"use_input_stats": False}, label="no-statistics"),
    Sample("batch_norm", (IMAGE, WEIGHT, BIAS, None, None, True, 0.1, 1e-5, False)),
    Sample("instance_norm", (IMAGE, WEIGHT, BIAS, None, None, True, 0.1, 1e-5, False)),
]

LAYER: list[Sample] = [
    Sample(_F + "layer_norm", (normal(3, 4), (4,), WEIGHT, BIAS)),
    Sample(_F + "layer_norm", (normal(3, 4), [4]), label="plain"),
    Sample(_F + "layer_norm", (normal(2, 3, 4), (3, 4), normal(3, 4)), label="two-axes"),
    Sample(_F + "layer_norm", (normal(0, 4), (4,)), label="empty"),
    Sample(_F + "layer_norm", (normal(3, 4, dtype="float16"), (4,)), label="half", order=1, tolerance=2e-3),
    Sample(_F + "layer_norm", (normal(3, 4), (5,)), label="mismatch"),
    Sample(_F + "layer_norm", (normal(3, 4), (4,), normal(5)), label="weight-mismatch"),
    Sample(_F + "layer_norm", (normal(3, 4), ()), label="no-axes"),
    Sample(_F + "layer_norm", (normal(3, 4), 4), label="number"),
    Sample(_F + "group_norm", (IMAGE, 2, WEIGHT, BIAS)),
    Sample(_F + "group_norm", (IMAGE, 4), label="plain"),
    Sample(_F + "group_norm", (IMAGE, 3), label="indivisible"),
    Sample(_F + "group_norm", (IMAGE, 2, normal(3)), label="weight-mismatch"),
    Sample(_F + "group_norm", (normal(4), 2), label="rank"),
    Sample(_F + "rms_norm", (normal(3, 4), (4,), WEIGHT)),
    Sample(_F + "rms_norm", (normal(2, 3, 4), (3, 4)), {"eps": 0.1}, "eps"),
    Sample(_F + "rms_norm", (normal(3, 4, dtype="float16"), (4,)), label="half", order=1, tolerance=2e-3, names=False),
    Sample(_F + "rms_norm", (normal(3, 4), (5,)), label="mismatch"),
    Sample(_F + "local_response_norm", (normal(2, 4, 3), 3)),
    Sample(_F + "local_response_norm", (IMAGE, 2, 0.1, 0.5, 2.0), label="image"),
    Sample(_F + "local_response_norm", (normal(2, 3), 2), label="rank"),
    Sample(_F + "normalize", (normal(3, 4),)),
    Sample(_F + "normalize", (normal(3, 4), 1.0, 0), label="p1"),
    Sample(_F + "normalize", (np.zeros((2, 3)),), label="zero", order=1),
    Sample("layer_norm", (normal(3, 4), (4,), WEIGHT, BIAS)),
    Sample("group_norm", (IMAGE, 2, WEIGHT, BIAS)),
    Sample("rms_norm", (normal(3, 4), (4,), WEIGHT)),
]

DROPOUT: list[Sample] = [
    *[
        Sample(_F + name, (x, *params), named, label, seeded=True)
        for name, x in [
            ("dropout", normal(3, 4)),
            ("alpha_dropout", normal(3, 4)),
            ("dropout1d", normal(2, 3, 4)),
            ("dropout2d", normal(2, 3, 4, 2)),
            ("dropout3d", normal(2, 3, 2, 2, 2)),
            ("feature_alpha_dropout", normal(2, 3, 4)),
        ]
        for params, named, label in [
            ((0.4, True), {}, "training"),
            ((0.4, False), {}, "evaluation"),
            ((0.0, True), {}, "never"),
            ((1.0, True), {}, "always"),
            ((1.5,), {}, "wrong"),
        ]
    ],
    Sample(_F + "dropout", (normal(20, dtype="float32"),), label="single", seeded=True),
    Sample(_F + "dropout", (normal(20, dtype="float16"),), label="half", seeded=True, order=1, tolerance=1e-3),
    Sample(_F + "alpha_dropout", (normal(20, dtype="float32"), 0.3, True), label="single", seeded=True),
    Sample(_F + "dropout", (np.array([1, 2]),), label="integers", seeded=True),
    Sample(_F + "dropout1d", (normal(3),), label="rank", seeded=True),
    Sample(_F + "dropout1d", (normal(3, 4),), label="unbatched", seeded=True),
    Sample("dropout", (normal(3, 4), 0.5, True), seeded=True),
    Sample("alpha_dropout", (normal(3, 4), 0.5, True), seeded=True),
    Sample("feature_dropout", (normal(3, 4), 0.5, True), seeded=True),
    Sample("feature_alpha_dropout", (normal(3, 4), 0.5, True), seeded=True),
]

SAMPLES = [*BATCH, *LAYER, *DROPOUT]
