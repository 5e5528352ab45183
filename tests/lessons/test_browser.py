"""Lessons as a reader sees them: JupyterLab in a real browser, run to the end, a widget moved by keyboard.

Needs Chromium and Playwright (pip install -r requirements-browser.txt, apt-get install chromium); else it is skipped.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lessons.execution import lesson_folder

ROOT = Path(__file__).resolve().parents[2]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in _NAMES if (path := shutil.which(name))), None)
SHOTS = ROOT / "build" / "screenshots"
PATIENCE = 300_000  # milliseconds: the machine may be busy
ERROR = '.jp-OutputArea [data-mime-type="application/vnd.jupyter.error"]'
# The toolbar says "idle" before the session is ready, and Run All is then lost without a word.
READY = """() => {
  const panel = window.jupyterapp?.shell?.currentWidget, session = panel?.sessionContext;
  return Boolean(panel?.context?.isReady && session?.isReady
                 && session.session?.kernel?.connectionStatus === 'connected');
}"""

sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install -r requirements-browser.txt")
pytestmark = [pytest.mark.browser, pytest.mark.slow,
              pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]  # fmt: skip


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """JupyterLab on this machine alone, with its own copy of the lessons; gives the address of a notebook."""
    home, token = tmp_path_factory.mktemp("lab"), secrets.token_hex(16)
    lesson_folder(ROOT / "lessons", home / "lessons")
    for notebook in (ROOT / "lessons").glob("*.ipynb"):
        shutil.copy(notebook, home / "lessons")
    settings = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"fetchNews": "false", "checkForUpdates": false}', encoding="utf-8")  # no toast over the page
    folders = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
               "JUPYTER_RUNTIME_DIR": "runtime"}  # fmt: skip
    environment = {**os.environ, **{name: str(home / folder) for name, folder in folders.items()}, "PMD_SIZE": "ci"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = home / "lab.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
             "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
             f"--ServerApp.root_dir={home / 'lessons'}", "--LabApp.expose_app_in_browser=True"],
            env=environment, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 300  # the machine may be busy
        while True:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=2).close()
                break
            except OSError:
                time.sleep(0.25)
        yield lambda name: f"http://127.0.0.1:{port}/doc/tree/{name}?token={token}"
    finally:
        server.terminate()
        server.wait(30)


@pytest.fixture
def page() -> Iterator[Any]:
    """A page of a headless browser."""
    sync_api.expect.set_options(timeout=PATIENCE)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        opened = browser.new_page(viewport={"width": 1280, "height": 900})  # narrower, the toolbar folds away
        opened.set_default_timeout(PATIENCE)
        yield opened
        browser.close()


def run_all(page: Any, address: str) -> None:
    """As a reader does it: open, wait for the kernel, Run, Run All Cells; returns when all cells have run."""
    page.goto(address)
    page.wait_for_function(READY)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.widgets.filter(c => c.model.type === 'code')"
        ".every(c => c.model.executionCount !== null && c.model.executionState !== 'running')"
    )


def shot(page: Any, name: str) -> None:
    """Keep a picture of the page under build/."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def test_a_lesson_runs_and_its_slider_answers_the_keyboard(lab: Callable[[str], str], page: Any) -> None:
    run_all(page, lab("02_temperature_sampling.ipynb"))
    handle = page.locator(".widget-slider .noUi-handle")
    handle.scroll_into_view_if_needed()
    picture = page.locator(".jupyter-widgets img")
    before, said = picture.get_attribute("src"), picture.get_attribute("alt")
    assert "tau=5.0" in said
    handle.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    sync_api.expect(picture).not_to_have_attribute("src", before)
    sync_api.expect(picture).to_have_attribute("alt", "Probability of each pair at tau=1 and at tau=7.1")
    sync_api.expect(page.locator(ERROR)).to_have_count(0)
    shot(page, "lesson02_slider")


def test_the_search_stepper_is_moved_by_keyboard_alone(lab: Callable[[str], str], page: Any) -> None:
    page.set_default_timeout(2 * PATIENCE)  # its first cell trains
    run_all(page, lab("10_auto_pmd.ipynb"))
    picture = page.locator(".jupyter-widgets img")
    picture.scroll_into_view_if_needed()

    def shows(text: str) -> None:
        sync_api.expect(picture).to_have_attribute("alt", re.compile(re.escape(text)))

    shows("model_1 (tau=1): search 1 of 2")
    page.get_by_role("button", name="Next", exact=True).focus()
    page.keyboard.press("Space")
    shows("model_1 (tau=1): search 2 of 2")
    page.keyboard.press("Shift+Tab")  # to Previous
    page.keyboard.press("Space")
    shows("model_1 (tau=1): search 1 of 2")
    page.locator(".widget-slider .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    shows("model_1 (tau=1): search 2 of 2")
    page.get_by_role("button", name="auto-pmd model_2 (tau=5)", exact=True).focus()
    page.keyboard.press("Space")
    shows("model_2 (tau=5): search 2 of 2")
    page.keyboard.press("Tab")  # to the row of sums
    page.keyboard.press("Space")
    shows("Sum: ")
    sync_api.expect(page.locator(ERROR)).to_have_count(0)
    shot(page, "lesson10_stepper")


def test_buttons_and_long_choices_are_made_by_keyboard_alone(lab: Callable[[str], str], page: Any) -> None:
    """Lists lose their arrow keys to JupyterLab: lesson 01 has buttons instead, lesson 12 a slider of all systems."""
    run_all(page, lab("01_unequal_languages.ipynb"))
    picture = page.locator(".jupyter-widgets img")
    picture.scroll_into_view_if_needed()
    assert "linear scale" in picture.get_attribute("alt")
    page.get_by_role("button", name="linear", exact=True).focus()
    page.keyboard.press("Tab")  # to "log"
    page.keyboard.press("Space")
    sync_api.expect(picture).to_have_attribute("alt", re.compile("log scale"))
    shot(page, "lesson01_buttons")

    run_all(page, lab("12_the_rivals.ipynb"))
    picture = page.locator(".jupyter-widgets img")
    picture.scroll_into_view_if_needed()
    assert picture.get_attribute("alt").startswith("multidds-s:")
    page.locator(".widget-slider .noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    sync_api.expect(picture).to_have_attribute("alt", re.compile("^multiuat:"))
    sync_api.expect(page.locator(ERROR)).to_have_count(0)
    shot(page, "lesson12_slider")


def test_the_explorer_opens_on_its_lesson_and_is_moved_by_keyboard_and_mouse(
    lab: Callable[[str], str], page: Any
) -> None:
    page.set_default_timeout(2 * PATIENCE)  # its lesson trains
    run_all(page, lab("06_the_trade_off.ipynb"))
    button = page.get_by_role("button", name="test BLEU", exact=True)
    picture = page.locator(".jupyter-widgets").filter(has=button).locator("img").last
    picture.scroll_into_view_if_needed()
    assert picture.get_attribute("alt").startswith("test BLEU")
    button.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    sync_api.expect(picture).to_have_attribute("alt", re.compile("^dev loss"))
    button.click()
    sync_api.expect(picture).to_have_attribute("alt", re.compile("^test BLEU"))
    sync_api.expect(page.locator(ERROR)).to_have_count(0)
    shot(page, "lesson06_explorer")
