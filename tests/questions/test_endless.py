"""Arguments without end: each question says which, and why."""

import pytest

import fgrad
from tests.bad_values.outcomes import outcome_apart
from tests.bad_values.values import ENDLESS

QUESTIONS = ("draw", "nonfinite", "residuals", "watch", "why_zero")

# what a thread that JAX has broken leaves behind, see ENDLESS
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_arguments_without_end(question: str):
    found = outcome_apart(lambda: getattr(fgrad, question)(lambda x: x)(ENDLESS["cyclic list"]()))
    assert isinstance(found.error, fgrad.errors.PytreeError) and "args" in str(found.error)
