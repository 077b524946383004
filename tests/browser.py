"""A headless Chromium for tests of pages; where there is none, the tests are skipped and say so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REASON = (
    "NO BROWSER: pages are not tested. Install chromium and chromium-driver (Debian), and mtlstruct[test]"
)


def open_browser(profile: Path) -> Any:
    """A driver with a new profile, that keeps the console and the requests of its pages."""
    selenium = pytest.importorskip("selenium.webdriver", reason=REASON)
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip(REASON)
    options = selenium.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return selenium.Chrome(options=options, service=selenium.ChromeService(executable_path=driver))


def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The driver of a test module, closed at its end; to be made a fixture there."""
    driver = open_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def complaints(driver: Any) -> list[str]:
    """What the console has heard since it was last asked."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requests(driver: Any) -> list[str]:
    """The addresses asked for since this was last asked; data that pages carry and the browser's own pages aside."""
    import json

    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    sent = (e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent")
    return [url for url in sent if not url.startswith(("data:", "chrome:", "chrome-untrusted:"))]


def resize(driver: Any, width: int, height: int = 900) -> None:
    """Makes the page so wide, also narrower than a window can be."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
    )


def scheme(driver: Any, name: str, media: str = "") -> None:
    """Prefers light or dark; `media` may be print."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": media, "features": [{"name": "prefers-color-scheme", "value": name}]},
    )


def overflow(driver: Any) -> int:
    """How many pixels the page is wider than its window."""
    return int(
        driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )


def check_widths(driver: Any, widths: tuple[int, ...] = (400, 320, 1200)) -> None:
    """Fails if the page scrolls sideways at one of these widths."""
    for width in widths:
        resize(driver, width)
        settled(driver)
        assert overflow(driver) == 0, width


def settled(driver: Any) -> None:
    """Waits until pictures are drawn for their new width: two frames."""
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )
