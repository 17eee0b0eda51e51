"""The page in a real browser: nothing overlaps, it folds, searches and zooms, tells more at a click, loads nothing."""

import itertools
import json
import re
import time

import jax
import jax.numpy as jnp
import pytest

import fgrad
from fgrad.graph.drawing.folding import blocks, closed_at, folded, visible
from fgrad.graph.drawing.layout import arrange, path
from fgrad.graph.drawing.page import room
from fgrad.graph.drawing.units import results, unit, wired
from tests.browser import chromium
from tests.graph.drawing.models import MODELS

VISITS = itertools.count()
NUMBER = r"-?[\d.]+"
#: where every box, label and piece of a wire lies on the screen
PLACES = """
const rect = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const all = (what) => [...document.querySelectorAll(`#drawing ${what}`)].filter((e) => e.checkVisibility());
return {
  boxes: all(".box > rect").map(rect),
  pills: all(".pill > rect").map(rect),
  labels: all(".box text, .pill text, .value").map((e) => [...rect(e), e.textContent]),
  inside: all(".box, .pill").map((e) => [rect(e.querySelector("rect")), ...[...e.querySelectorAll("text")].map(rect)]),
  wires: all(".wire[data-wire] path:not(.head)").map((e) => {
    const length = e.getTotalLength(), m = e.getScreenCTM(), points = [];
    for (let i = 0; i <= 60; i++) {
      const p = e.getPointAtLength((length * i) / 60);
      points.push([m.a * p.x + m.e, m.d * p.y + m.f]);
    }
    return points;
  }),
};
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def shown(browser, tmp_path, drawing, **options):
    file = tmp_path / "page.html"
    drawing.to_html(file, **options)
    # a name of its own, so that no page of before is taken for it
    browser.get(f"{file.as_uri()}?{next(VISITS)}")
    drawn = "return document.getElementById('zoom').textContent !== ''"
    deadline = time.monotonic() + 20
    while not browser.execute_script(drawn):
        assert time.monotonic() < deadline, browser.get_log("browser")
        time.sleep(0.05)
    return browser


def drawn(name):
    fun, types = MODELS[name]
    return fgrad.draw(fun)(*types)


def overlap(one, other, by=0.5):
    return one[0] < other[2] - by and other[0] < one[2] - by and one[1] < other[3] - by and other[1] < one[3] - by


def assert_well_laid_out(browser):
    places = browser.execute_script(PLACES)
    boxes = places["boxes"] + places["pills"]
    assert len(places["boxes"]) > 3
    assert not [pair for pair in itertools.combinations(boxes, 2) if overlap(*pair)]
    assert not [pair for pair in itertools.combinations(places["labels"], 2) if overlap(*pair)]
    for outer, *texts in places["inside"]:
        for inner in texts:
            assert outer[0] <= inner[0] and inner[2] <= outer[2], "a text runs out of its box"
            assert outer[1] <= inner[1] and inner[3] <= outer[3]
    for points in places["wires"]:
        for x, y in points:
            assert not [b for b in boxes if b[0] + 1 < x < b[2] - 1 and b[1] + 1 < y < b[3] - 1], "a wire crosses a box"


def press(browser, selector):
    """A click, also where an element lies outside the window."""
    browser.execute_script(
        "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}))", selector
    )


def count(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('#drawing .unit')].filter((e) => e.style.display !== 'none').length"
    )


@pytest.mark.parametrize("detail", ["operation", "line", "function"])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_overlaps(browser, tmp_path, name, detail):
    shown(browser, tmp_path, drawn(name), detail=detail)
    assert_well_laid_out(browser)


@pytest.mark.parametrize("name", MODELS)
def test_the_page_arranges_as_the_image_does(browser, tmp_path, name):
    drawing = drawn(name)
    wiring = wired(drawing.ladder)
    found = blocks(wiring.ladder)
    every = {each.id: unit(wiring, each) for top in found for each in top.walk()}
    ends = list(results(wiring))
    space = room(wiring, found, every, ends, folded(found))
    for detail in ("function", "line", "operation"):
        shown(browser, tmp_path, drawing, detail=detail)
        ours = arrange(wiring, [*[every[b.id] for b in visible(found, closed_at(found, detail))], *ends], space)
        theirs = browser.execute_script(
            "return [...document.querySelectorAll('#drawing .wires path:not(.head)')].map((e) => e.getAttribute('d'))"
        )
        assert browser.get_log("browser") == []
        assert len(theirs) == len(ours.routes)
        for mine, other in zip([path(route.corners) for route in ours.routes], theirs, strict=True):
            assert re.sub(NUMBER, "", mine) == re.sub(NUMBER, "", other)
            assert [float(x) for x in re.findall(NUMBER, mine)] == pytest.approx(
                [float(x) for x in re.findall(NUMBER, other)], abs=0.11
            )
        tops = browser.execute_script(
            "return [...document.querySelectorAll('#drawing .unit')].filter((e) => e.style.display !== 'none')"
            ".map((e) => [e.dataset.unit, e.getAttribute('transform')])"
        )
        assert [name for name, _ in sorted(tops)] == sorted(each.id for each in ours.units)
        expected = {each.id: top for each, top in zip(ours.units, ours.tops, strict=True)}
        for name, place in tops:
            assert float(re.findall(NUMBER, place)[1]) == pytest.approx(expected[name], abs=0.11)


def test_folds_and_unfolds(browser, tmp_path):
    shown(browser, tmp_path, drawn("deep"))
    before = count(browser)
    press(browser, ".unit[data-unit^=more] .toggle")
    opened = count(browser)
    assert opened > before + 10
    assert_well_laid_out(browser)
    press(browser, ".bracket[data-block^=repeat]")
    assert count(browser) < before
    assert_well_laid_out(browser)
    press(browser, ".unit[data-unit^=repeat] .toggle")
    assert count(browser) == opened


def test_detail_is_chosen(browser, tmp_path):
    shown(browser, tmp_path, drawn("block"))
    counts = []
    for detail in ("function", "line", "operation"):
        browser.execute_script(
            "const e = document.getElementById('level'); e.value = arguments[0]; e.dispatchEvent(new Event('change'))",
            detail,
        )
        counts.append(count(browser))
        assert_well_laid_out(browser)
    assert counts[0] < counts[1] < counts[2]


def test_search_unfolds_what_it_finds(browser, tmp_path):
    shown(browser, tmp_path, drawn("block"), detail="function")
    field = browser.find_element("id", "search")
    field.send_keys("mixed @ params")
    assert browser.find_element("id", "count").text.endswith("found")
    assert not browser.find_element("id", "count").text.startswith("0")
    before = count(browser)
    field.send_keys("\n")
    assert count(browser) > before
    chosen = browser.find_element("css selector", ".unit.chosen")
    assert "dot_general" in chosen.text
    assert "mixed @ params" in browser.find_element("id", "detail").text
    field.clear()
    field.send_keys("no such thing")
    assert browser.find_element("id", "count").text == "0 found"


def test_a_click_tells_line_type_rule_saved_values_and_numbers(browser, tmp_path):
    fun, types = MODELS["perceptron"]
    args = jax.tree.map(lambda t: jnp.ones(t.shape, t.dtype), types)
    shown(browser, tmp_path, fgrad.draw(fun)(*args), args=args)
    for box in browser.find_elements("css selector", ".unit .box.forward"):
        if box.is_displayed() and box.text.startswith("tanh"):
            box.click()
            break
    told = browser.find_element("id", "detail").text
    assert "models.py:" in told
    assert 'h = jnp.tanh(h + params[0]["b"])' in told
    assert "f32[5,4]" in told
    assert "tanh: Elementwise" in told
    assert "slope of tanh: f32[5,4], 80 bytes" in told
    assert "from 0.999" in told
    faded = browser.execute_script("return document.querySelectorAll('.wire.faded').length")
    assert faded > 5


def test_zoom(browser, tmp_path):
    shown(browser, tmp_path, drawn("perceptron"))

    def size():
        return browser.find_element("css selector", "#drawing").size["width"]

    start = size()
    press(browser, "#in")
    assert size() > start * 1.2
    press(browser, "#out")
    press(browser, "#out")
    assert size() < start * 0.85
    press(browser, "#fit")
    room_for = browser.execute_script("return document.querySelector('main').clientWidth")
    assert abs(size() - room_for) < 20  # a scrollbar comes or goes


def test_no_errors_and_no_requests(browser, tmp_path):
    browser.get_log("browser")
    browser.get_log("performance")
    shown(browser, tmp_path, drawn("recurrent"))
    press(browser, ".bracket")
    press(browser, ".unit .box")
    assert browser.get_log("browser") == []
    asked = set()
    for entry in browser.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            asked.add(event["params"]["request"]["url"].partition(":")[0])
    assert asked <= {"file", "data"}


def test_text_that_could_be_markup_stays_text(browser, tmp_path):
    odd = {"</script><b id='broken'>": 1.0}
    shown(browser, tmp_path, fgrad.draw(lambda p: jnp.sin(p["</script><b id='broken'>"]))(odd))
    assert not browser.find_elements("id", "broken")
    assert count(browser) == 2


@pytest.mark.parametrize("dark", [False, True])
def test_letters_stand_out_from_their_ground(tmp_path, dark):
    """By the contrast that the Web Content Accessibility Guidelines ask for, 4.5 to 1."""
    with chromium(dark=dark) as browser:
        shown(browser, tmp_path, drawn("perceptron"))
        pairs = browser.execute_script(
            "return [...document.querySelectorAll('#drawing .box')].map((e) => "
            "[getComputedStyle(e.querySelector('text')).fill, getComputedStyle(e.querySelector('rect')).fill])"
        )
    assert len(pairs) > 10
    for ink, ground in pairs:
        light, deep = sorted([luminance(ink), luminance(ground)], reverse=True)
        assert (light + 0.05) / (deep + 0.05) > 4.5


def luminance(colour):
    """Source: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [int(x) / 255 for x in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
