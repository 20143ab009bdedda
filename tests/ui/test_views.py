"""Views without scripts: what they say of a scheduler at work, to whom, and in which addresses."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
import pytest_asyncio

from kscheduler.sandbox import User
from tests.integration.cluster import pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until
from tests.ui.opened import NAMESPACED, Browser

pytestmark = pytest.mark.asyncio(loop_scope="module")

HOSTILE = "<img src=x onerror=alert(1)>"
ZONE = "topology.kubernetes.io/zone"
PICKY = pod(
    "picky",
    nodeSelector={"zone": "moon"},
    tolerations=[
        {"key": "other", "operator": "Exists"},
        {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    ],
    initContainers=[{"name": "setup", "image": "x"}],
    containers=[{"name": "main", "image": "x"}, {"name": "beside", "image": "x"}],
)
URGENT = pod("urgent", cpu="7500m", priorityClassName="system-node-critical")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(house):
    """Four nodes, a pod on one of them, and some that wait for different reasons."""
    cluster = house.cluster
    cluster.create(
        node_manifest("large", cpu="8", labels={ZONE: "a"}),
        node_manifest("small-1", cpu="2", labels={ZONE: "a"}),
        node_manifest("small-2", cpu="2", labels={ZONE: "b"}),
        node_manifest("closed", cpu="8", labels={ZONE: "b"}, unschedulable=True),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        pod("web", cpu="1", labels={"app": "web"}),
    )
    await until(lambda: cluster.place("web"))
    hostile = pod("hostile", cpu="100m", schedulingGates=[{"name": "example.com/a"}])
    hostile["metadata"]["annotations"] = {"note": HOSTILE}
    cluster.create(
        pod("big", cpu="7500m"),
        pod("big", cpu="7500m", namespace="team"),
        pod("lunar", nodeSelector={"zone": "moon"}),
        hostile,
    )
    await until(lambda: cluster.complaint("big") and cluster.complaint("lunar"))
    await until(lambda: house.daemon.scheduler.decisions.get("team", "big"))
    await until(lambda: house.is_serving())
    return house


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(shop):
    async with shop.page_of() as server, Browser(server) as opened:
        await opened.open()
        yield opened


class Document(HTMLParser):
    """Elements of a page, as far as tests ask for them; rows of all tables, as texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.rows = [], [], []
        self.is_in_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.is_in_cell = True
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.is_in_cell = False

    def handle_data(self, data):
        self.text.append(data)
        if self.is_in_cell:
            self.rows[-1][-1] += data

    def all(self, tag, name):
        return [
            attributes[name]
            for one, attributes in self.elements
            if one == tag and name in attributes
        ]


async def document(browser, path, fields=None):
    """The page and its text; with fields, as the answer to a form."""
    answer = await (browser.post(path, fields) if fields else browser.get(path))
    assert answer.status == 200, answer.body
    page = Document(answer.body)
    return page, re.sub(r"\s+", " ", "".join(page.text))


async def _has(rows, text):
    return any(text in cell for row in await rows() for cell in row)


class TestOverview:
    async def test_it_says_who_decides_and_how_many_wait(self, browser):
        _, text = await document(browser, "/")
        assert "decides: 1 pod on 4 nodes, 4 pods waiting." in text

    async def test_it_has_the_room_by_zone_and_by_any_resource(self, browser):
        _, text = await document(browser, f"/?group={ZONE}&by=memory")
        assert "memory requested" in text
        _, plain = await document(browser, "/?group=&by=nonsense")
        assert "all nodes" in plain

    async def test_it_has_the_oldest_of_each_queue_and_the_decisions(self, browser):
        page, text = await document(browser, "/")
        assert "pods/default/hostile" in page.all("a", "href")
        assert "It is on large" in text

    async def test_without_scripts_the_heat_map_is_a_picture(self, browser):
        page, _ = await document(browser, "/")
        [source] = page.all("img", "src")
        answer = await browser.get(f"/{source}")
        assert answer.content_type == "image/svg+xml"
        assert answer.body.count("<title>") == 4


class TestPod:
    async def test_a_placed_pod_is_told_with_all_nodes_and_scores(self, browser):
        _, text = await document(browser, "/pods/default/web")
        assert "It is on large, one of 3 that fit of 4 nodes" in text
        assert "chosen" in text
        assert "runner-up" in text
        assert "node(s) were unschedulable" in text

    async def test_scores_can_be_seen_raw_normalized_and_weighted(self, browser):
        seen = [
            (await document(browser, f"/pods/default/web?show={how}"))[1]
            for how in ("raw", "normalized", "weighted")
        ]
        assert len(set(seen)) == 3

    async def test_rows_are_sorted_and_filtered_by_the_address(self, browser):
        _, text = await document(browser, "/pods/default/web?sort=total&filter=small")
        assert text.index("small-") > 0
        assert "2 of 4 rows" in text

    async def test_a_waiting_pod_is_told_with_what_wakes_it(self, browser):
        _, text = await document(browser, "/pods/default/big")
        assert "None of 4 nodes can take it" in text
        assert "Tried again when" in text
        assert "a node is added" in text
        assert "Who else wants the same room" in text
        assert "team/big" in text

    async def test_what_would_help_has_an_address_of_its_own(self, browser):
        page, _ = await document(browser, "/pods/default/big")
        assert "../../pods/default/big/help" in page.all("a", "href")
        _, text = await document(browser, "/pods/default/big/help")
        assert "with 7 instead of 7500m of cpu" in text

    async def test_a_pod_that_was_never_seen_is_told_as_such(self, browser):
        answer = await browser.get("/pods/default/nobody")
        assert answer.status == 404
        assert "There is none" in answer.body


class TestNode:
    async def test_it_has_its_room_its_pods_and_its_decisions(self, browser):
        _, text = await document(browser, "/nodes/large")
        assert "1 pod of 110; 7 of 8 cpu left" in text
        assert "default/web" in text
        assert "chose it" in text
        assert "rejected it" in text

    async def test_why_not_here_is_answered(self, browser):
        _, text = await document(browser, "/nodes/small-1?pod=default/big")
        assert "The last attempt rejected this node: NodeResourcesFit: Insufficient cpu." in text
        assert "Asked now, it does not fit" in text
        _, fits = await document(browser, "/nodes/small-1?pod=default/web")
        assert "The last attempt found it feasible; large scored" in fits
        assert "Asked now, it would fit on small-1." in fits

    async def test_all_nodes_are_in_a_table(self, browser):
        _, text = await document(browser, "/nodes")
        assert "4 nodes" in text
        assert "cordoned" in text

    async def test_a_node_that_is_not_there_is_not_found(self, browser):
        assert (await browser.get("/nodes/nowhere")).status == 404


class TestPending:
    async def test_pods_are_grouped_by_reason(self, browser):
        _, text = await document(browser, "/pending")
        assert "4 pods wait, for 3 reasons." in text
        assert "held by its scheduling gates: example.com/a" in text

    async def test_the_change_that_would_free_most_comes_first(self, browser):
        page, text = await document(browser, "/pending/help")
        assert page.rows[1][:2] == ["2", "2 more nodes like large: 2 of 2 would fit"]
        assert text.index("with 7 instead of 7500m of cpu") < text.index(
            "without its node selector"
        )


class TestWhatIf:
    async def test_a_question_by_address_is_answered_before_and_after(self, browser):
        _, text = await document(browser, "/what-if?pod=default/big&cpu=500m&ask=1")
        assert "As it is" in text
        assert "It does not fit: " in text
        assert "With the changes" in text
        assert "It fits, on 1 node." in text

    async def test_a_form_is_answered_and_can_be_taken_along(self, browser):
        fields = {"pod": "default/web", "replicas": "3", "drain": "large", "ask": "1"}
        answer = await browser.post("/what-if", fields)
        assert answer.status == 200
        assert "what-if?pod=default%2Fweb&amp;replicas=3&amp;drain=large&amp;ask=1" in answer.body
        assert (
            "kubectl get pod -n default web -o yaml | "
            "kscheduler what-if -f - --replicas 3 --drain large"
            in answer.body.replace("&#x27;", "'")
        )
        assert "kind: PlacementReview" in answer.body

    @pytest.mark.parametrize("pointer", ["/nodeSelector", "/nodeSelector/zone"])
    async def test_a_rule_can_be_left_out(self, browser, pointer):
        _, text = await document(
            browser, f"/what-if?pod=default/lunar&without={quote(pointer)}&ask=1"
        )
        assert "It fits, on 1 node." in text

    async def test_rules_and_containers_of_a_pod_are_listed_to_be_changed(self, browser):
        page, text = await document(browser, "/what-if", {"manifest": json.dumps(PICKY)})
        boxes = [
            fields["value"]
            for tag, fields in page.elements
            if tag == "input" and fields.get("name") == "without"
        ]
        assert boxes == ["/nodeSelector/zone", "/tolerations/0", "/tolerations/1"]
        assert "dedicated=gpu:NoSchedule" in text
        names = page.all("input", "name")
        assert {f"request:{name}:cpu" for name in ("setup", "main", "beside")} <= {*names}
        assert ["setup init container", "", ""] in page.rows

    async def test_rules_and_containers_are_changed_one_by_one(self, browser):
        fields = {"manifest": json.dumps(PICKY), "without": "/nodeSelector/zone", "ask": "1"}
        _, text = await document(browser, "/what-if", {**fields, "request:beside:cpu": "200m"})
        assert "It fits, on 1 node." in text
        assert "request%3Abeside%3Acpu=200m" in text
        assert "kscheduler what-if -f review.yaml" in text
        assert "key: dedicated" in text
        _, text = await document(browser, "/what-if", {**fields, "request:setup:cpu": "9"})
        assert "It does not fit: " in text
        fields["without"] = "/tolerations/1"
        _, text = await document(browser, "/what-if", fields)
        assert "key: dedicated" not in text
        assert "key: other" in text

    async def test_added_nodes_are_on_the_map_and_told_as_added(self, browser):
        _, text = await document(browser, "/what-if?pod=default/big&add=2&ask=1")
        assert "It fits" in text
        assert "+ added" in text
        assert re.search(r"\w+-new-\d added", text)
        answer = await browser.get(f"/data/nodes?group={ZONE}&add=2&like=large&remove=small-1")
        data = json.loads(answer.body)
        assert [data["names"][i] for i in data["added"]] == ["large-new-0", "large-new-1"]
        assert data["groups"][0] == {"name": "added", "nodes": data["added"]}
        shown = {data["names"][i] for group in data["groups"] for i in group["nodes"]}
        assert shown == {"large", "closed", "small-2", "large-new-0", "large-new-1"}
        picture = await browser.get("/heatmap.svg?add=2&like=large")
        assert "large-new-1" in picture.body

    async def test_drained_nodes_are_crossed_out_on_the_map(self, browser):
        data = json.loads((await browser.get("/data/nodes?drain=small-1&cordon=large")).body)
        names = {data["names"][i] for i in data["cordoned"]}
        assert names == {"small-1", "large", "closed"}

    async def test_nodes_that_are_as_good_are_named(self, browser):
        page, _ = await document(browser, "/what-if?pod=default/web&cordon=large&ask=1")
        [row] = [row for row in page.rows if row[0].startswith("default/web")]
        assert row[1] == "large"
        assert row[2] in ("small-1", "small-2")
        assert row[3:] == ["small-1, small-2", "one of 2 equal nodes"]

    async def test_victims_where_they_go_next_and_budgets_left_are_told(self, shop, browser):
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        }
        shop.cluster.create(budget)
        fields = {"manifest": json.dumps(URGENT), "preempt": "yes", "ask": "1"}

        async def rows():
            page, _ = await document(browser, "/what-if", {**fields, "replicas": "1"})
            return page.rows

        await until(lambda: _has(rows, "▲ exceeded by 1"), "the budget is known")
        found = await rows()
        victim = next(row for row in found if row[-1].startswith("web ▲"))
        assert victim[:3] == ["default/web", "0", "default/urgent"]
        assert victim[3] in ("small-1", "small-2")
        assert ["default/web", "0", "-1", "▲ exceeded by 1"] in found

    async def test_a_pasted_pod_is_asked_about(self, browser):
        manifest = json.dumps(pod("pasted"))
        answer = await browser.post("/what-if", {"manifest": manifest, "ask": "1"})
        assert "It fits, on 1 node." in answer.body

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({}, "Name a pod of the cluster, paste one, or name a node to drain."),
            ({"pod": "web"}, "Name the pod by namespace/name."),
            ({"pod": "default/none"}, "not found"),
            ({"pod": "default/web", "replicas": "many"}, "replicas has to be a number"),
            ({"pod": "default/web", "cpu": "lots"}, "quantities must match"),
            ({"drain": "nowhere"}, "nowhere"),
            ({"manifest": "kind: {"}, "The manifest cannot be read"),
            ({"manifest": "kind: Service"}, "The manifest has to be one Pod."),
            ({"manifest": "kind: Pod\nspec: 1"}, "This cannot be answered"),
            ({"manifest": "a: &a [*a]\nkind: Pod"}, "This cannot be answered"),
        ],
    )
    async def test_nonsense_is_answered_in_a_sentence(self, browser, fields, said):
        answer = await browser.post("/what-if", {**fields, "ask": "1"})
        assert answer.status in (200, 422)
        assert said in answer.body


class TestConfiguration:
    async def test_plugins_are_shown_in_call_order_with_weights(self, browser):
        _, text = await document(browser, "/configuration")
        assert "Profile default-scheduler" in text
        assert "TaintToleration \u00d73".replace(" ", "") in text.replace(" ", "")
        assert "NodeResourcesFit" in text

    async def test_two_files_are_compared_by_what_they_do(self, browser):
        new = """
            apiVersion: kubescheduler.config.k8s.io/v1
            kind: KubeSchedulerConfiguration
            profiles: [{plugins: {score: {disabled: [{name: ImageLocality}]}}}]
        """
        answer = await browser.post("/configuration", {"old": "", "new": new})
        assert "ImageLocality: off" in answer.body
        bad = await browser.post("/configuration", {"old": "kind: [", "new": ""})
        assert "The first file cannot be read." in bad.body


class TestFind:
    @pytest.mark.parametrize(
        ("name", "where"),
        [
            ("default/web", "pods/default/web"),
            ("large", "nodes/large"),
            ("web", "pods/default/web"),
            ("lunar", "pods/default/lunar"),
            ("nobody", "nodes/nobody"),
            ("../x", "pods/../x"),
        ],
    )
    async def test_a_name_leads_to_its_view(self, browser, name, where):
        answer = await browser.get("/find", params={"name": name}, allow_redirects=False)
        assert (answer.status, answer.headers["Location"]) == (303, where)


class TestRights:
    async def test_without_rights_nothing_of_the_cluster_is_shown(self, shop):
        async with shop.page_of("nobody-in-particular") as server, Browser(server) as browser:
            await browser.open()
            for path in (
                "/",
                "/nodes",
                "/pending",
                "/pods/default/web",
                "/nodes/large",
                "/configuration",
            ):
                answer = await browser.get(path)
                assert "You may not see this" in answer.body, path
                assert "small-1" not in answer.body, path
                assert "It is on" not in answer.body, path
            for path in ("/data/nodes", "/data/pending", "/data/pods/default/web/nodes"):
                assert (await browser.get(path)).status == 403

    async def test_a_tenant_sees_its_namespace_and_counts_of_nodes(self, shop):
        shop.let_in("tenant", "team", NAMESPACED)
        async with shop.page_of("tenant", "team") as server, Browser(server) as browser:
            await browser.open()
            _, text = await document(browser, "/pending")
            assert "1 pod waits" in text
            assert "You see namespace team" in text
            assert "default/" not in text
            _, text = await document(browser, "/pods/team/big")
            assert "Partial view" in text
            for name in ("large", "small-1", "small-2", "closed"):
                assert name not in text
            assert (await browser.get("/pods/default/web")).status == 403
            assert (await browser.get("/nodes")).status == 403
            _, text = await document(browser, "/")
            assert "You see counts: listing nodes is not allowed to you." in text
            assert "default/" not in text
            fields = {"pod": "team/big", "request:c:cpu": "100m", "replicas": "2", "ask": "1"}
            _, text = await document(browser, "/what-if", fields)
            assert "Both fit" in text
            assert "Names of nodes are left out" in text
            for name in ("large", "small-1", "small-2", "closed", "Equally good small"):
                assert name not in text
            assert "default/web" not in text

    async def test_what_is_asked_is_asked_as_the_user(self, shop):
        user = User("reader", ("system:masters",))
        async with shop.page_of(user) as server, Browser(server) as browser:
            await browser.open()
            assert (await browser.get("/pods/default/web")).status == 200


class TestAddresses:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/nodes",
            "/nodes/large",
            "/pods/default/web",
            "/pods/default/big/help",
            "/pending",
            "/what-if",
            "/configuration",
        ],
    )
    async def test_all_are_relative_and_of_this_page(self, browser, path):
        page, _ = await document(browser, path)
        for tag, name in (
            ("a", "href"),
            ("link", "href"),
            ("script", "src"),
            ("form", "action"),
            ("img", "src"),
        ):
            for address in page.all(tag, name):
                assert not re.match(r"/|[a-z]+:", address), address

    async def test_no_attribute_is_code_or_style(self, browser):
        for path in ("/", "/nodes", "/pods/default/web", "/what-if"):
            page, _ = await document(browser, path)
            for _, attributes in page.elements:
                assert not [name for name in attributes if name.startswith("on") or name == "style"]


class TestLive:
    async def test_changes_are_numbered_without_gaps(self, shop, browser):
        async with browser.events() as read:
            event, number, hello = await read()
            assert event == "hello"
            shop.cluster.create(pod("late", cpu="100m"))
            seen = []
            while not any(one[0] == "decisions" for one in seen):
                seen.append(await read())
            assert [one[1] for one in seen] == list(range(number + 1, number + 1 + len(seen)))
            told = seen[-1][2]
            assert told["items"][-1]["pod"] == "default/late"
            assert told["items"][-1]["outcome"] == "Scheduled"
        # Whoever was away gets what was missed, and what cannot be had any more is said so.
        async with browser.events(f"/events?epoch={hello['epoch']}&since={number}") as read:
            assert (await read())[:2] == ("hello", number)
            assert (await read()) == seen[0]
        async with browser.events("/events?epoch=another&since=0") as read:
            assert (await read())[0] == "reset"
