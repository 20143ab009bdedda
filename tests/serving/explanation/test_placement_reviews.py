"""Placement reviews: answers, refusals in fields, rights, and limits."""

import asyncio
import json

import pytest

from kscheduler.api.small_groups import UserInfo
from kscheduler.rest.status import StatusError
from kscheduler.sandbox import node_manifest
from kscheduler.serving.explanation import placement_reviews
from kscheduler.serving.explanation.limits import Limit, Rate
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.serving.explanation.asking import (
    ALL,
    API,
    GET_PODS,
    NOBODY,
    NODES,
    ROOT,
    TENANT,
    grant,
)

HUGE = "1000"


def pod(name="web", cpu="1", **fields):
    return pod_manifest(name, cpu=cpu, **fields)


async def test_a_review_is_answered_and_not_stored(explained):
    async with explained() as asked:
        answer = await asked.review({"pods": [pod()], "replicas": 2})
        assert answer.status == 201
        body = answer.body
        assert (body["kind"], body["metadata"]["namespace"]) == ("PlacementReview", "default")
        assert body["spec"]["replicas"] == 2
        assert body["status"]["fits"]
        assert [one["namespace"] for one in body["status"]["placements"]] == ["default"] * 2
        assert (await asked.get("/namespaces/default/placementreviews")).refusal[0] == 405
        assert (await asked.get("/decisions")).names == []


@pytest.mark.parametrize("detail", ["Summary", "Candidates", "All"])
async def test_detail_says_how_much_is_told_per_placement(explained, detail):
    async with explained() as asked:
        spec = {"pods": [pod(), pod("big", HUGE)], "detail": detail}
        fits, big = (await asked.review(spec)).body["status"]["placements"]
        assert ("explanation" in fits) is (detail != "Summary")
        if detail != "Summary":
            assert len(fits["explanation"]["scores"]["nodes"]) == 3
            (rejected,) = big["explanation"]["rejections"]
            assert ("nodes" in rejected) is (detail == "All")


@pytest.mark.parametrize(
    ("spec", "field", "reason"),
    [
        ({}, "spec.pods", "FieldValueRequired"),
        ({"pods": [pod()], "replicas": 0}, "spec.replicas", "FieldValueInvalid"),
        ({"pods": [pod()], "detail": "Most"}, "spec.detail", "FieldValueNotSupported"),
        ({"drainNodes": ["moon"]}, "spec.drainNodes[0]", "FieldValueNotFound"),
        ({"pods": [{"kind": "Node"}]}, "spec.pods[0].kind", "FieldValueNotSupported"),
        ({"pods": [pod()], "configuration": "a: 1"}, "spec.configuration", "FieldValueInvalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_nonsense_is_refused_with_the_field(explained, spec, field, reason):
    async with explained() as asked:
        refused = await asked.review(spec)
        assert refused.refusal[:2] == (422, "Invalid")
        (cause,) = refused.body["details"]["causes"]
        assert (cause["field"], cause["reason"]) == (field, reason)


async def test_bodies_that_are_no_review_are_refused(explained):
    async with explained() as asked:
        path = f"{ROOT}/namespaces/default/placementreviews"
        deep = b'{"spec":{"pods":[' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"]}}"
        named = {"metadata": {"namespace": "other"}, "spec": {"pods": [pod()]}}
        for body, headers, code in (
            (b"{", {}, 400),
            (b"[]", {}, 400),
            (b'{"kind":"Pod"}', {}, 400),
            (b'{"apiVersion":"v1"}', {}, 400),
            (b'{"spec":{"replicas":"two"}}', {}, 400),
            (json.dumps(named).encode(), {}, 400),
            (deep, {}, 400),
            (b"x" * (placement_reviews.MAX_BODY_BYTES + 1), {}, 413),
            (b"spec: {}", {"Content-Type": "application/yaml"}, 415),
            (b"{}", {"Content-Encoding": "gzip"}, 415),
        ):
            refused = await asked.ask(path, method="POST", body=body, headers=headers)
            assert refused.refusal[0] == code, (body[:40], refused.text)
        many = await asked.review({"pods": [pod()], "replicas": 10_001})
        assert many.refusal[:2] == (413, "RequestEntityTooLarge")


async def test_unknown_fields_are_warned_of_or_refused(explained):
    async with explained() as asked:
        spec = {"pods": [pod()], "replica": 3}
        warned = await asked.review(spec)
        assert warned.status == 201
        assert warned.headers["Warning"] == '299 - "unknown field \\"spec.replica\\""'
        odd = await asked.review({"pods": [pod()], "a\r\nSet-Cookie: b\u2603": 1})
        assert odd.headers["Warning"] == '299 - "unknown field \\"spec.a??Set-Cookie: b?\\""'
        strict = await asked.review(spec, query="?fieldValidation=Strict")
        assert strict.refusal[2] == 'strict decoding error: unknown field "spec.replica"'
        ignored = await asked.review(spec, query="?fieldValidation=Ignore&dryRun=All")
        assert "Warning" not in ignored.headers


async def test_who_may_ask_in_a_namespace_asks_about_its_pods_and_sees_counts(explained):
    async with explained() as asked:
        assert (await asked.review({"pods": [pod()]}, NOBODY)).refusal[0] == 403
        spec = {"pods": [pod(), pod("big", HUGE)], "detail": "All"}
        told = await asked.review(spec, TENANT)
        status = told.body["status"]
        assert (status["placed"], status["partial"]) == (1, True)
        assert "node-" not in told.text
        assert status["remedies"]
        everything = await asked.review(spec, ALL)
        assert "node-" in everything.body["status"]["summary"]
        assert everything.body["status"]["placements"][0]["node"].startswith("node-")


async def test_amounts_of_nodes_are_told_to_whom_may_list_them(explained):
    """Others get what an event would tell: counts."""
    async with explained() as asked:
        spec = {"pods": [pod("big", HUGE)], "detail": "All"}
        told = (await asked.review(spec, TENANT)).body["status"]
        assert told["summary"] == "It does not fit: 3 nodes lack cpu."
        assert told["remedies"] == [{"change": "with less cpu", "moreNodes": 3}]
        (rejection,) = told["placements"][0]["explanation"]["rejections"]
        assert rejection["shortage"] == {"resource": "cpu", "asked": HUGE}
        whole = (await asked.review(spec, ALL)).body["status"]
        assert "least short by" in whole["summary"]
        assert "with 8 instead of 1000 of cpu" in whole["remedies"][0]["change"]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
BY_NAME = {"key": "metadata.name", "operator": "In", "values": ["node-0"]}
BY_HOST_NAME = {**BY_NAME, "key": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    "wish",
    [
        {"nodeSelector": {"kubernetes.io/hostname": "node-0"}},
        {"node_affinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [BY_NAME]}]}}},
        {
            "node_affinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [BY_HOST_NAME]}]}
            }
        },
    ],
    ids=["selector", "name", "host name"],
)
async def test_a_node_by_its_name_takes_a_right(explained, wish):
    """Who may neither list nodes nor create the pod could measure the node by such questions."""
    async with explained() as asked:
        spec = {"pods": [pod(), pod_manifest("named", **wish)]}
        code, _, told = (await asked.review(spec, TENANT)).refusal
        assert code == 403
        assert "as spec.pods[1] does" in told
        assert '"list" on "nodes" is needed for that, or "create" on "pods" in' in told
        assert (await asked.review(spec, NODES)).status == 201


async def test_who_may_create_a_pod_may_ask_about_it_whatever_node_it_names(explained):
    async with explained() as asked:
        grant(asked.api, TENANT, {**GET_PODS, "verbs": ["create"]}, namespace="default")
        named = pod_manifest("named", nodeSelector={"kubernetes.io/hostname": "node-0"})
        told = await asked.review({"pods": [named]}, TENANT)
        assert (told.status, told.body["status"]["fits"]) == (201, True)
        assert "node-0" not in json.dumps(told.body["status"])


async def test_pods_of_another_namespace_need_the_right_there(explained):
    async with explained() as asked:
        spec = {"pods": [pod(namespace="other")]}
        code, _, told = (await asked.review(spec, TENANT)).refusal
        assert code == 403
        assert 'about pods of the namespace "other"' in told
        grant(asked.api, TENANT, API, namespace="third")
        allowed = await asked.review({"pods": [pod(namespace="third")]}, TENANT)
        assert allowed.status == 201
        # A request without a namespace has the right in all of them.
        assert (await asked.review(spec, TENANT, namespace="")).refusal[0] == 403
        assert (await asked.review(spec, ALL, namespace="")).status == 201


@pytest.mark.parametrize(
    "part",
    [
        {"drainNodes": ["node-0"]},
        {"cordonNodes": ["node-0"]},
        {"removeNodes": ["node-0"]},
        {"addNodes": [{"like": "node-0"}]},
        {"configuration": "kind: KubeSchedulerConfiguration"},
    ],
    ids=lambda part: next(iter(part)),
)
async def test_questions_about_nodes_need_the_right_to_list_them(explained, part):
    async with explained() as asked:
        code, _, told = (await asked.review({"pods": [pod()], **part}, TENANT)).refusal
        assert code == 403
        assert f"spec.{next(iter(part))}" in told
        assert 'the right "list" on "nodes" is needed' in told
        assert (await asked.review({"pods": [pod()], **part}, NODES)).status in (201, 422)


async def test_pods_that_have_to_move_are_named_to_whom_may_get_them(explained):
    async with explained(nodes=2) as asked:
        await asked.place("secret", namespace="other")
        await until(lambda: asked.api.objects.find("pods", "secret", "other")["spec"]["nodeName"])
        node = asked.daemon.scheduler.decisions.get("other", "secret").last.node
        spec = {"drainNodes": [node]}
        told = await asked.review(spec, NODES)
        assert "secret" not in told.text
        assert told.body["status"]["partial"]
        assert "1 placement is not shown: that takes the" in told.body["status"]["message"]
        whole = await asked.review(spec, ALL)
        assert [one["name"] for one in whole.body["status"]["placements"]] == ["secret"]


async def test_no_sentence_is_about_a_drained_pod_that_the_asker_may_not_get(explained):
    """Neither why such a pod fits nowhere else nor what would help it."""
    async with explained(nodes=2) as asked:
        only_there = {"nodeSelector": {"kubernetes.io/hostname": "node-0"}}
        await asked.place("secret", namespace="other", **only_there)
        await until(
            lambda: asked.api.objects.find("pods", "secret", "other")["spec"].get("nodeName")
        )
        drain = {"drainNodes": ["node-0"]}
        status = (await asked.review(drain, NODES)).body["status"]
        assert "secret" not in json.dumps(status)
        assert "remedies" not in status
        assert status["summary"] == (
            "It does not fit: to be told why takes the right to get pods in their namespaces."
        )
        # Of several, the first that the asker may get is explained.
        mine = (await asked.review({"pods": [pod("mine", HUGE)], **drain}, NODES)).body["status"]
        assert "secret" not in json.dumps(mine)
        assert mine["message"].startswith("default/mine: 0/2 nodes are available: ")
        whole = (await asked.review(drain, ALL)).body["status"]
        assert whole["message"].startswith("other/secret: 0/2 nodes are available: ")


async def test_a_pod_evicted_for_a_drained_one_does_not_name_it_to_every_asker(explained):
    async with explained(nodes=1) as asked:
        asked.api.objects.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "high"},
                "value": 100,
            }
        )
        await asked.place("secret", namespace="other", cpu="5", priorityClassName="high")
        await until(
            lambda: asked.api.objects.find("pods", "secret", "other")["spec"].get("nodeName")
        )
        asked.api.objects.create(node_manifest("node-1"))
        await asked.place("mine", cpu="5")
        await until(lambda: asked.daemon.scheduler.decisions.get("default", "mine").last.node)
        spec = {"drainNodes": ["node-0"], "allowPreemption": True}
        told = await asked.review(spec, NODES)
        assert "secret" not in told.text
        (moved,) = told.body["status"]["placements"]
        assert moved["message"].startswith("evicted from node-1 for a drained pod; ")
        assert "evicted from node-1 for other/secret; " in (await asked.review(spec, ALL)).text


async def test_an_attempt_of_a_review_has_neither_waited_nor_been_bound(explained):
    async with explained() as asked:
        answer = await asked.review({"pods": [pod()], "detail": "Candidates"})
        attempt = answer.body["status"]["placements"][0]["explanation"]
        assert attempt["outcome"] == "Scheduled"
        assert not {"waits", "steps"} & attempt.keys()
        assert not attempt.get("waitedSeconds")


async def test_victims_are_named_to_whom_may_get_them_whatever_may_be_asked(explained):
    async with explained(nodes=1) as asked:
        grant(asked.api, NOBODY, API, namespace="default")
        await asked.place("secret", cpu="6")
        await until(
            lambda: asked.api.objects.find("pods", "secret", "default")["spec"].get("nodeName")
        )
        spec = {"pods": [pod("high", "6", priority=100)], "allowPreemption": True}
        told = await asked.review(spec, NOBODY)
        assert "secret" not in told.text
        (placement,) = told.body["status"]["placements"]
        assert (placement["name"], placement["hiddenVictims"]) == ("high", 1)
        assert "secret" in (await asked.review(spec, TENANT)).text


async def test_the_node_of_victims_is_told_to_whom_may_list_nodes(explained):
    async with explained(nodes=1) as asked:
        await asked.place("low", cpu="6")
        await until(
            lambda: asked.api.objects.find("pods", "low", "default")["spec"].get("nodeName")
        )
        high = pod("high", "6", priority=100)
        spec = {"pods": [high], "allowPreemption": True, "detail": "All"}
        told = await asked.review(spec, TENANT)
        assert told.body["status"]["placements"][0]["victims"][0]["name"] == "low"
        assert "node-" not in json.dumps(told.body["status"])
        assert "node-0" in (await asked.review(spec, ALL)).text


async def test_one_asker_has_one_review_at_a_time_and_all_have_two(explained, monkeypatch):
    async with explained() as asked:
        go_on, begun = asyncio.Event(), []
        reviews = asked.daemon.explanations._reviews
        answer = reviews._review

        async def held(review, **asker):
            begun.append(review)
            await go_on.wait()
            return await answer(review, **asker)

        monkeypatch.setattr(reviews, "_review", held)
        first = asyncio.create_task(asked.review({"pods": [pod()]}, ALL))
        await until(lambda: len(begun) == 1)
        again = await asked.review({"pods": [pod()]}, ALL)
        assert again.refusal[:2] == (429, "TooManyRequests")
        assert int(again.headers["Retry-After"]) > 0
        second = asyncio.create_task(asked.review({"pods": [pod()]}, TENANT))
        await until(lambda: len(begun) == 2)
        assert (await asked.review({"pods": [pod()]}, NODES)).refusal[0] == 429
        go_on.set()
        assert {(await first).status, (await second).status} == {201}
        assert (await asked.review({"pods": [pod()]}, NODES)).status == 201
        total = asked.daemon.cc.metrics.kscheduler_placement_reviews_total
        assert (total.labels("fits").value, total.labels("limited").value) == (3, 2)


async def test_a_review_that_takes_too_long_is_ended(explained, monkeypatch):
    monkeypatch.setattr(placement_reviews, "REVIEW_SECONDS", 0.01)
    async with explained() as asked:

        async def never(review, **asker):
            await asyncio.Event().wait()

        monkeypatch.setattr(asked.daemon.explanations._reviews, "_review", never)
        refused = await asked.review({"pods": [pod()]})
        assert refused.refusal[:2] == (504, "Timeout")
        assert refused.headers["Retry-After"]


def test_a_rate_is_kept_per_asker_and_minute():
    now = [0.0]
    rate = Rate("questions", 2, clock=lambda: now[0])
    joe, ann = UserInfo(username="joe"), UserInfo(username="ann")
    rate.count(joe)
    now[0] = 30.0
    rate.count(joe)
    with pytest.raises(StatusError, match="2 questions per minute") as refused:
        rate.count(joe)
    assert refused.value.details == {"retryAfterSeconds": 31}
    rate.count(ann)
    now[0] = 61.0
    rate.count(joe)


def test_a_limit_is_given_back():
    limit, joe = Limit("thing", "things", 5, 1), UserInfo(username="joe")
    with limit.taken_by(joe), pytest.raises(StatusError), limit.taken_by(joe):
        pass
    with limit.taken_by(joe):
        pass
    assert not limit._taken
