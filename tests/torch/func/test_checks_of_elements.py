"""What refuses elements refuses them under ``vmap`` too, whichever example they are in."""

from typing import Any

import pytest

import fgrad.torch as torch

functional = torch.nn.functional
ROWS = torch.arange(6.0).view(3, 2)
INDEX = torch.tensor([[0, 1], [1, 5]])
PROBABILITIES = torch.tensor([[0.0, 0.5], [0.2, 5.0]])
SINGULAR = torch.stack([torch.eye(2), torch.tensor([[0.0, 1.0], [0.0, 1.0]])])

REFUSED: dict[str, tuple[Any, Any]] = {
    "indexing": (lambda i: ROWS[i], INDEX),
    "negative": (lambda i: ROWS[1 - i], INDEX),
    "index_put": (lambda i: ROWS.index_put((i,), torch.tensor(1.0)), INDEX),
    "index_select": (lambda i: ROWS.index_select(0, i), INDEX),
    "index_add": (lambda i: ROWS.index_add(0, i, ROWS[:2]), INDEX),
    "index_fill": (lambda i: ROWS.index_fill(0, i, 1.0), INDEX),
    "index_copy": (lambda i: ROWS.index_copy(0, i, ROWS[:2]), INDEX),
    "gather": (lambda i: ROWS.gather(0, i[None]), INDEX),
    "scatter": (lambda i: ROWS.scatter(0, i[None], 1.0), INDEX),
    "take": (lambda i: ROWS.take(i + 3), INDEX),
    "embedding": (lambda i: functional.embedding(i, ROWS), INDEX),
    "embedding_bag": (lambda i: functional.embedding_bag(i[None], ROWS), INDEX),
    "one_hot": (lambda i: functional.one_hot(i, 3), INDEX),
    "nll_loss": (lambda i: functional.nll_loss(ROWS[:2], i), INDEX),
    "cross_entropy": (lambda i: functional.cross_entropy(ROWS[:2], i), INDEX),
    "multi_margin_loss": (lambda i: functional.multi_margin_loss(ROWS[:2], i), INDEX),
    "multilabel_margin_loss": (lambda i: functional.multilabel_margin_loss(ROWS[0], i), INDEX),
    "max_unpool1d": (lambda i: functional.max_unpool1d(ROWS[None, :1], i[None, None], 2), INDEX),
    "binary_cross_entropy": (lambda i: functional.binary_cross_entropy(i.float(), i.float()), INDEX),
    "division of integers": (lambda i: i // (i - 5), INDEX),
    "segment_reduce": (lambda i: torch.segment_reduce(ROWS[:1, 0], "sum", lengths=i), INDEX),
    "quantile": (lambda q: torch.quantile(ROWS[:, 0], q), PROBABILITIES),
    "nanquantile": (lambda q: torch.nanquantile(ROWS, q, dim=0), PROBABILITIES),
    "cholesky": (lambda a: torch.linalg.cholesky(a), SINGULAR),
    "inv": (lambda a: torch.linalg.inv(a), SINGULAR),
    "solve": (lambda a: torch.linalg.solve(a, ROWS[:2]), SINGULAR),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_example_is_refused(name: str) -> None:
    function, examples = REFUSED[name]
    with pytest.raises(Exception) as alone:
        function(examples[1])
    function(examples[0])
    with pytest.raises(type(alone.value)):
        torch.func.vmap(function)(examples)
    with pytest.raises(type(alone.value)):
        torch.func.vmap(torch.func.vmap(function))(examples[None])


def test_quantiles_that_each_example_asks_for() -> None:
    probabilities = PROBABILITIES / 5
    found = torch.func.vmap(torch.quantile, in_dims=(None, 0))(ROWS, probabilities)
    assert found.tolist() == torch.stack([torch.quantile(ROWS, q) for q in probabilities]).tolist()
