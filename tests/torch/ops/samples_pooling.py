"""Samples of ``torch.nn.functional``: pooling and sliding blocks."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal, positive

_F = "nn.functional."

LINE, IMAGE, VOLUME = normal(2, 3, 7), normal(2, 3, 6, 5), normal(1, 2, 4, 5, 4)
TIES = np.array(
    [[[[1.0, 1.0, 2.0, 0.0], [1.0, 1.0, 2.0, 2.0], [np.nan, 0.0, -np.inf, -np.inf], [np.nan, 1.0] + [-np.inf] * 2]]]
)

MAXIMUM: list[Sample] = [
    Sample(_F + "max_pool1d", (LINE, 2)),
    Sample(_F + "max_pool1d", (LINE, 3, 2, 1), {"return_indices": True}, "indices"),
    Sample(_F + "max_pool1d", (normal(3, 7), 2), {"ceil_mode": True}, "unbatched"),
    Sample(_F + "max_pool1d", (LINE, 9), label="too-small"),
    Sample(_F + "max_pool1d", (normal(3), 2), label="rank"),
    Sample(_F + "max_pool1d", (LINE, 2), {"padding": 2}, "padding"),
    Sample(_F + "max_pool2d", (IMAGE, 2)),
    Sample(_F + "max_pool2d", (IMAGE, (3, 2), (2, 1), (1, 0)), {"return_indices": True}, "pairs"),
    Sample(_F + "max_pool2d", (IMAGE, 2), {"dilation": 2, "ceil_mode": True, "stride": 2, "padding": 1}, "dilation"),
    Sample(_F + "max_pool2d", (normal(3, 4, 4), 2), label="unbatched"),
    Sample(_F + "max_pool2d", (TIES, 2), {"return_indices": True}, "ties", order=1),
    Sample(_F + "max_pool2d", (TIES, 2, 1), {"return_indices": True}, "ties-overlapping", order=1),
    Sample(_F + "max_pool2d", (IMAGE, 3, 1), {"return_indices": True}, "overlapping"),
    Sample(_F + "max_pool2d", (IMAGE, 2, 1, 0, 2), {"return_indices": True}, "dilated"),
    Sample(_F + "max_pool2d", (TIES, 2, 2, 1), {"return_indices": True}, "ties-padded", order=1),
    Sample(_F + "max_pool2d", (normal(0, 3, 4, 4), 2), label="empty"),
    Sample(_F + "max_pool2d", (integers(1, 2, 4, 4), 2), label="integers"),
    Sample(_F + "max_pool2d", (normal(1, 1, 4, 4, dtype="float16"), 2), label="half", order=1),
    Sample(_F + "max_pool2d", (normal(3, 3), 2), label="rank"),
    Sample(_F + "max_pool2d", (IMAGE, (2, 2, 2)), label="kernel"),
    Sample(_F + "max_pool2d", (IMAGE, 2), {"padding": 2}, "padding"),
    Sample(_F + "max_pool2d", (IMAGE, 9), label="too-small"),
    Sample(_F + "max_pool2d", (IMAGE, 2), {"stride": 0}, "stride-0"),
    Sample(_F + "max_pool1d", (LINE, 3, 1, 2, 2), label="padding-dilation"),
    *[
        Sample(_F + "max_pool1d", (LINE, *rest), {"return_indices": True}, f"refused-{i}")
        for i, rest in enumerate(
            ((3, 1, 2, 2), (3, 0), (3, 1, -1), (3, 1, 3, 2), (9,), ((1, 2),), (2, (1, 2)), (3, 1, 1, 0))
        )
    ],
    Sample(_F + "max_pool1d", (LINE, 2, (1, 2)), label="strides"),
    Sample(_F + "max_pool2d", (IMAGE, (3, 1), 1, (2, 0), (2, 1)), label="padding-dilation"),
    Sample(_F + "max_pool2d", (IMAGE, 2), {"stride": -1}, "stride-negative"),
    Sample(_F + "max_pool3d", (VOLUME, (3, 1, 1), 1, (2, 0, 0), (2, 1, 1)), label="padding-dilation"),
    Sample(_F + "max_pool3d", (normal(2, 1, 0, 1, 2), 1), label="empty"),
    Sample(_F + "max_pool3d", (VOLUME, 2)),
    Sample(_F + "max_pool3d", (VOLUME, (2, 3, 2), 1), {"padding": (1, 0, 1), "return_indices": True}, "triples"),
    Sample(_F + "max_pool2d_with_indices", (IMAGE, 2)),
    Sample(_F + "max_pool1d_with_indices", (LINE, 2)),
    Sample(_F + "max_pool3d_with_indices", (VOLUME, 2)),
    Sample("max_pool2d", (IMAGE, 2)),
    Sample("max_pool1d", (LINE, 2)),
    Sample("max_pool3d", (VOLUME, 2)),
    Sample("max_pool1d_with_indices", (LINE, 2)),
]

MEAN: list[Sample] = [
    Sample(_F + "avg_pool1d", (LINE, 2)),
    Sample(_F + "avg_pool1d", (LINE, 3, 2, 1), {"count_include_pad": False, "ceil_mode": True}, "settings"),
    Sample(_F + "avg_pool1d", (normal(3, 6), 2), label="unbatched"),
    Sample(_F + "avg_pool1d", (normal(3), 2), label="rank"),
    Sample(_F + "avg_pool2d", (IMAGE, 2)),
    Sample(_F + "avg_pool2d", (IMAGE, (3, 2), (2, 1), (1, 1)), {"count_include_pad": False}, "uncounted"),
    Sample(_F + "avg_pool2d", (IMAGE, 3, 2, 1), {"ceil_mode": True}, "ceil"),
    Sample(_F + "avg_pool2d", (IMAGE, 2), {"divisor_override": 3}, "divisor"),
    Sample(_F + "avg_pool2d", (normal(3, 4, 4), 2), label="unbatched"),
    Sample(_F + "avg_pool2d", (integers(1, 2, 4, 4), 2), label="integers"),
    Sample(_F + "avg_pool2d", (normal(0, 3, 4, 4), 2), label="empty"),
    Sample(_F + "avg_pool2d", (IMAGE, 2), {"divisor_override": 0}, "divisor-0"),
    Sample(_F + "avg_pool2d", (IMAGE, 9), label="too-small"),
    Sample(_F + "avg_pool3d", (VOLUME, 2)),
    Sample(_F + "avg_pool3d", (VOLUME, 3, 2, 1), {"count_include_pad": False}, "uncounted"),
    Sample("avg_pool1d", (LINE, 2)),
    Sample(_F + "lp_pool1d", (LINE, 3, 2)),
    Sample(_F + "lp_pool2d", (IMAGE, 2, 2), {"stride": 1}),
    Sample(_F + "lp_pool2d", (IMAGE, float("inf"), 2), label="inf"),
    Sample(_F + "lp_pool2d", (IMAGE, -float("inf"), 2), label="-inf"),
    Sample(_F + "lp_pool3d", (VOLUME, 2, 2)),
]

ADAPTIVE: list[Sample] = [
    Sample(_F + "adaptive_avg_pool1d", (LINE, 3)),
    Sample(_F + "adaptive_avg_pool1d", (normal(3, 7), 1), label="one"),
    Sample(_F + "adaptive_avg_pool1d", (IMAGE, 1), label="rank"),
    Sample(_F + "adaptive_avg_pool2d", (IMAGE, (4, 2))),
    Sample(_F + "adaptive_avg_pool2d", (IMAGE, 1), label="one"),
    Sample(_F + "adaptive_avg_pool2d", (normal(3, 4), 1), label="one-without-channels"),
    Sample(_F + "adaptive_avg_pool2d", (normal(1, 2, 0, 3), 1), label="one-empty"),
    Sample(_F + "adaptive_avg_pool2d", (IMAGE, (None, 7)), label="none"),
    Sample(_F + "adaptive_avg_pool2d", (normal(3, 4, 4), 2), label="unbatched"),
    Sample(_F + "adaptive_avg_pool2d", (normal(3, 3), 2), label="rank"),
    Sample(_F + "adaptive_avg_pool2d", (normal(2, 3, 0, 3), 2), label="no-elements"),
    Sample(_F + "adaptive_avg_pool2d", (IMAGE, (2, 2, 2)), label="three-sizes"),
    Sample(_F + "adaptive_avg_pool3d", (VOLUME, (2, 3, 1))),
    Sample(_F + "adaptive_max_pool1d", (LINE, 3), {"return_indices": True}),
    *[
        Sample(_F + f"adaptive_{kind}_pool{array.ndim - 2}d", (array, sizes), label=f"refused-{i}")
        for kind in ("avg", "max")
        for i, (array, sizes) in enumerate(
            (
                (LINE, (-1,)),
                (IMAGE, (-1, 2)),
                (IMAGE, (1, 2, 3)),
                (IMAGE, (1, 2, 3, 4)),
                (VOLUME, (2, 0, -3)),
                (VOLUME, ()),
            )
        )
    ],
    Sample(_F + "adaptive_max_pool2d", (IMAGE, (4, 2)), {"return_indices": True}),
    Sample(_F + "adaptive_max_pool2d", (IMAGE, 1), label="one"),
    Sample(_F + "adaptive_max_pool2d", (normal(3, 3), 2), label="rank"),
    Sample(_F + "adaptive_max_pool3d", (VOLUME, (2, 3, 1))),
    Sample(_F + "adaptive_max_pool1d_with_indices", (LINE, 3)),
    Sample(_F + "adaptive_max_pool2d_with_indices", (IMAGE, 2)),
    Sample(_F + "adaptive_max_pool3d_with_indices", (VOLUME, 2)),
    Sample("adaptive_avg_pool1d", (LINE, 3)),
    Sample("adaptive_max_pool1d", (LINE, 3)),
]

SPREAD, SPREAD_3D = positive(2, 3, 2) * 0.9, positive(1, 2, 3) * 0.9

FRACTIONAL: list[Sample] = [
    Sample(
        _F + "fractional_max_pool2d",
        (IMAGE, 2, (4, 3)),
        {"_random_samples": SPREAD, "return_indices": True},
        frozen=(1,),
    ),
    Sample(_F + "fractional_max_pool2d", (IMAGE, (2, 1)), {"output_ratio": (0.5, 0.7)}, "drawn", seeded=True),
    Sample(_F + "fractional_max_pool2d", (normal(3, 6, 6), 2, 1), label="one", seeded=True),
    Sample(_F + "fractional_max_pool2d", (IMAGE, 2), label="neither"),
    Sample(_F + "fractional_max_pool3d", (VOLUME, 2, (2, 3, 2)), {"_random_samples": SPREAD_3D}, frozen=(1,)),
    Sample(_F + "fractional_max_pool2d_with_indices", (IMAGE, 2, 3), seeded=True),
    Sample(_F + "fractional_max_pool3d_with_indices", (VOLUME, 2, 2), seeded=True),
    Sample(
        _F + "fractional_max_pool3d",
        (normal(2, 4, 5, 4), 2, 2),
        {"_random_samples": positive(3, 2, 3) - 0.1},
        "unbatched with several samples",
        frozen=(1,),
    ),
]

SAMPLES = [*MAXIMUM, *MEAN, *ADAPTIVE, *FRACTIONAL]
