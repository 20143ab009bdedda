"""Decisions, pending pods and statuses over HTTPS: one, lists, pages, selectors, tables, errors."""

import json

from tests.kit.polling import until
from tests.serving.explanation.asking import ROOT, TABLE

HUGE = "1000"


async def test_a_decision_is_told_whole(explained):
    async with explained() as asked:
        await asked.place("p", labels={"app": "web"})
        found = (await asked.get("/namespaces/default/decisions/p")).body
        assert (found["kind"], found["apiVersion"]) == ("Decision", "kscheduler.dev/v1alpha1")
        assert found["outcome"] == "Scheduled"
        assert found["metadata"]["labels"] == {"app": "web"}
        assert len(found["last"]["scores"]["nodes"]) == 3
        assert "partial" not in found


async def test_lists_leave_out_what_there_is_per_node_unless_asked(explained):
    async with explained() as asked:
        await asked.place("fits")
        await asked.place("big", cpu=HUGE)
        by_name = {
            one["metadata"]["name"]: one for one in (await asked.get("/decisions")).body["items"]
        }
        (score,) = by_name["fits"]["last"]["scores"]["nodes"]
        assert score["node"] == by_name["fits"]["node"]
        (rejected,) = by_name["big"]["last"]["rejections"]
        assert (rejected["count"], "nodes" in rejected) == (3, False)
        whole = (await asked.get("/decisions?detail=All&fieldSelector=metadata.name=big")).body
        (rejected,) = whole["items"][0]["last"]["rejections"]
        assert len(rejected["nodes"]) == 3
        assert (await asked.get("/decisions?detail=Most")).refusal[0] == 400


async def test_lists_come_in_pages_and_by_selectors(explained):
    async with explained() as asked:
        await asked.place("a", "b", "c", labels={"app": "web"})
        await asked.place("d", namespace="other")
        await asked.place("big", cpu=HUGE)
        assert (await asked.get("/decisions")).names == ["a", "b", "big", "c", "d"]
        assert (await asked.get("/namespaces/other/decisions")).names == ["d"]
        for query, names in {
            "labelSelector=app%3Dweb": ["a", "b", "c"],
            "labelSelector=!app": ["big", "d"],
            "fieldSelector=outcome=Unschedulable": ["big"],
            "fieldSelector=outcome!=Unschedulable,metadata.namespace=default": ["a", "b", "c"],
            "fieldSelector=schedulerName=another": [],
        }.items():
            assert (await asked.get(f"/decisions?{query}")).names == names, query
        node = (await asked.get("/namespaces/default/decisions/a")).body["node"]
        on_it = (await asked.get(f"/decisions?fieldSelector=node={node}")).names
        assert "a" in on_it
        page = await asked.get("/decisions?limit=2")
        token = page.body["metadata"]["continue"]
        assert (page.names, page.body["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
        rest = await asked.get(f"/decisions?limit=10&continue={token}")
        assert rest.names == ["big", "c", "d"]
        assert "continue" not in rest.body["metadata"]


async def test_tables_and_metadata_are_given_to_whom_they_please(explained):
    async with explained() as asked:
        await asked.place("p")
        await asked.place("big", cpu=HUGE)
        table = (await asked.get("/decisions", accept=TABLE)).body
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        names = [one["name"] for one in table["columnDefinitions"]]
        rows = [dict(zip(names, one["cells"], strict=True)) for one in table["rows"]]
        assert [row["Outcome"] for row in rows] == ["Unschedulable", "Scheduled"]
        assert (rows[0]["Feasible"], rows[0]["Why"]) == ("0/3", "3 Insufficient cpu")
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        one = (await asked.get("/namespaces/default/decisions/p", accept=TABLE)).body
        assert len(one["rows"]) == 1
        partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
        listed = (await asked.get("/decisions", accept=partial)).body
        assert {frozenset(one) for one in listed["items"]} == {
            frozenset({"kind", "apiVersion", "metadata"})
        }
        refused = await asked.get("/decisions", accept="application/vnd.kubernetes.protobuf")
        assert refused.refusal[:2] == (406, "NotAcceptable")


async def test_pending_pods_are_those_of_the_queue(explained):
    async with explained() as asked:
        await asked.place("big", cpu=HUGE)
        await until(lambda: asked.daemon.scheduler.queue.sizes()["unschedulable"])
        (pod,) = (await asked.get("/pendingpods?fieldSelector=queue=Unschedulable")).body["items"]
        assert pod["unschedulablePlugins"] == ["NodeResourcesFit"]
        assert (await asked.get("/pendingpods?fieldSelector=queue=Active")).names == []
        one = (await asked.get("/namespaces/default/pendingpods/big")).body
        assert one["wakesOn"]
        table = (await asked.get("/pendingpods", accept=TABLE)).body
        assert table["rows"][0]["cells"][:2] == ["big", "Unschedulable"]


async def test_nodes_are_told_as_the_cache_has_them(explained):
    async with explained() as asked:
        await asked.place("p", cpu="500m")
        listed = await asked.get("/nodeinfos")
        node = (await asked.get("/namespaces/default/decisions/p")).body["node"]
        told = {one["metadata"]["name"]: one for one in listed.body["items"]}
        assert (told[node]["pods"], told[node]["requested"]["cpu"]) == (1, "500m")
        memory = told[node]["allocatable"]["memory"]
        assert memory.endswith("Gi")
        table = (await asked.get(f"/nodeinfos/{node}", accept=TABLE)).body
        assert table["rows"][0]["cells"][3] == f"0/{memory}"
        del told[node]["metadata"]["resourceVersion"]  # Lists and watches have versions.
        assert (await asked.get(f"/nodeinfos/{node}")).body == told[node]
        first = await asked.get("/nodeinfos?limit=1")
        token = first.body["metadata"]["continue"]
        rest = await asked.get(f"/nodeinfos?continue={token}")
        assert sorted([*first.names, *rest.names]) == sorted(told)
        query = f"labelSelector=kubernetes.io/hostname%3D{node}"
        assert (await asked.get(f"/nodeinfos?{query}")).names == [node]
        assert (await asked.get("/nodeinfos/nowhere")).refusal[0] == 404


async def test_the_scheduler_tells_of_itself(explained):
    async with explained() as asked:
        (status,) = (await asked.get("/schedulerstatuses")).body["items"]
        assert status["leader"]
        name = status["metadata"]["name"]
        assert (await asked.get(f"/schedulerstatuses/{name}")).body["identity"] == name
        code, _, told = (await asked.get("/schedulerstatuses/another")).refusal
        assert (code, "tells of itself only" in told) == (404, True)


async def test_a_decision_that_is_not_there_is_explained(explained):
    async with explained() as asked:
        await asked.place("placed")
        asked.api.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "foreign", "namespace": "default"},
                "spec": {
                    "schedulerName": "another",
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
        )
        asked.api.objects.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "gated", "namespace": "default"},
                "spec": {
                    "schedulingGates": [{"name": "wait"}],
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
        )
        pods = asked.daemon.scheduler.informers.pods
        await until(lambda: pods.get("default/foreign") and pods.get("default/gated"))

        async def why(name):
            return (await asked.get(f"/namespaces/default/decisions/{name}")).refusal

        assert (await why("nothing"))[:2] == (404, "NotFound")
        assert "knows no such pod" in (await why("nothing"))[2]
        assert 'by the scheduler "another"' in (await why("foreign"))[2]
        assert "held by its scheduling gate wait" in (await why("gated"))[2]
        log = asked.daemon.scheduler.decisions
        log._entries.clear()
        assert "before this instance began to schedule" in (await why("placed"))[2]
        log._evictions = 7
        told = (await why("placed"))[2]
        assert "7 decisions have fallen out" in told
        assert "--decision-log-bytes" in told


async def test_without_a_log_everything_else_is_still_told(explained):
    async with explained("--decision-log-bytes=0") as asked:
        await asked.place("big", cpu=HUGE)
        code, _, told = (await asked.get("/decisions")).refusal
        assert (code, "--decision-log-bytes=0" in told) == (404, True)
        await until(lambda: asked.daemon.scheduler.queue.sizes()["unschedulable"])
        assert (await asked.get("/pendingpods")).names == ["big"]
        assert (await asked.get("/schedulerstatuses")).status == 200
        pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert (await asked.review({"pods": [pod]})).status == 201


async def test_hostile_queries_are_refused_in_a_sentence(explained):
    async with explained() as asked:
        for query, code in {
            "limit=many": 400,
            "limit=-1": 400,
            "continue=%%%": 400,
            "continue=" + "A" * 3000: 400,
            "fieldSelector=spec.secret=1": 400,
            "fieldSelector=" + "a%3Db," * 2000: 400,
            "labelSelector=a+in+(": 400,
            "labelSelector=" + "a," * 5000: 400,
            "resourceVersion=new": 422,
            "resourceVersion=%C2%B2": 422,
            "resourceVersion=" + "9" * 5000: 422,
            "resourceVersion=9999999999999999999": 504,
            "limit=" + "9" * 5000: 400,
            "watch=true&timeoutSeconds=nan": 400,
            "watch=true&timeoutSeconds=soon": 400,
            "watch=true&resourceVersion=%C2%B2": 422,
            "resourceVersion=5&resourceVersionMatch=Exact": 410,
        }.items():
            refused = await asked.get(f"/decisions?{query}")
            assert refused.refusal[0] == code, (query[:40], refused.text)


async def test_other_verbs_and_paths_are_refused_as_an_api_server_does(explained):
    async with explained() as asked:
        await asked.place("p")
        one = f"{ROOT}/namespaces/default/decisions/p"
        for method, path, code in (
            ("DELETE", one, 405),
            ("PATCH", one, 405),
            ("POST", f"{ROOT}/namespaces/default/decisions", 405),
            ("GET", f"{one}/status", 404),
            ("GET", f"{ROOT}/secrets", 404),
            ("GET", f"{ROOT}/decisions/p", 404),
            ("GET", f"{ROOT}/namespaces/default/schedulerstatuses", 404),
            ("GET", f"{ROOT}/namespaces/default/placementreviews", 405),
        ):
            assert (await asked.ask(path, method=method)).refusal[0] == code, (method, path)


async def test_the_api_is_discovered(explained):
    async with explained() as asked:
        groups = (await asked.ask("/apis")).body
        assert [one["name"] for one in groups["groups"]] == ["kscheduler.dev"]
        assert (await asked.ask("/apis/kscheduler.dev")).body["kind"] == "APIGroup"
        listed = (await asked.ask(ROOT)).body
        assert {one["name"]: one["namespaced"] for one in listed["resources"]} == {
            "decisions": True,
            "pendingpods": True,
            "nodeinfos": False,
            "placementreviews": True,
            "schedulerstatuses": False,
        }
        aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        answer = await asked.ask("/apis", accept=f"{aggregated},application/json")
        assert answer.headers["Content-Type"].startswith("application/json;g=apidiscovery.k8s.io")
        assert answer.body["items"][0]["versions"][0]["resources"]
        assert (await asked.ask("/apis/apps")).status == 404


async def test_openapi_describes_every_field(explained):
    async with explained() as asked:
        index = (await asked.ask("/openapi/v3")).body
        url = index["paths"]["apis/kscheduler.dev/v1alpha1"]["serverRelativeURL"]
        schemas = (await asked.ask(url)).body["components"]["schemas"]
        own = {name: one for name, one in schemas.items() if name.startswith("dev.kscheduler.")}
        assert {"dev.kscheduler.v1alpha1.Decision", "dev.kscheduler.v1alpha1.Remedy"} <= {*own}
        for name, schema in own.items():
            assert schema["description"], name
            for field, about in schema["properties"].items():
                assert about.get("description"), f"{name}.{field} has no comment above it"
        second = (await asked.ask("/openapi/v2")).body
        assert {*second["definitions"]} == {*schemas}
        assert "components" not in json.dumps(second)
        protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        assert (await asked.ask("/openapi/v2", accept=protobuf)).status == 200
