"""The documents show what passed."""

from tests.real import passed

AGAIN = "python -m tests.real.passed"


def test_the_page_shows_what_passed():
    assert passed.PAGE.read_text() == passed.page_with(passed.read()), AGAIN


def test_every_library_is_in_the_table():
    files = [*(passed.HERE / "jax").glob("test_*.py"), *(passed.HERE / "torch" / "programs").glob("*.py")]
    shown = {(row.peer, row.library) for row in passed.read()}
    wanted = {passed.named(path)[:2] for path in files}
    assert wanted <= shown, (wanted - shown, AGAIN)
