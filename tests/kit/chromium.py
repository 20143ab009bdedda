"""Chromium as Debian ships it, driven by Playwright; complaints of the page are collected."""

import shutil
from contextlib import asynccontextmanager

from tests.kit.polling import until

EXECUTABLE = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
MISSING = "Chromium, which `apt-get install chromium` brings"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
# Refusals of the policy that scripts cannot see otherwise, and alerts that nobody should raise.
WATCH = """
    window.complaints = [];
    document.addEventListener("securitypolicyviolation", (event) =>
        window.complaints.push(`${event.violatedDirective}: ${event.blockedURI}`));
    window.alert = (text) => window.complaints.push(`alert: ${text}`);
"""


@asynccontextmanager
async def chromium():
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=EXECUTABLE, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


class Tab:
    """One tab: `page` is Playwright's; `complaints` must stay empty."""

    def __init__(self, page, root):
        self.page, self.root = page, root
        self._said = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("request", self._request)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self._said.append(message.text)

    def _request(self, request):
        if not request.url.startswith(self.root):
            self._said.append(f"asked elsewhere: {request.url}")

    async def complaints(self):
        return self._said + await self.page.evaluate("window.complaints")

    async def heat_map(self):
        """Waits until it is drawn; Playwright's way of waiting needs what the policy forbids."""
        is_drawn = "document.querySelector('canvas')?.clientHeight > 20"
        await until(lambda: self.page.evaluate(is_drawn), "the heat map is drawn")

    async def go(self, path=""):
        answer = await self.page.goto(f"{self.root}/{path}")
        return answer.status


@asynccontextmanager
async def tab_on(browser, server, **options):
    """A tab that has opened the page."""
    context = await browser.new_context(**options)
    await context.add_init_script(WATCH)
    page = await context.new_page()
    tab = Tab(page, f"http://127.0.0.1:{server.port}")
    await page.goto(server.address)
    try:
        yield tab
    finally:
        await context.close()
