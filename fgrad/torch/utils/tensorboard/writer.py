"""``SummaryWriter``: a training's numbers, images and texts in the files that TensorBoard reads."""

import importlib
import os
import socket
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from fgrad.torch.refused import refusal
from fgrad.torch.utils.tensorboard import summary as summaries

_events = importlib.import_module("tensorboard.compat.proto.event_pb2")
_files = importlib.import_module("tensorboard.summary.writer.event_file_writer")
RecordWriter = importlib.import_module("tensorboard.summary.writer.record_writer").RecordWriter


class FileWriter:
    """Writes events into a file of a folder, from a thread of its own.

    Arguments:
      log_dir: the folder, which is created.
      max_queue: after so many events the file is written.
      flush_secs: after so many seconds it is written, too.
      filename_suffix: the end of the file's name.

    Source: `torch.utils.tensorboard <https://docs.pytorch.org/docs/stable/tensorboard.html>`_.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""):
        self.event_writer = _files.EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event, of a step and a time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a message of TensorBoard's."""
        self.add_event(_events.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Begin another file."""
        self.event_writer.reopen()


def _bins() -> list[float]:
    """The limits of a histogram's bins: powers of 1.1 on both sides of zero."""
    positive = []
    limit = 1e-12
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    return [*(-x for x in reversed(positive)), 0, *positive]


class SummaryWriter:
    """Writes what a training shows into files for TensorBoard.

    Arguments:
      log_dir: the folder; by default one in ``runs``, named by the time and the host.
      comment: the end of the default folder's name.
      purge_step: events of this step and of later ones, which a run before wrote, are hidden.
      max_queue, flush_secs, filename_suffix: as for ``FileWriter``.

    Source: `torch.utils.tensorboard.SummaryWriter <https://docs.pytorch.org/docs/stable/tensorboard.html>`_.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ):
        if not log_dir:
            log_dir = os.path.join(
                "runs", f"{datetime.now().strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}"
            )
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        #: by folder; there are none after ``close``, until something is written
        self.all_writers: dict[str, FileWriter] | None = None
        self.file_writer: FileWriter | None = None
        self._get_file_writer()
        self.default_bins = _bins()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._opened(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                log = _events.SessionLog(status=_events.SessionLog.START)
                self.file_writer.add_event(_events.Event(step=self.purge_step, file_version="brain.Event:2"))
                self.file_writer.add_event(_events.Event(step=self.purge_step, session_log=log))
                self.purge_step = None
        return self.file_writer

    def _opened(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number."""
        summary = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers that are drawn in one plot, each into a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            path = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if path not in self.all_writers:
                self.all_writers[path] = self._opened(path)
            self.all_writers[path].add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed."""
        limits = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        summary = summaries.histogram(tag, values, limits, max_bins)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that has been counted."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        summary = summaries.histogram_of_counts(
            tag, min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
            bucket=bucket_counts,
        )  # fmt: skip
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image."""
        self._get_file_writer().add_summary(summaries.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write a batch of images as a grid."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self, tag: str, figure: Any, global_step: Any = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Write a figure of matplotlib, or several, as an image."""
        pixels, axes = summaries.figures(figure, close)
        self.add_image(tag, pixels, global_step, walltime, axes)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Write a text in Markdown."""
        self._get_file_writer().add_summary(summaries.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write a run's hyperparameters and what it reached, in a folder of its own."""
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        made = summaries.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for summary in made:
                run._get_file_writer().add_summary(summary, global_step)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _refusing(name: str) -> Callable[..., None]:
    def refuse(self: SummaryWriter, *args: Any, **kwargs: Any) -> None:
        raise refusal(f"torch.utils.tensorboard.SummaryWriter.{name}")

    refuse.__name__ = name
    return refuse


for _name in (
    "add_audio", "add_custom_scalars", "add_custom_scalars_marginchart", "add_custom_scalars_multilinechart",
    "add_embedding", "add_graph", "add_image_with_boxes", "add_mesh", "add_onnx_graph", "add_pr_curve",
    "add_pr_curve_raw", "add_tensor", "add_video",
):  # fmt: skip
    setattr(SummaryWriter, _name, _refusing(_name))
