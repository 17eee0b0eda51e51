"""Numbers, histograms, images, texts and hyperparameters as TensorBoard's messages."""

import importlib
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types import dtypes

_messages = importlib.import_module("tensorboard.compat.proto.summary_pb2")
_tensors = importlib.import_module("tensorboard.compat.proto.tensor_pb2")
_shapes = importlib.import_module("tensorboard.compat.proto.tensor_shape_pb2")
_texts = importlib.import_module("tensorboard.plugins.text.plugin_data_pb2")
_hyperparameters = importlib.import_module("tensorboard.plugins.hparams.api_pb2")
_hyperparameter_data = importlib.import_module("tensorboard.plugins.hparams.plugin_data_pb2")
_hyperparameter_tags = importlib.import_module("tensorboard.plugins.hparams.metadata")


def array(x: Any) -> np.ndarray:
    """A tensor, array or number as an array."""
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        return (x.half() if x._type.dtype is dtypes.bfloat16 else x).numpy(force=True)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def _summary(**value: Any) -> Any:
    return _messages.Summary(value=[_messages.Summary.Value(**value)])


def _of_plugin(name: str, content: bytes = b"") -> Any:
    data = _messages.SummaryMetadata.PluginData(plugin_name=name, content=content)
    return _messages.SummaryMetadata(plugin_data=data)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number, as a number or, in the new style, as a tensor."""
    numbers = array(value).squeeze()
    if numbers.ndim:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions).             Was given size: {numbers.size} and "
            f"{numbers.ndim} dimensions."
        )
    number = float(numbers)
    if not new_style:
        return _summary(tag=tag, simple_value=number)
    kept = {"double_val": [number], "dtype": "DT_DOUBLE"} if double_precision else {"float_val": [number]}
    return _summary(
        tag=tag, tensor=_tensors.TensorProto(**{"dtype": "DT_FLOAT", **kept}), metadata=_of_plugin("scalars")
    )


def histogram_of_counts(tag: str, **fields: Any) -> Any:
    """A histogram that has been counted."""
    return _summary(tag=tag, histo=_messages.HistogramProto(**fields))


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None) -> Any:
    """The counts of values in bins, from the first to the last that is not empty, with the bin before."""
    numbers = array(values).astype(float).reshape(-1)
    if not numbers.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(numbers, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(-1)
        limits = np.concatenate([limits[:-1:step], limits[-1:]])
    full = np.flatnonzero(counts)
    if not full.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = int(full[0]), int(full[-1]) + 1
    counts = counts[first - 1 : last] if first else np.concatenate([[0], counts[:last]])
    return histogram_of_counts(
        tag,
        min=numbers.min(),
        max=numbers.max(),
        num=len(numbers),
        sum=numbers.sum(),
        sum_squares=numbers.dot(numbers),
        bucket_limit=limits[first : last + 1].tolist(),
        bucket=counts.tolist(),
    )


def image(tag: str, tensor: Any, dataformats: str) -> Any:
    """An image, or a batch of them as a grid: numbers between 0 and 1, or bytes."""
    pixels = _rows_of_pixels(array(tensor), dataformats.upper())
    scale = 1 if pixels.dtype == np.uint8 else 255
    pixels = (pixels.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)
    height, width, channels = pixels.shape
    stream = io.BytesIO()
    importlib.import_module("PIL.Image").fromarray(pixels).save(stream, format="PNG")
    encoded = _messages.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=stream.getvalue()
    )
    return _summary(tag=tag, image=encoded)


def _rows_of_pixels(pixels: np.ndarray, axes: str) -> np.ndarray:
    """An image as rows of pixels with three or four channels."""
    if len(set(axes)) != len(axes):
        raise AssertionError(f"You can not use the same dimension shorthand twice.             input_format: {axes}")
    if pixels.ndim != len(axes):
        raise AssertionError(
            "size of input tensor and input format are different.         "
            f"tensor shape: {pixels.shape}, input_format: {axes}"
        )
    if len(axes) == 2:
        pixels, axes = pixels[..., None], f"{axes}C"
    order = "NHWC" if len(axes) == 4 else "HWC"
    pixels = pixels.transpose([axes.index(axis) for axis in order])
    if pixels.shape[-1] == 1:
        pixels = np.repeat(pixels, 3, -1)
    return _grid(pixels) if len(axes) == 4 else pixels


def _grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """Images side by side, so many in a row."""
    count, height, width, channels = images.shape
    columns = min(count, columns)
    rows = math.ceil(count / columns)
    filled = np.concatenate([images, np.zeros((rows * columns - count, *images.shape[1:]), images.dtype)])
    laid = filled.reshape(rows, columns, height, width, channels).transpose(0, 2, 1, 3, 4)
    return laid.reshape(rows * height, columns * width, channels)


def figures(figure: Any, close: bool) -> tuple[np.ndarray, str]:
    """Figures of matplotlib as images, and the order of their axes."""
    if isinstance(figure, list):
        return np.stack([figures(each, close)[0] for each in figure]), "NHWC"
    canvas = importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())[:, :, :3]
    if close:
        importlib.import_module("matplotlib.pyplot").close(figure)
    return pixels, "HWC"


def text(tag: str, string: str) -> Any:
    """A text in Markdown."""
    tensor = _tensors.TensorProto(
        dtype="DT_STRING",
        string_val=[string.encode("utf_8")],
        tensor_shape=_shapes.TensorShapeProto(dim=[_shapes.TensorShapeProto.Dim(size=1)]),
    )
    content = _texts.TextPluginData(version=0).SerializeToString()
    return _summary(tag=f"{tag}/text_summary", metadata=_of_plugin("text", content), tensor=tensor)


def hparams(
    hparam_dict: Mapping[str, Any] | None = None,
    metric_dict: Mapping[str, Any] | None = None,
    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """The experiment with its hyperparameters and metrics, and the beginning and the end of a session."""
    domains = hparam_domain_discrete or {}
    start, described = _hyperparameter_data.SessionStartInfo(), []
    for name, value in (hparam_dict or {}).items():
        if value is None:
            continue
        if isinstance(value, str):
            start.hparams[name].string_value, kind = value, "STRING"
        elif isinstance(value, int | float | Tensor):  # truth values are numbers, as in PyTorch
            start.hparams[name].number_value, kind = array(value).reshape(-1)[0], "FLOAT64"
        else:
            raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
        described.append(_hyperparameters.HParamInfo(name=name, type=f"DATA_TYPE_{kind}"))
        if name in domains:
            described[-1].domain_discrete.extend(domains[name])
    experiment = _hyperparameters.Experiment(
        hparam_infos=described,
        metric_infos=[
            _hyperparameters.MetricInfo(name=_hyperparameters.MetricName(tag=tag)) for tag in metric_dict or {}
        ],
    )
    end = _hyperparameter_data.SessionEndInfo(status=_hyperparameters.Status.Value("STATUS_SUCCESS"))
    return (
        _of_hyperparameters(_hyperparameter_tags.EXPERIMENT_TAG, experiment=experiment),
        _of_hyperparameters(_hyperparameter_tags.SESSION_START_INFO_TAG, session_start_info=start),
        _of_hyperparameters(_hyperparameter_tags.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _of_hyperparameters(tag: str, **field: Any) -> Any:
    version = _hyperparameter_tags.PLUGIN_DATA_VERSION
    content = _hyperparameter_data.HParamsPluginData(version=version, **field).SerializeToString()
    return _summary(tag=tag, metadata=_of_plugin(_hyperparameter_tags.PLUGIN_NAME, content))
