"""Samples of ``torch.nn.functional``: linear maps, convolutions and padding."""

import numpy as np

from tests.torch.ops.sample import Sample, integers, normal

_F = "nn.functional."

LINEAR: list[Sample] = [
    Sample(_F + "linear", (normal(3, 4), normal(5, 4), normal(5))),
    Sample(_F + "linear", (normal(3, 4), normal(5, 4)), label="no-bias"),
    Sample(_F + "linear", (normal(2, 3, 4), normal(5, 4), normal(5)), label="3d"),
    Sample(_F + "linear", (normal(2, 3, 4), normal(5, 4)), label="3d-no-bias"),
    Sample(_F + "linear", (normal(4), normal(5, 4), normal(5)), label="1d"),
    Sample(_F + "linear", (normal(4), normal(5, 4)), label="1d-no-bias"),
    Sample(_F + "linear", (normal(3, 4), normal(4)), label="vector"),
    Sample(_F + "linear", (normal(4), normal(4)), label="vectors"),
    Sample(_F + "linear", (normal(0, 4), normal(5, 4), normal(5)), label="empty"),
    Sample(_F + "linear", (normal(3, 4), normal(5, 4), normal(3, 5)), label="bias-of-rows"),
    Sample(_F + "linear", (normal(3, 4), normal(5, 3)), label="mismatch"),
    Sample(_F + "linear", (normal(3, 4), normal(5, 4), normal(4)), label="bias-mismatch"),
    Sample(_F + "linear", (normal(3, 4, dtype="float32"), normal(5, 4, dtype="float32")), label="single"),
    Sample(_F + "bilinear", (normal(3, 4), normal(3, 5), normal(6, 4, 5), normal(6))),
    Sample(_F + "bilinear", (normal(2, 3, 4), normal(2, 3, 5), normal(6, 4, 5)), label="no-bias"),
    Sample(_F + "bilinear", (normal(3, 4), normal(3, 5), normal(6, 4, 4)), label="mismatch"),
    Sample(_F + "bilinear", (normal(3, 4), normal(2, 5), normal(6, 4, 5)), label="batch-mismatch"),
    Sample(_F + "bilinear", (normal(3, 4), normal(3, 5), normal(6, 4, 5), normal(5)), label="bias-mismatch"),
    Sample("bilinear", (normal(3, 4), normal(3, 5), normal(6, 4, 5))),
]

IMAGE, KERNEL, BIAS = normal(2, 4, 5, 6), normal(3, 4, 2, 3), normal(3)

CONVOLUTION: list[Sample] = [
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS)),
    Sample(_F + "conv2d", (IMAGE, KERNEL), label="no-bias"),
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS), {"stride": 2, "padding": 1}, "stride"),
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS), {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}, "pairs"),
    Sample(_F + "conv2d", (IMAGE, normal(6, 2, 2, 2), normal(6)), {"groups": 2}, "groups"),
    Sample(_F + "conv2d", (IMAGE, normal(4, 1, 2, 2)), {"groups": 4}, "depthwise"),
    Sample(_F + "conv2d", (IMAGE, normal(8, 1, 2, 3)), {"groups": 4, "stride": (2, 1), "padding": 1}, "depthwise-2"),
    Sample(_F + "conv2d", (IMAGE, normal(4, 2, 2, 3)), {"groups": 2, "dilation": (1, 2), "padding": 1}, "groups-far"),
    Sample(_F + "conv2d", (IMAGE, normal(3, 4, 3, 3), BIAS), {"padding": "same"}, "same"),
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS), {"padding": "valid"}, "valid"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"padding": "same", "stride": 2}, "same-strided"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"padding": "other"}, "wrong-padding"),
    Sample(_F + "conv2d", (normal(4, 5, 6), KERNEL, BIAS), label="unbatched"),
    Sample(_F + "conv2d", (normal(0, 4, 5, 6), KERNEL, BIAS), label="empty"),
    Sample(_F + "conv2d", (normal(2, 4, 5, 5, dtype="float32"), normal(3, 4, 2, 2, dtype="float32")), label="single"),
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS), label="frozen-weight", frozen=(1,)),
    Sample(_F + "conv2d", (IMAGE, KERNEL, BIAS), label="frozen-input", frozen=(0,)),
    Sample(_F + "conv2d", (normal(2, 5, 6, 6), KERNEL), label="channels"),
    Sample(_F + "conv2d", (normal(2, 3), KERNEL), label="rank"),
    Sample(_F + "conv2d", (IMAGE, KERNEL, normal(4)), label="bias-mismatch"),
    Sample(_F + "conv2d", (normal(2, 4, 1, 2), KERNEL), label="too-small"),
    Sample(_F + "conv2d", (IMAGE, normal(3, 4, 2, 3, dtype="float32")), label="types"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"stride": 0}, "stride-0"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"padding": (1, 1, 1)}, "three-paddings"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"groups": 2}, "groups-mismatch"),
    Sample(_F + "conv1d", (normal(2, 3, 7), normal(4, 3, 3), normal(4)), {"stride": 2, "dilation": 2}),
    *[
        Sample(_F + name, args, {}, f"types-{i}")
        for i, (name, args) in enumerate(
            (
                ("conv2d", (IMAGE, normal(3, 4, 2, 3, dtype="float32"), normal(3, dtype="float32"))),
                ("conv2d", (normal(1, 4, 5, 6, dtype="float32"), KERNEL)),
                ("conv2d", (normal(2, 4, 5, 6, dtype="float32"), KERNEL)),
                ("conv2d", (normal(1, 4, 5, 6, dtype="float16"), KERNEL)),
                ("conv2d", (normal(2, 4, 5, 6, dtype="complex64"), KERNEL)),
                ("conv2d", (normal(2, 4, 5, 6, dtype="complex128"), KERNEL, BIAS)),
                ("conv_transpose2d", (normal(1, 4, 3, 3, dtype="float32"), normal(4, 3, 2, 2), BIAS)),
                ("conv_transpose2d", (normal(2, 4, 3, 3, dtype="float32"), normal(4, 3, 2, 2), BIAS)),
            )
        )
    ],
    *[
        Sample(_F + name, (normal(2, 4, 5, 6), weight, None), {"padding": padding}, f"ranks-{i}-{padding}")
        for i, weight in enumerate((normal(3, 4, 2), normal(3, 4, 2, 2, 2)))
        for name, padding in (("conv2d", "same"), ("conv2d", 1), ("conv_transpose2d", 0))
    ],
    Sample(_F + "conv1d", (normal(2, 3, 7), normal(4, 3, 3, 3)), label="ranks"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"dilation": -1}, "dilation"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"dilation": -1, "padding": "same"}, "same-dilation"),
    Sample(_F + "conv2d", (IMAGE, KERNEL), {"dilation": (1, 1, 1), "padding": "same"}, "same-three-dilations"),
    Sample(
        _F + "conv1d",
        (normal(2, 4, 7, dtype="complex128"), normal(6, 2, 3, dtype="complex128"), normal(6, dtype="complex128")),
        {"stride": 2, "groups": 2},
        "complex",
    ),
    Sample(
        _F + "conv_transpose1d",
        (normal(2, 3, 4, dtype="complex64"), normal(3, 5, 3, dtype="complex64")),
        {"padding": 1},
        "complex",
        order=1,
    ),
    Sample(_F + "conv_transpose1d", (normal(2, 3, 4), normal(3, 5, 3)), {"output_padding": -1}, "negative"),
    Sample(_F + "conv1d", (normal(3, 7), normal(4, 3, 3)), label="unbatched"),
    Sample(_F + "conv1d", (normal(2, 3, 7), normal(4, 3, 3)), {"padding": "same"}, label="same"),
    Sample(_F + "conv3d", (normal(1, 2, 3, 4, 4), normal(3, 2, 2, 2, 2), normal(3)), {"padding": 1}),
    Sample(_F + "conv3d", (normal(2, 3, 4, 4), normal(3, 2, 2, 2, 2)), label="unbatched"),
    Sample(_F + "conv_transpose1d", (normal(2, 3, 4), normal(3, 5, 3), normal(5)), {"stride": 2, "padding": 1}),
    Sample(_F + "conv_transpose2d", (normal(2, 4, 3, 3), normal(4, 3, 2, 3), BIAS)),
    Sample(
        _F + "conv_transpose2d",
        (normal(2, 4, 3, 3), normal(4, 3, 3, 2)),
        {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "dilation": (1, 2)},
        "pairs",
    ),
    Sample(_F + "conv_transpose2d", (normal(2, 4, 3, 3), normal(4, 3, 2, 2), normal(6)), {"groups": 2}, "groups"),
    Sample(_F + "conv_transpose2d", (normal(4, 3, 3), normal(4, 3, 2, 2)), label="unbatched"),
    Sample(_F + "conv_transpose2d", (normal(2, 4, 3, 3), normal(4, 3, 2, 2)), {"output_padding": 1}, "wrong-output"),
    Sample(_F + "conv_transpose2d", (normal(2, 4, 3, 3), normal(3, 3, 2, 2)), label="channels"),
    Sample(_F + "conv_transpose3d", (normal(1, 2, 2, 3, 2), normal(2, 3, 2, 2, 2), normal(3)), {"stride": 2}),
    Sample(_F + "conv_tbc", (normal(5, 2, 3), normal(2, 3, 4), normal(4)), {"pad": 1}),
    Sample("conv2d", (IMAGE, KERNEL)),
    Sample("conv1d", (normal(2, 3, 7), normal(4, 3, 3))),
    Sample("conv3d", (normal(1, 2, 3, 3, 3), normal(3, 2, 2, 2, 2))),
    Sample("conv_transpose1d", (normal(2, 3, 4), normal(3, 5, 3))),
    Sample("conv_transpose2d", (normal(2, 4, 3, 3), normal(4, 3, 2, 3))),
    Sample("conv_transpose3d", (normal(1, 2, 2, 3, 2), normal(2, 3, 2, 2, 2))),
    Sample("conv_tbc", (normal(5, 2, 3), normal(2, 3, 4), normal(4))),
]

PADDING: list[Sample] = [
    Sample(_F + "pad", (normal(2, 3), (1, 2))),
    Sample(_F + "pad", (normal(2, 3), (1, 2, 0, 1)), {"value": 3.5}, "value"),
    Sample(_F + "pad", (normal(2, 3), (-1, 2, 1, -1)), label="negative"),
    Sample(_F + "pad", (normal(2, 3), ()), label="none"),
    Sample(_F + "pad", (integers(2, 3), (1, 1)), {"value": 2.5}, "integers"),
    Sample(_F + "pad", (np.array([True, False]), (1, 1)), {"value": 1}, "bool"),
    Sample(_F + "pad", (normal(2, 3), (1,)), label="odd"),
    Sample(_F + "pad", (normal(3), (1, 1, 1, 1)), label="too-many"),
    Sample(_F + "pad", (normal(3), (-2, -2)), label="too-negative"),
    Sample(_F + "pad", (normal(2, 3), (1, 1), "other"), label="wrong-mode"),
    Sample(_F + "pad", (normal(2, 3), (1, 1), "reflect", 1.0), label="value-not-taken"),
    *[
        Sample(_F + "pad", (x, pairs, mode), label=f"{mode}-{len(pairs) // 2}d-{x.ndim}")
        for mode in ("reflect", "replicate", "circular")
        for x, pairs in [
            (normal(2, 3, 5), (1, 2)),
            (normal(3, 5), (2, 0)),
            (normal(2, 3, 5), (-1, 2)),
            (normal(2, 3, 4, 4), (1, 0, 2, 1)),
            (normal(3, 4, 4), (1, 1, 1, 1)),
            (normal(1, 2, 3, 3, 3), (1, 1, 0, 1, 1, 0)),
            (normal(2, 3, 5), (6, 1)),
            (normal(2, 3, 5), (-3, -3)),
            (normal(2, 3, 4, 4), (1, 1)),
            (normal(2, 0, 4), (1, 1)),
        ]
    ],
    Sample("constant_pad_nd", (normal(2, 3), (1, 2), 1.5)),
]

SAMPLES = [*LINEAR, *CONVOLUTION, *PADDING]
