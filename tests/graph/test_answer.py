"""The common form of answers."""

from attrs import frozen

from fgrad.graph.answer import Answer, Table


@frozen(repr=False)
class _Rows(Answer):
    rows: tuple

    def findings(self):
        return self.rows

    def parts(self):
        yield "Kept for <backward>:"
        yield Table(("name", "bytes"), self.rows)


def test_an_answer_prints_shows_and_counts():
    answer = _Rows((("h", 12000), ("loss", 4)))
    assert answer
    assert str(answer) == repr(answer) == "Kept for <backward>:\nname   bytes\nh     12,000\nloss       4"
    shown = answer._repr_html_()
    assert shown.startswith("<pre>Kept for &lt;backward&gt;:</pre><table>")
    # a notebook sets all cells flush right
    assert '<td style="text-align:left">loss</td><td style="text-align:right">4</td>' in shown
    assert '<th style="text-align:left">name</th><th style="text-align:right">bytes</th>' in shown


def test_an_empty_answer_is_false():
    assert not _Rows(())


def test_a_title_stands_above():
    assert Table(("a",), [("x",)], "Title").text() == "Title\na\nx"
    assert ">Title</caption>" in Table(("a",), [], "Title").html()


@frozen(repr=False)
class _Lines(Answer):
    def findings(self):
        return (1,)

    def parts(self):
        yield from ("one", "  two", Table(("a",), [("x",)]), "three")


def test_lines_that_follow_each_other_are_one_paragraph():
    shown = _Lines()._repr_html_()
    assert shown.count("<pre>") == 2 and "<pre>one\n  two</pre>" in shown
