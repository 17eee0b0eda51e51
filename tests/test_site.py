"""The built site in Chromium: nothing is cut off, no link or picture is missing, nothing complains.

``FGRAD_SITE`` names the folder that ``python -m sphinx -b html docs FOLDER`` has filled; without it all is skipped.
"""

import json
import os
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from attrs import frozen

from tests.browser import chromium

#: what sticks out of the window, unless a box within the article scrolls to it, and what a box hides of its contents
#: (on a phone the theme lets the whole page scroll sideways, which no reader wants)
CUT_OFF = """
for (const folded of document.querySelectorAll("details")) folded.open = true;
const width = document.documentElement.clientWidth;
const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
const inside = (e) => e.tagName !== "ARTICLE" && (scrolls(e) || inside(e.parentElement));
const said = (e, why) => `${why}: <${e.tagName.toLowerCase()} class="${e.className}"> ${e.textContent.slice(0, 60)}`;
const found = [];
for (const e of document.querySelectorAll("article, article *:not(svg *):not(math *)")) {
  const box = e.getBoundingClientRect();
  if (box.width <= 1 || !e.checkVisibility()) continue;
  if ((box.right > width + 1 || box.left < -1) && !inside(e)) found.push(said(e, "sticks out"));
  const hides = ["hidden", "clip"].includes(getComputedStyle(e).overflowX);
  if (hides && e.scrollWidth > e.clientWidth + 1) found.push(said(e, "is cut off"));
}
if (document.documentElement.scrollWidth > width) found.push("the page is wider than the window");
return found.slice(0, 5);
"""
PICTURES = "return [...document.images].filter((e) => e.complete && e.naturalWidth === 0).map((e) => e.src)"
#: where one can click, without opening anything first
CLICKABLE = "return [...document.links].filter((e) => e.checkVisibility()).map((e) => e.href.split('#')[0])"
#: what a click on each of the first buttons would copy
COPIED = """
const copied = [];
document.execCommand = () => copied.push(document.activeElement.value);
for (const button of [...document.querySelectorAll("button.copybtn")].slice(0, 3)) button.click();
return copied;
"""
PHONE, DESKTOP = 390, 1280


class Page(HTMLParser):
    """The anchors of a page and the addresses that it names."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value and not (tag == "link" and "search" in value):
                self.addresses.append(value)


@pytest.fixture(scope="module")
def site() -> Path:
    folder = os.environ.get("FGRAD_SITE")
    if folder is None:
        pytest.skip("FGRAD_SITE does not say where the built site is")
    return Path(folder).resolve()


@pytest.fixture(scope="module")
def browser():
    with chromium(DESKTOP) as opened:
        yield opened


def pages(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def written(site: Path) -> list[Path]:
    """The pages that somebody wrote: neither indices nor listings of source files."""
    made = {"genindex.html", "py-modindex.html", "search.html"}
    return [path for path in pages(site) if path.name not in made and "_modules" not in path.parts]


def resized(browser, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def complaints(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


@frozen
class Visit:
    """What there is to say of a page: what is wrong with it, and where one can click on a desktop."""

    wrong: list[str]
    links: set[str]


@pytest.fixture(scope="module")
def visits(site, browser) -> dict[Path, Visit]:
    """Every page, opened once and looked at in both widths."""
    found = {}
    for path in written(site):
        resized(browser, PHONE)
        browser.get(path.as_uri())
        wrong = [f"on a phone, {what}" for what in browser.execute_script(CUT_OFF)]
        resized(browser, DESKTOP)
        wrong += browser.execute_script(CUT_OFF) + browser.execute_script(PICTURES) + complaints(browser)
        found[path] = Visit(wrong, set(browser.execute_script(CLICKABLE)))
    return found


def broken(site: Path) -> Iterator[str]:
    """The addresses of a page that lead nowhere on the site."""
    read = {path: Page(path) for path in pages(site)}
    for path, page in read.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(site)}: {address}"
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].anchors:
                yield f"{path.relative_to(site)}: {address}: no such anchor"


def test_links_and_pictures_lead_somewhere(site):
    assert not list(broken(site))


def test_nothing_is_cut_off_and_nothing_complains(visits, site):
    wrong = {path.relative_to(site).as_posix(): visit.wrong for path, visit in visits.items() if visit.wrong}
    assert not wrong, json.dumps(wrong, indent=1)


def test_pictures_suit_light_and_dark_pages(site):
    assert [path.name for path in site.glob("_images/*.svg") if "prefers-color-scheme" not in path.read_text()] == []


def test_every_page_is_two_clicks_away(visits, site):
    front = visits[site / "index.html"].links
    once = [path for path in visits if path.as_uri() in front]
    reached = front.union(*(visits[path].links for path in once))
    assert once
    assert not [path.relative_to(site).as_posix() for path in visits if path.as_uri() not in reached]


def test_search_finds_what_the_pages_say(site, browser):
    browser.get((site / "search.html").as_uri() + "?q=cotangent")
    deadline = time.monotonic() + 20
    while not browser.execute_script("return document.querySelectorAll('#search-results li').length"):
        assert time.monotonic() < deadline, complaints(browser)
        time.sleep(0.05)


def test_copying_leaves_out_prompts_and_outputs(site, browser):
    browser.get((site / "quickstart.html").as_uri())
    copied = browser.execute_script(COPIED)
    assert "import fgrad\nimport jax.numpy as jnp\ndef f(x):\n    return jnp.sum(x ** 3)\nfgrad.grad(f)" in copied[1]
    assert not [text for text in copied if ">>>" in text or "Array([" in text]


def test_the_dark_site_is_dark(site, browser):
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    browser.get((site / "index.html").as_uri())
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert max(map(int, colour[4:-1].split(",")[:3])) < 64, colour
