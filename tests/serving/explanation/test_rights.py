"""What each kind of asker sees: nobody, one namespace's tenant, one that lists nodes, all."""

import pytest

from tests.kit.polling import until
from tests.serving.explanation.asking import (
    ALL,
    API,
    GET_PODS,
    NOBODY,
    NODES,
    TENANT,
    grant,
)

HUGE = "1000"


async def test_without_the_right_to_the_resource_nothing_is_told(explained):
    async with explained() as asked:
        await asked.place("p")
        code, reason, told = (await asked.get("/namespaces/default/decisions/p", NOBODY)).refusal
        assert (code, reason) == (403, "Forbidden")
        assert told == (
            'decisions.kscheduler.dev "p" is forbidden: User "nobody" cannot get resource '
            '"decisions" in API group "kscheduler.dev" in the namespace "default"'
        )
        for path in (
            "/decisions",
            "/pendingpods",
            "/schedulerstatuses",
            "/namespaces/other/decisions",
        ):
            assert (await asked.get(path, NOBODY)).refusal[0] == 403, path
        assert (await asked.get("/decisions", TENANT)).refusal[0] == 403
        assert (await asked.get("/namespaces/other/decisions", TENANT)).refusal[0] == 403


async def test_decisions_without_the_right_to_the_pods_are_refused_with_the_right_that_is_missing(
    explained,
):
    async with explained() as asked:
        await asked.place("p", namespace="other")
        for path in ("/namespaces/other/decisions/p", "/namespaces/other/decisions"):
            code, _, told = (await asked.get(path, NODES)).refusal
            assert code == 403
            assert 'the right "get" on "pods" in the namespace "other" is needed' in told


@pytest.mark.parametrize(
    ("user", "names_nodes"), [(TENANT, False), (NODES, True), (ALL, True)], ids=str
)
async def test_nodes_are_named_to_whom_may_list_them(explained, user, names_nodes):
    async with explained() as asked:
        await asked.place("fits")
        await asked.place("big", cpu=HUGE)
        fits = await asked.get("/namespaces/default/decisions/fits", user)
        big = await asked.get("/namespaces/default/decisions/big", user)
        assert fits.body.get("partial", False) is not names_nodes
        own = fits.body["node"]
        others = {f"node-{number}" for number in range(3)} - {own}
        # The pod's own node is no secret: the pod tells it.
        assert own in fits.text
        assert any(name in fits.text for name in others) is names_nodes
        assert ("node-" in big.text) is names_nodes
        (rejected,) = big.body["last"]["rejections"]
        assert rejected["count"] == 3
        assert rejected["shortage"]["asked"] == HUGE
        listed = await asked.get("/namespaces/default/decisions?detail=All", user)
        assert any(name in listed.text for name in others) is names_nodes


async def test_a_list_of_all_namespaces_leaves_out_those_whose_pods_are_not_to_be_seen(explained):
    async with explained() as asked:
        await asked.place("mine")
        await asked.place("theirs", namespace="other")
        assert (await asked.get("/decisions", ALL)).names == ["mine", "theirs"]
        partly = await asked.get("/decisions", NODES)
        assert partly.names == ["mine"]
        assert "1 namespace is left out" in partly.headers["Warning"]
        await asked.place("waits", namespace="other", cpu=HUGE)
        await until(lambda: asked.daemon.scheduler.queue.sizes()["unschedulable"])
        assert (await asked.get("/pendingpods", NODES)).names == []
        assert (await asked.get("/pendingpods", ALL)).names == ["waits"]


async def test_victims_of_other_namespaces_are_counted_where_they_are_not_to_be_seen(explained):
    async with explained(nodes=1) as asked:
        for name, value in (("low", 1), ("high", 1000)):
            asked.api.objects.create(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        grant(asked.api, TENANT, API, GET_PODS, namespace="third")
        await asked.place("secret", namespace="other", cpu="6", priorityClassName="low")
        await asked.place("open", namespace="third", cpu="1", priorityClassName="low")
        await asked.place("mine", cpu="7500m", priorityClassName="high")

        log = asked.daemon.scheduler.decisions
        await until(lambda: log.get("default", "mine").first.victims)
        path = "/namespaces/default/decisions/mine"
        told = await asked.get(path, TENANT)
        first = told.body.get("first") or told.body["last"]
        assert [one["name"] for one in first["victims"]] == ["open"]
        assert first["hiddenVictims"] == 1
        assert "secret" not in told.text
        assert told.body["partial"]
        whole = await asked.get(path, ALL)
        first = whole.body.get("first") or whole.body["last"]
        assert {one["name"] for one in first["victims"]} == {"open", "secret"}


async def test_node_infos_need_the_right_to_list_nodes(explained):
    async with explained() as asked:
        grant(asked.api, TENANT, {**API, "resources": ["nodeinfos"]})
        for path in ("/nodeinfos", "/nodeinfos/node-0"):
            code, _, told = (await asked.get(path, TENANT)).refusal
            assert code == 403
            assert 'the right "list" on "nodes" at the cluster scope is needed' in told
            assert (await asked.get(path, ALL)).status == 200


async def test_rights_that_cannot_be_looked_up_are_no_rights(explained):
    async with explained() as asked:
        await asked.place("p")
        await asked.api.stop()
        refused = await asked.get("/decisions", ALL)
        assert refused.status in (401, 500)
