"""A real browser for tests of pages: Chromium, without a window and without a network."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip


@contextmanager
def chromium(width: int = 1300, height: int = 900, dark: bool = False) -> Iterator[Any]:
    """A driven Chromium; the test is skipped where there is none."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs chromium and chromedriver on PATH (apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for option in (*OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(option)
        if dark:
            options.add_argument("--blink-settings=preferredColorScheme=0")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        opened = webdriver.Chrome(options=options, service=service.Service(driver))
        try:
            yield opened
        finally:
            opened.quit()
