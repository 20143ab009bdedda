"""Pictures for the docs: the page on a sandbox with a scenario, so that they never show an old one.

    make pictures

Chromium takes them; `apt-get install chromium` brings it. Colours are reduced, so that each picture
is small.
"""

import asyncio
import re
import shutil
import sys
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.async_api import Page, async_playwright

HERE = Path(__file__).parent
NODES = 36
MAX_BYTES = 150_000
COLOURS = 96
SEED = 7
# Name of the picture: address, colour scheme, width and height. Pods of Deployments have names that
# are made up: PLACED and WAITING are found when they are there.
PICTURES = {
    "overview": ("", "light", 1400, 1000),
    "overview-dark": ("", "dark", 1400, 1000),
    "overview-narrow": ("", "light", 420, 900),
    "pod": ("pods/PLACED", "light", 1400, 1000),
    "waiting-pod": ("pods/WAITING", "light", 1400, 1000),
    "node": ("nodes/node-4?pod=WAITING", "light", 1400, 900),
    "pending": ("pending", "light", 1400, 800),
    "what-if": ("what-if?pod=WAITING&replicas=6&cpu=1&add=2&ask=1", "light", 1400, 1000),
    "configuration": ("configuration", "light", 1400, 800),
}
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


@asynccontextmanager
async def sandbox():
    """The address that opens the page of a sandbox, once its pods are dealt with."""
    scenario = HERE / "scenario.yaml"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from kscheduler.cli import main; main()"),
        *("sandbox", f"--nodes={NODES}", f"--filename={scenario}", f"--seed={SEED}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            address = ""
            while not address:
                line = (await process.stdout.readline()).decode()
                if not line:
                    sys.exit("the sandbox ended before it printed the page's address")
                if found := re.search(r"http://\S+/open\?secret=\S+", line):
                    address = found[0]
        # Its standard output has to be read, or it would wait for us.
        reading = asyncio.create_task(process.stdout.read())
        yield address
        reading.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def settle(page: Page) -> None:
    """Waits until what is asked for after the first paint is there."""
    await page.wait_for_selector("#connection.live")
    await page.wait_for_selector(".loading", state="detached")
    # The heat map is drawn, and what arrived has stopped standing out.
    await page.wait_for_timeout(1500)


async def pods_shown(page: Page, root: str) -> dict[str, str]:
    """A pod that waits and one that is placed, once all have been tried."""
    waiting = page.locator("#reasons a", has_text=re.compile("^shop/search-")).first
    await page.goto(f"{root}pending")
    await waiting.wait_for(timeout=120_000)
    # Those that come first wait to be tried.
    await page.wait_for_timeout(5000)
    await page.goto(f"{root}pending")
    found = {"WAITING": await waiting.inner_text()}
    placed = page.locator("main a", has_text=re.compile("^shop/checkout-"))
    for number in range(NODES):
        await page.goto(f"{root}nodes/node-{number + 1}")
        if await placed.count():
            return found | {"PLACED": await placed.first.inner_text()}
    sys.exit("no pod of shop/checkout is placed")


def small(png: bytes) -> bytes:
    out = BytesIO()
    image = Image.open(BytesIO(png)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


async def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is missing: `apt-get install chromium` (as root) brings it.")
    async with sandbox() as address, async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = await browser.new_page()
        await page.goto(address)
        root = page.url
        names = await pods_shown(page, root)
        for name, (path, scheme, width, height) in PICTURES.items():
            for word, found in names.items():
                path = path.replace(word, found)
            await page.set_viewport_size({"width": width, "height": height})
            await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            await page.goto(root + path)
            await settle(page)
            picture = small(await page.screenshot())
            if len(picture) > MAX_BYTES:
                sys.exit(f"{name}: {len(picture):,} bytes are more than {MAX_BYTES:,}")
            (HERE / f"{name}.png").write_bytes(picture)
            sys.stdout.write(f"{name}.png  {len(picture):,} bytes\n")
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
