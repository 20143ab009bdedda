"""The way in: a secret that works once, a cookie of this process, its own Host and Origin."""

import pytest

from kscheduler.ui.guard import CONTENT_SECURITY_POLICY
from kscheduler.ui.server import Server
from tests.ui.nobody import Nobody
from tests.ui.opened import Browser

VIEWS = ("/", "/nodes", "/pending", "/what-if", "/configuration", "/events", "/data/nodes")


@pytest.fixture
async def server():
    """The page of no cluster: the way in is the same."""
    async with Server(Nobody()).serving() as page:
        yield page


@pytest.fixture
async def browser(server):
    """A browser that has opened the page."""
    async with Browser(server) as opened:
        await opened.open()
        yield opened


@pytest.fixture
async def stranger(server):
    """Somebody else on the machine."""
    async with Browser(server) as one:
        yield one


class TestSecret:
    @pytest.mark.parametrize("path", [*VIEWS, "/static/page.js", "/static/style.css", "/nowhere"])
    async def test_without_it_nothing_is_served(self, stranger, path):
        answer = await stranger.get(path)
        assert answer.status == 403
        assert "<main" not in answer.body

    async def test_it_opens_the_page_and_is_taken_out_of_the_address(self, server):
        async with Browser(server) as one:
            answer = await one.open()
            assert (answer.status, answer.url.query_string) == (200, "")
            assert [step.status for step in answer.history] == [303]

    async def test_it_works_once(self, server, stranger):
        address = server.address
        async with Browser(server) as one:
            await one.open()
        answer = await stranger.get(address.split(str(server.port), 1)[1])
        assert answer.status == 403
        assert (await stranger.get("/")).status == 403

    async def test_whoever_has_opened_it_may_do_so_again(self, server):
        address = server.address.split(str(server.port), 1)[1]
        async with Browser(server) as one:
            await one.get(address)
            assert (await one.get(address)).status == 200

    async def test_a_wrong_one_is_refused(self, stranger):
        assert (await stranger.get("/open?secret=guess")).status == 403
        assert (await stranger.get("/open")).status == 403

    async def test_the_cookie_is_for_this_site_alone_and_not_for_scripts(self, server):
        async with Browser(server) as one:
            path = server.address.split(str(server.port), 1)[1]
            answer = await one.get(path, allow_redirects=False)
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie

    async def test_the_cookie_of_another_process_is_refused(self, browser):
        async with Server(Nobody()).serving() as other:
            [cookie] = [one.value for one in browser.session.cookie_jar]
            async with Browser(other) as one:
                one.session.cookie_jar.update_cookies({other.guard.cookie: cookie})
                assert (await one.get("/")).status == 403


class TestOrigin:
    @pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", ""])
    async def test_another_host_is_refused(self, server, browser, host):
        answer = await browser.get("/", headers={"Host": host.format(port=server.port)})
        assert answer.status == 403

    async def test_localhost_is_the_same_machine(self, server, browser):
        answer = await browser.get("/", headers={"Host": f"localhost:{server.port}"})
        # The name is allowed; the cookie is sent by this client all the same.
        assert answer.status == 200

    @pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
    async def test_a_request_of_another_site_is_refused(self, browser, origin):
        assert (await browser.get("/", headers={"Origin": origin})).status == 403
        assert (await browser.post("/what-if", {}, headers={"Origin": origin})).status == 403

    async def test_a_form_without_an_origin_is_refused(self, browser):
        assert (await browser.post("/what-if", {}, headers={"Origin": None})).status == 403

    @pytest.mark.parametrize("site", ["cross-site", "same-site"])
    async def test_a_script_of_another_site_is_refused(self, browser, site):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert (await browser.get("/data/nodes", headers=headers)).status == 403

    async def test_a_link_from_elsewhere_leads_on(self, stranger):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        answer = await stranger.get("/pending?filter=a", headers=headers)
        assert answer.status == 403
        assert 'href="./pending?filter=a"' in answer.body


class TestHeaders:
    @pytest.mark.parametrize("path", ["/", "/nodes", "/nowhere", "/static/page.js", "/data/nodes"])
    async def test_every_answer_has_the_policy(self, browser, path):
        answer = await browser.get(path)
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"

    async def test_refusals_have_it_too(self, stranger):
        answer = await stranger.get("/")
        assert answer.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY

    async def test_nothing_is_kept_by_the_browser_but_files(self, browser):
        assert (await browser.get("/")).headers["Cache-Control"] == "no-store"
        first = await browser.get("/static/page.js")
        tag = {"If-None-Match": first.headers["ETag"]}
        assert (await browser.get("/static/page.js", headers=tag)).status == 304

    @pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e%2fserver.py"])
    async def test_only_files_of_the_page_are_files(self, browser, path):
        assert (await browser.get(path)).status == 404
