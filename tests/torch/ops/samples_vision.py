"""Samples of ``torch.nn.functional``: sliding blocks, resampling, sampling at points, shuffling."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

_F = "nn.functional."

BYTES = integers(1, 3, 4, 5, high=256, dtype="uint8")
LINE, IMAGE, VOLUME = normal(2, 3, 5), normal(2, 4, 4, 6), normal(1, 2, 3, 4, 3)
PLACES = np.array([[[[0, 3], [10, 15]], [[1, 2], [8, 13]]]])

BLOCKS: list[Sample] = [
    Sample(_F + "unfold", (IMAGE, 2)),
    Sample(_F + "unfold", (IMAGE, (2, 3)), {"dilation": (2, 1), "padding": 1, "stride": (1, 2)}, "settings"),
    Sample(_F + "unfold", (normal(3, 4, 4), 2), label="unbatched"),
    Sample(_F + "unfold", (IMAGE, 9), label="too-small"),
    Sample(_F + "unfold", (IMAGE, (2, 2, 2)), label="three"),
    Sample(_F + "unfold", (IMAGE, 2), {"stride": 0}, label="stride-0"),
    Sample(_F + "unfold", (integers(1, 1, 4, 4), 2), label="integers"),
    Sample(_F + "fold", (normal(2, 12, 4), (3, 3), 2)),
    Sample(_F + "fold", (normal(2, 12, 12), (4, 5), (2, 2)), {"padding": (0, 1), "dilation": (2, 1)}, "settings"),
    Sample(_F + "fold", (normal(12, 4), (3, 3), 2), label="unbatched"),
    Sample(_F + "fold", (normal(2, 12, 5), (3, 3), 2), label="blocks"),
    Sample(_F + "fold", (normal(2, 11, 4), (3, 3), 2), label="channels"),
    Sample(_F + "max_unpool1d", (normal(1, 2, 2), np.array([[[0, 3], [1, 2]]]), 2)),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), PLACES, 2)),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), PLACES // 8, 2), label="one-place-for-several"),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), PLACES, 2), {"output_size": (5, 5)}, "size"),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), PLACES, 2), {"output_size": (9, 9)}, "wrong-size"),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), np.full((1, 2, 2, 2), 20), 2), label="out-of-range"),
    Sample(_F + "max_unpool2d", (normal(1, 2, 2, 2), PLACES.astype("int32"), 2), label="index-type"),
    Sample(_F + "max_unpool3d", (normal(1, 1, 1, 2, 2), np.array([[[[[0, 3], [10, 15]]]]]), 2)),
]

RESAMPLING: list[Sample] = [
    *[
        Sample(_F + "interpolate", (x,), {"mode": mode, **named}, f"{mode}-{x.ndim - 2}d-{label}")
        for mode, given in [
            ("nearest", (LINE, IMAGE, VOLUME)),
            ("nearest-exact", (LINE, IMAGE, VOLUME)),
            ("area", (LINE, IMAGE, VOLUME)),
            ("linear", (LINE,)),
            ("bilinear", (IMAGE,)),
            ("bicubic", (IMAGE,)),
            ("trilinear", (VOLUME,)),
        ]
        for x in given
        for label, named in [
            ("factor", {"scale_factor": 1.7}),
            ("size", {"size": [7, 3, 5][: x.ndim - 2]}),
            *(
                [("corners", {"size": [3, 1, 7][: x.ndim - 2], "align_corners": True})]
                if "linear" in mode or "cub" in mode
                else []
            ),
        ]
    ],
    Sample(
        _F + "interpolate",
        (IMAGE,),
        {"scale_factor": 2.3, "recompute_scale_factor": True, "mode": "bilinear"},
        "recompute",
    ),
    *[
        Sample(
            _F + "interpolate",
            (IMAGE,),
            {"size": size, "mode": mode, "antialias": True},
            f"antialias-{mode}-{size}",
            order=1,
        )
        for mode in ("bilinear", "bicubic", "lanczos")
        for size in ((2, 3), (7, 9))
    ],
    Sample(_F + "interpolate", (IMAGE.astype("float32"),), {"scale_factor": 1.3, "mode": "bilinear"}, "single"),
    *[
        Sample(
            _F + "interpolate",
            (BYTES, size),
            {"mode": mode, "align_corners": corners, "antialias": antialias},
            f"bytes-{mode}-{size}-{corners}-{antialias}",
        )
        for mode in ("bilinear", "bicubic")
        for size in ((2, 9), (7, 3))
        for corners in (True, False)
        for antialias in (True, False)
    ],
    Sample(_F + "interpolate", (BYTES,), {"size": (9, 3), "mode": "lanczos", "antialias": True}, "bytes-lanczos"),
    Sample(_F + "interpolate", (BYTES[0], 3), {"mode": "linear"}, "bytes-linear"),
    Sample(_F + "interpolate", (IMAGE,), label="neither"),
    Sample(_F + "interpolate", (IMAGE, 3, 2.0), label="both"),
    Sample(_F + "interpolate", (IMAGE, (3, 3, 3)), label="sizes"),
    Sample(_F + "interpolate", (IMAGE,), {"scale_factor": (2.0,)}, label="factors"),
    Sample(_F + "interpolate", (IMAGE, 3), {"mode": "linear"}, label="rank"),
    Sample(_F + "interpolate", (IMAGE, 3), {"mode": "other"}, label="mode"),
    Sample(_F + "interpolate", (IMAGE, 3), {"align_corners": True}, label="corners"),
    Sample(_F + "interpolate", (LINE, 3), {"mode": "linear", "antialias": True}, label="antialias"),
    Sample(_F + "interpolate", (IMAGE, 0), label="no-size"),
    Sample(_F + "upsample", (LINE, 3), label="old"),
    Sample(_F + "upsample_nearest", (IMAGE,), {"scale_factor": 2}),
    Sample(_F + "upsample_bilinear", (IMAGE, 5)),
]

GRID = normal(2, 3, 4, 2) * 0.9

SAMPLING: list[Sample] = [
    *[
        Sample(
            _F + "grid_sample", (IMAGE, GRID, mode, padding, corners), label=f"{mode}-{padding}-{corners}", order=order
        )
        for mode, order in (("bilinear", 2), ("nearest", 1), ("bicubic", 1))
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    ],
    *[
        Sample(
            _F + "grid_sample",
            (VOLUME, normal(1, 2, 2, 3, 3), mode, padding, False),
            label=f"3d-{mode}-{padding}",
            order=1,
        )
        for mode, padding in [("bilinear", "zeros"), ("bilinear", "reflection"), ("nearest", "border")]
    ],
    Sample(_F + "grid_sample", (IMAGE, GRID, "other"), label="mode"),
    Sample(_F + "grid_sample", (IMAGE, GRID, "nearest", "other"), label="padding"),
    Sample(_F + "grid_sample", (IMAGE, normal(3, 3, 4, 2)), label="batch"),
    Sample(_F + "grid_sample", (IMAGE, normal(2, 3, 4, 3)), label="last-axis"),
    Sample(_F + "grid_sample", (IMAGE, normal(2, 3, 2)), label="rank"),
    Sample(_F + "affine_grid", (normal(2, 2, 3), (2, 3, 4, 5)), {"align_corners": False}),
    Sample(_F + "affine_grid", (normal(2, 2, 3), (2, 3, 4, 1)), {"align_corners": True}, "corners"),
    Sample(_F + "affine_grid", (normal(2, 3, 4), (2, 3, 2, 3, 2)), {"align_corners": False}, "3d"),
    Sample(_F + "affine_grid", (normal(2, 2, 4), (2, 3, 4, 5)), label="shape"),
    Sample(_F + "affine_grid", (normal(2, 2, 3), (2, 3)), label="size"),
    Sample("affine_grid_generator", (normal(2, 2, 3), (2, 3, 4, 5), False)),
    Sample("grid_sampler", (IMAGE, GRID, 0, 0, False)),
]

SHUFFLING: list[Sample] = [
    Sample(_F + "pixel_shuffle", (normal(2, 8, 2, 3), 2)),
    Sample(_F + "pixel_shuffle", (normal(4, 2, 3), 2), label="unbatched"),
    Sample(_F + "pixel_shuffle", (normal(2, 6, 2, 3), 2), label="channels"),
    Sample(_F + "pixel_shuffle", (normal(2, 3), 2), label="rank"),
    Sample(_F + "pixel_unshuffle", (normal(2, 3, 4, 6), 2)),
    Sample(_F + "pixel_unshuffle", (normal(2, 3, 4, 5), 2), label="width"),
    Sample(_F + "channel_shuffle", (normal(2, 6, 2, 2), 3)),
    Sample(_F + "channel_shuffle", (normal(2, 6, 2, 2), 4), label="groups"),
    Sample(_F + "native_channel_shuffle", (normal(2, 6, 2, 2), 3), order=0),
    Sample("pixel_shuffle", (normal(2, 8, 2, 3), 2)),
    Sample("pixel_unshuffle", (normal(2, 3, 4, 6), 2)),
    Sample("channel_shuffle", (normal(2, 6, 2, 2), 3)),
    Sample("native_channel_shuffle", (normal(2, 6, 2, 2), 3), order=0),
]

SAMPLES = [*BLOCKS, *RESAMPLING, *SAMPLING, *SHUFFLING]
