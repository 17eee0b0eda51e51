"""The picture of the measurements: a bar for each, to the left where fgrad is the faster one, on a scale of ratios."""

import html
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

WIDTH, MARGIN, HEAD, STEP, BAR = 520, 16, 34, 36, 11
#: the ratios at the ends of the scale
LEAST, MOST = 0.005, 20.0
FONT = "ui-sans-serif, system-ui, sans-serif"
#: what is shown: the work, what it is measured against, and what the picture calls it
SHOWN = {
    "A gradient, not jitted": (
        ("un-jitted grad, chain of 10 products, fast lane", "un-jitted jax.grad", "10 products, beside JAX"),
        (
            "un-jitted grad, chain of 10 products, plain jnp",
            "un-jitted jax.grad",
            "10 products in jax.numpy, beside JAX",
        ),
        ("un-jitted grad, chain of 10 products, fast lane", "PyTorch eager", "10 products, beside PyTorch"),
        ("un-jitted grad, MLP 16-16-16-1, batch 8, fast lane", "un-jitted jax.grad", "small MLP, beside JAX"),
        ("un-jitted grad, MLP 16-16-16-1, batch 8, fast lane", "PyTorch eager", "small MLP, beside PyTorch"),
    ),
    "A jitted gradient": (
        ("jit(grad) run time, MLP 784-256-256-10, batch 128", "jax.jit(jax.grad)", "MLP, beside JAX"),
        ("jit(grad) run time, attention block", "jax.jit(jax.grad)", "attention, beside JAX"),
        ("jit(grad) run time, conv net", "jax.jit(jax.grad)", "convolutions, beside JAX"),
        ("jit(grad) run time, scan RNN", "jax.jit(jax.grad)", "recurrent network, beside JAX"),
    ),
    "fgrad.torch, statement by statement, beside PyTorch": (
        ("training step of the 1024-1024-1024-10 MLP, batch 256", "PyTorch eager", "step of a wide MLP"),
        ("training step of the 784-256-256-10 MLP, batch 128", "PyTorch eager", "step of an MLP"),
        ("training step of the 16-16-16-10 MLP, batch 8", "PyTorch eager", "step of a tiny MLP"),
        ("softmax of 32x32, recorded", "PyTorch eager", "one softmax"),
        ("first row of 32x32, recorded", "PyTorch eager", "one view"),
    ),
    "fgrad.torch, a step as one program, beside PyTorch": (
        ("compiled step, 16-16-16-1 MLP, SGD with momentum, batch 8", "PyTorch eager", "tiny MLP"),
        ("compiled step, small transformer, Adam", "PyTorch eager", "small transformer"),
        ("compiled step, LSTM, Adam", "PyTorch eager", "LSTM"),
        ("compiled step, conv net with BatchNorm and dropout, Adam", "PyTorch eager", "convolutions"),
    ),
}
#: ground, text, faint text, quicker, slower, in light and in dark surroundings
LIGHT = ("#ffffff", "#1f2937", "#6b7280", "#2563eb", "#d97706")
DARK = ("#0f141b", "#e5e7eb", "#9ca3af", "#60a5fa", "#f59e0b")


class Row(Protocol):
    """What is drawn of a measurement."""

    @property
    def work(self) -> str: ...
    @property
    def against(self) -> str: ...
    @property
    def ratio(self) -> float: ...
    @property
    def detail(self) -> str: ...


def place(ratio: float) -> float:
    """Where a ratio stands on the scale."""
    share = math.log(max(LEAST, min(MOST, ratio)) / LEAST) / math.log(MOST / LEAST)
    return MARGIN + share * (WIDTH - 2 * MARGIN)


def style() -> str:
    def rules(ground: str, ink: str, faint: str, quicker: str, slower: str) -> str:
        return (
            f".ground{{fill:{ground}}}text{{fill:{ink}}}.faint{{fill:{faint}}}.line{{stroke:{faint}}}"
            f".quicker{{fill:{quicker}}}.slower{{fill:{slower}}}"
        )

    return f"text{{font:13px {FONT}}}{rules(*LIGHT)}@media (prefers-color-scheme:dark){{{rules(*DARK)}}}"


def text(x: float, y: float, said: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{html.escape(said)}</text>'


def group(title: str, rows: Sequence[tuple[str, Row]], y: float) -> Iterator[str]:
    yield text(MARGIN, y + 22, title, ' font-weight="bold" style="font-weight:600"')
    y += HEAD
    yield f'<path class="line" d="M{place(1):.1f} {y}V{y + STEP * len(rows) - 8}" stroke-dasharray="2 3"/>'
    for label, row in rows:
        ends = sorted((place(1), place(row.ratio)))
        yield text(MARGIN, y + 12, label)
        yield text(WIDTH - MARGIN, y + 12, row.detail.replace(" us", " µs"), ' class="faint" text-anchor="end"')
        yield (
            f'<rect class="{"quicker" if row.ratio <= 1 else "slower"}" x="{ends[0]:.1f}" y="{y + 17}" '
            f'width="{max(2, ends[1] - ends[0]):.1f}" height="{BAR}" rx="2"/>'
        )
        y += STEP


def svg(machine: str, rows: Sequence[Row]) -> str:
    """The picture, of the rows that it shows."""
    found = {(row.work, row.against): row for row in rows}
    parts, y = [text(MARGIN, 26, "Time of fgrad / time of the other")], 40
    for ratio, said in ((0.01, "1/100"), (0.1, "1/10"), (1.0, "the same"), (10.0, "10 times")):
        parts.append(text(place(ratio), y + 12, said, ' class="faint" text-anchor="middle"'))
    y += 14
    for title, shown in SHOWN.items():
        parts += group(title, [(label, found[work, against]) for work, against, label in shown], y)
        y += HEAD + STEP * len(shown) + 6
    parts.append(text(MARGIN, y + 12, machine, ' class="faint" style="font-size:10.5px"'))
    y += 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img">'
        f"<title>How fast fgrad is beside JAX and PyTorch</title><style>{style()}</style>"
        f'<rect class="ground" width="{WIDTH}" height="{y}" rx="6"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
