"""The page in Chromium: drawn, live, by keyboard, spoken, and deaf to hostile names."""

import asyncio
import json
import re
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.integration.cluster import pod
from tests.kit.chromium import chromium, tab_on
from tests.kit.manifests import node_manifest
from tests.kit.polling import until
from tests.ui.nobody import Nobody

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HOSTILE = "<img src=x onerror=alert(1)>"
ZONE = "topology.kubernetes.io/zone"
ON_LARGE = {"kubernetes.io/hostname": "large"}
VIEWS = (
    "",
    "nodes",
    "nodes/large",
    "pods/default/web",
    "pods/default/big",
    "pending",
    "what-if",
    "what-if?pod=default/big&cpu=500m&replicas=3&ask=1",
    "configuration",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(house):
    cluster = house.cluster
    cluster.create(
        node_manifest("large", cpu="8", labels={ZONE: "a"}),
        node_manifest("small-1", cpu="2", labels={ZONE: "a"}),
        node_manifest("small-2", cpu="2", labels={ZONE: "b"}),
        pod("web", cpu="1"),
    )
    await until(lambda: cluster.place("web"))
    picky = pod(
        "picky",
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "dedicated", "operator": "Exists"}],
        containers=[{"name": "main", "image": "x"}, {"name": "beside", "image": "x"}],
    )
    cluster.create(pod("big", cpu="7500m"), picky)
    await until(lambda: cluster.complaint("big") and cluster.complaint("picky"))
    await until(house.is_serving)
    return house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with chromium() as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def tab(shop, browser):
    async with shop.page_of() as server, tab_on(browser, server) as opened:
        yield opened
        assert await opened.complaints() == []


@pytest.mark.parametrize("view", VIEWS)
async def test_every_view_is_drawn_without_complaints(tab, view):
    assert await tab.go(view) == 200
    await tab.page.wait_for_selector("#connection.live")
    assert await tab.page.locator("main h1").count() == 1


async def test_without_scripts_every_view_is_there(shop, browser):
    async with (
        shop.page_of() as server,
        tab_on(browser, server, java_script_enabled=False) as tab,
    ):
        for view in VIEWS:
            assert await tab.go(view) == 200
        await tab.go("pods/default/big")
        await tab.page.click("text=Ask for the smallest change")
        assert await tab.page.locator("text=with 7 instead of 7500m").count() == 1
        await tab.go("")
        assert await tab.page.locator("noscript img, .heat img").first.is_visible()


async def test_decisions_appear_as_they_are_made(shop, tab):
    await tab.go("")
    await tab.page.wait_for_selector("#connection.live")
    shop.cluster.create(pod("newcomer", cpu="100m"))
    row = tab.page.locator(".stream li", has_text="default/newcomer")
    await row.wait_for()
    assert "It is on" in await row.inner_text()
    # And what is drawn by the server follows.
    count = shop.daemon.scheduler.cache.pod_count
    await tab.page.wait_for_selector(f"#who >> text=/{count} pods on/")


async def test_nodes_that_take_long_to_read_are_waited_for(shop, browser):
    async with shop.page_of() as server:
        read, may_read = server.cluster.source.list, asyncio.Event()

        async def slow_list(resource, *others):
            if resource.plural == "nodeinfos":
                await may_read.wait()
            return await read(resource, *others)

        server.cluster.source.list = slow_list
        async with tab_on(browser, server) as tab:
            assert "Reading the nodes" in await tab.page.inner_text("#room")
            asked = []
            tab.page.on("request", lambda request: asked.append(request.url.partition("?")[0]))
            await until(lambda: asked.count(f"{tab.root}/") >= 3, "it is asked for several times")
            may_read.set()
            await tab.heat_map()
            # The picture is for those without scripts.
            assert f"{tab.root}/heatmap.svg" not in asked


async def test_the_heat_map_follows_the_cluster(shop, tab):
    await tab.go("?by=pods")
    await tab.heat_map()
    await tab.page.wait_for_selector("#connection.live")
    await tab.page.locator("canvas").focus()
    reading = tab.page.locator(".reading")
    before = await reading.inner_text()
    assert before.startswith("large: ")
    for number in range(2):
        shop.cluster.create(pod(f"pinned-{number}", cpu="50m", nodeSelector=ON_LARGE))
    await until(lambda: shop.cluster.place("pinned-1"))

    async def is_other():
        text = await reading.inner_text()
        return text.startswith("large: ") and text != before

    await until(is_other, "the node under the cursor is told anew")


async def test_long_tables_keep_their_place_when_they_are_read_again(shop, tab):
    await tab.go("nodes")
    await tab.page.wait_for_selector(".grid.drawn")
    await tab.page.wait_for_selector("#connection.live")
    await tab.page.click("th button:has-text('Pods')")
    await tab.page.evaluate("document.querySelector('.grid').dataset.here = 'yes'")
    count = tab.page.locator("tr", has_text="large").locator("td").nth(6)
    before = await count.inner_text()
    shop.cluster.create(pod("one-more", cpu="50m", nodeSelector=ON_LARGE))

    async def is_counted():
        return await count.inner_text() != before

    await until(is_counted, "the table has the new number")
    assert await tab.page.locator(".grid[data-here=yes]").count() == 1
    assert await tab.page.locator("th[aria-sort=descending]").inner_text() == "Pods"


async def test_a_pods_view_follows_its_attempts(shop, tab):
    shop.cluster.create(pod("later", cpu="100m", schedulingGates=[{"name": "example.com/g"}]))
    await until(lambda: shop.daemon.scheduler.queue.get("default/later"))
    await tab.go("pods/default/later")
    await tab.page.wait_for_selector("#connection.live")
    assert "Held by its scheduling gate" in await tab.page.inner_text("main")
    shop.cluster.api.objects.update(
        "pods", "later", lambda stored: stored["spec"].pop("schedulingGates")
    )
    await tab.page.wait_for_selector("#answer .badge.placed", timeout=20000)
    # Parts that a waiting pod does not have appear, and those of a waiting pod go.
    await tab.page.wait_for_selector("#nodes .grid.drawn")
    assert await tab.page.locator("#waits").count() == 0


async def test_a_lost_connection_is_said_and_found_again(shop, browser):
    async with shop.page_of() as server, tab_on(browser, server) as tab:
        await tab.page.wait_for_selector("#connection.live")
        await tab.page.context.set_offline(True)
        # An open stream outlives that switch: a new one does not.
        await tab.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        await tab.page.context.set_offline(False)
        await tab.page.wait_for_selector("#connection.live")


async def test_the_page_that_outlives_its_server_says_so(shop, browser):
    async with shop.page_of() as server:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(server.address)
        await page.wait_for_selector("#connection.live")
    await page.wait_for_selector("#connection.lost")
    assert "connection lost" in await page.inner_text("#connection")
    await context.close()


async def test_a_scheduler_that_is_away_is_said_and_its_return_seen(shop, browser):
    async with shop.page_of() as server:
        source = server.cluster.source
        server.cluster.source = Nobody()
        async with tab_on(browser, server) as tab:
            await tab.go("pods/default/web")
            assert "The scheduler does not answer" in await tab.page.inner_text("main")
            await tab.page.wait_for_selector("#connection.lost")
            assert await tab.page.inner_text("#connection") == "scheduler away"
            server.cluster.source = source
            await tab.page.wait_for_selector("#connection.live", timeout=40000)
            await tab.page.wait_for_selector("#answer .badge.placed")


async def test_the_heat_map_is_read_and_opened_by_keyboard(tab):
    await tab.go("")
    canvas = tab.page.locator("canvas")
    await tab.heat_map()
    await canvas.focus()
    reading = tab.page.locator(".reading")
    assert (await reading.inner_text()).startswith("large: cpu")
    await tab.page.keyboard.press("ArrowRight")
    assert (await reading.inner_text()).startswith("small-1: cpu")
    await tab.page.keyboard.press("End")
    assert (await reading.inner_text()).startswith("small-2: cpu")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url("**/nodes/small-2")


async def test_a_pod_is_found_and_explained_by_keyboard(tab):
    await tab.go("")
    for _ in range(20):
        await tab.page.keyboard.press("Tab")
        if await tab.page.evaluate("document.activeElement.id") == "find":
            break
    await tab.page.keyboard.type("default/web")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url("**/pods/default/web")
    assert "It is on large" in await tab.page.inner_text("#answer")


async def test_a_what_if_is_asked_by_keyboard(tab):
    await tab.go("what-if")
    await tab.page.focus("#pod")
    await tab.page.keyboard.type("default/big")
    for name, text in (("replicas", ""), ("cpu", "500m")):
        await tab.page.keyboard.press("Tab")
        assert await tab.page.evaluate("document.activeElement.id") == name
        await tab.page.keyboard.type(text)
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_selector("#outcome")
    assert "It fits, on 1 node." in await tab.page.inner_text("#outcome")
    await tab.heat_map()


async def press_tab_until(page, condition):
    """Moves the focus on until an expression about `it`, the focused element, holds."""
    for _ in range(60):
        await page.keyboard.press("Tab")
        if await page.evaluate(f"((it) => {condition})(document.activeElement)"):
            return
    raise AssertionError(f"no element to focus is {condition}")


async def test_rules_and_containers_are_changed_by_keyboard(shop, tab):
    """From the navigation to the answer, without a pointer and without knowing any id."""
    page = tab.page
    await tab.go("")
    await press_tab_until(page, "it.textContent === 'What if'")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/what-if")
    await press_tab_until(page, "it.id === 'pod'")
    await page.keyboard.type("default/picky")
    await page.keyboard.press("Tab")
    await page.locator("#pod-parts fieldset").first.wait_for()
    await press_tab_until(page, "it.value === '/nodeSelector/disk'")
    await page.keyboard.press("Space")
    await press_tab_until(page, "it.name === 'request:beside:cpu'")
    await page.keyboard.type("200m")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#outcome")
    assert "It does not fit" in await page.inner_text("#as-it-is")
    assert "It fits, on 1 node." in await page.inner_text("#with-the-changes")
    # The form has what was asked, and what was not stays as it was.
    assert await page.locator("input[value='/nodeSelector/disk']").is_checked()
    assert not await page.locator("input[value='/tolerations/0']").is_checked()
    assert await page.input_value("input[name='request:beside:cpu']") == "200m"
    assert "disk: ssd" not in await page.inner_text("#take")
    assert "key: dedicated" in await page.inner_text("#take")


async def test_added_nodes_are_read_on_the_map_as_added(tab):
    await tab.go("what-if?pod=default/big&add=2&like=large&ask=1")
    await tab.heat_map()
    await tab.page.locator("#with-the-changes canvas").focus()
    reading = tab.page.locator("#with-the-changes .reading")
    texts = []
    for key in ("Home", "ArrowRight", "ArrowRight"):
        await tab.page.keyboard.press(key)
        texts.append(await reading.inner_text())
    assert all(text.startswith(f"large-new-{n}: ") for n, text in enumerate(texts[:2]))
    assert all(", added" in text for text in texts[:2])
    assert [", 1 would come here" in text for text in texts].count(True) == 1
    assert "added" not in texts[2]
    # It has no view of its own.
    await tab.page.keyboard.press("Home")
    await tab.page.keyboard.press("Enter")
    assert "what-if" in tab.page.url


async def test_what_is_asked_can_be_copied_as_command_and_as_yaml(shop, browser):
    permissions = ["clipboard-read", "clipboard-write"]
    async with shop.page_of() as server, tab_on(browser, server, permissions=permissions) as tab:
        await tab.go("what-if?pod=default/big&drain=small-1&ask=1")
        for label, text in (
            ("Address", f"{tab.root}/what-if?pod=default%2Fbig&drain=small-1&ask=1"),
            ("Command", "kscheduler what-if -f - --drain small-1"),
            ("YAML", "kind: PlacementReview"),
        ):
            row = tab.page.locator(".copy", has=tab.page.locator(f".label:text-is('{label}')"))
            await row.locator("button").click()
            await row.locator("button:text-is('Copied')").wait_for()
            assert text in await tab.page.evaluate("navigator.clipboard.readText()")


async def test_long_tables_are_sorted_filtered_and_remembered_in_the_address(tab):
    await tab.go("nodes")
    await tab.page.wait_for_selector(".grid.drawn")
    await tab.page.click("th button:has-text('free, cores')")
    first = tab.page.locator("tbody tr td").first
    assert await first.inner_text() == "large"
    await tab.page.fill("input[name=filter]", "small")
    await tab.page.wait_for_selector("text=2 of 3 rows")
    assert "sort=-cpu-free&filter=small" in tab.page.url
    await tab.page.reload()
    await tab.page.wait_for_selector(".grid.drawn")
    assert await tab.page.locator("tbody tr").count() == 2


async def test_what_is_spoken_of_the_overview(tab):
    await tab.go("")
    await tab.page.wait_for_selector("#connection.live")
    spoken = await tab.page.locator("body").aria_snapshot()
    for text in (
        'link "To the content"',
        'navigation "Views"',
        'heading "Overview" [level=1]',
        'searchbox "Pod or node"',
        'heading "Room" [level=2]',
        'combobox "Group by"',
        'application "cpu in use on 3 nodes',
        'region "Waiting pods by queue"',
        'columnheader "Oldest"',
    ):
        assert text in spoken, spoken


async def test_what_is_spoken_of_a_pod(tab):
    await tab.go("pods/default/web")
    await tab.page.wait_for_selector(".grid.drawn")
    spoken = await tab.page.locator("main").aria_snapshot()
    assert 'heading "default/web' in spoken
    assert 'region "Nodes for default/web"' in spoken
    assert 'columnheader "Total' in spoken, spoken
    assert 'row "large chosen' in spoken


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        (
            "pods/default/big",
            (
                'heading "default/big Unschedulable" [level=1]',
                'heading "What would help" [level=2]',
                'region "Rejected nodes by reason"',
                'columnheader "Short by"',
                'heading "Tried again when" [level=3]',
            ),
        ),
        (
            "nodes/large",
            (
                'heading "large" [level=1]',
                '% of cpu requested"',
                'combobox "Pod"',
                'region "Pods on this node"',
                'region "Decisions about this node"',
            ),
        ),
        (
            "nodes",
            ('searchbox "Filter"', 'region "All nodes"', 'button "Node"', 'link "small-1"'),
        ),
        (
            "pending",
            (
                'region "Waiting pods by reason"',
                'link "List pods that wait for: Insufficient cpu"',
                'region "All waiting pods"',
                'region "Changes that would free pods"',
            ),
        ),
        (
            "what-if?pod=default/picky&without=/nodeSelector&add=1&ask=1",
            (
                'heading "As it is" [level=2]',
                'heading "With the changes" [level=2]',
                'application "cpu in use on 4 nodes',
                'region "Pods that would come, by node"',
                'group "Node selector"',
                'checkbox "disk=ssd"',
                'textbox "cpu of container beside"',
                'combobox "A pod of the cluster"',
                'checkbox "Pods of lower priority may be evicted"',
                'button "Ask"',
            ),
        ),
        (
            "configuration",
            (
                'region "Plugins of default-scheduler in the order of their calls"',
                'textbox "One KubeSchedulerConfiguration (empty: the defaults)"',
                'button "Compare"',
            ),
        ),
    ],
)
async def test_what_is_spoken_of_other_views(tab, view, texts):
    await tab.go(view)
    await tab.page.wait_for_selector("#connection.live")
    await tab.page.wait_for_selector(".loading", state="detached")
    spoken = await tab.page.locator("main").aria_snapshot()
    for text in texts:
        assert text in spoken, spoken


async def test_everything_to_be_used_has_a_name(tab):
    """As a screen reader would say it: no link, button or field without one."""
    for view in VIEWS:
        await tab.go(view)
        await tab.page.wait_for_selector("#connection.live")
        spoken = await tab.page.locator("body").aria_snapshot()
        kinds = r"^ *- (link|button|textbox|searchbox|combobox|checkbox|img|region)(:| \[|$)"
        assert re.findall(kinds, spoken, re.MULTILINE) == [], spoken


def hostile_all_over():
    """A pod that is hostile wherever a text is free."""
    return {
        "kind": "Pod",
        "metadata": {"name": HOSTILE, "labels": {HOSTILE: HOSTILE}, "annotations": {"a": HOSTILE}},
        "spec": {
            "nodeSelector": {HOSTILE: HOSTILE},
            "tolerations": [{"key": HOSTILE, "value": HOSTILE, "effect": HOSTILE}],
            "schedulingGates": [{"name": HOSTILE}],
            "containers": [{"name": HOSTILE, "resources": {"requests": {HOSTILE: HOSTILE}}}],
        },
    }


async def test_hostile_texts_do_nothing(shop, browser):
    """No API server takes such names; a page must not depend on that."""
    cluster, decisions = shop.cluster, shop.daemon.scheduler.decisions
    hostile = pod("hostile", cpu="100m", nodeSelector={"x": "y"})
    hostile["metadata"]["annotations"] = {"note": HOSTILE}
    cluster.create(hostile)
    await until(lambda: cluster.complaint("hostile"))
    entry = decisions._entries["default", HOSTILE] = decisions._entries.pop(("default", "hostile"))
    entry.name = entry.last.message = HOSTILE
    async with shop.page_of() as server, tab_on(browser, server) as tab:
        await tab.page.locator(".stream", has_text=HOSTILE).wait_for()
        for view in (
            f"pods/default/{quote(HOSTILE, safe='')}",
            f"find?name={quote(HOSTILE)}",
            f"nodes?filter={quote(HOSTILE)}",
            f"what-if?pod={quote(HOSTILE)}&manifest={quote(HOSTILE)}&ask=1",
            f"what-if?manifest={quote(json.dumps(hostile_all_over()))}&ask=1",
            f"what-if?pod=default/web&{quote(f'request:{HOSTILE}:cpu')}=1&drain={HOSTILE}&ask=1",
        ):
            await tab.go(view)
            assert await tab.page.locator("main img").count() == 0
            complaints = await tab.complaints()
            # Browsers report every 404 as a failure to load.
            assert [text for text in complaints if "Failed to load" not in text] == []


async def test_dark_and_narrow_are_legible(shop, browser):
    """Contrast of text of the frame, as WCAG 2.2 AA asks for: 4.5."""
    script = """() => {
        const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
        const light = (rgb) => {
            const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            const [r, g, b] = rgb.map((v) => linear(v / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const ground = (one) => {
            for (let at = one; at; at = at.parentElement) {
                const colour = getComputedStyle(at).backgroundColor;
                if (!/, 0\\)$|transparent/.test(colour)) return colour;
            }
            return "rgb(255,255,255)";
        };
        let worst = 99, where = "";
        for (const one of document.querySelectorAll("main *, header *, footer")) {
            const isText = (child) => child.nodeType === 3 && child.data.trim();
            if (![...one.childNodes].some(isText)) continue;
            const style = getComputedStyle(one);
            if (style.visibility === "hidden" || !one.getClientRects().length) continue;
            const a = light(parse(style.color)), b = light(parse(ground(one)));
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (contrast < worst) { worst = contrast; where = one.outerHTML.slice(0, 200); }
        }
        return [worst, where];
    }"""
    async with shop.page_of() as server, tab_on(browser, server) as tab:
        for scheme in ("light", "dark"):
            await tab.page.emulate_media(color_scheme=scheme)
            for width in (1400, 380):
                await tab.page.set_viewport_size({"width": width, "height": 800})
                for view in VIEWS:
                    await tab.go(view)
                    worst, where = await tab.page.evaluate(script)
                    assert worst >= 4.5, (scheme, where)
                    wide = await tab.page.evaluate("document.documentElement.scrollWidth")
                    assert wide <= width, (view, width)
