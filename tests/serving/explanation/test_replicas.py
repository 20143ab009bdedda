"""Two replicas: the standby names the leader, the leader publishes where it is."""

import asyncio
import hashlib
import json
import ssl

from kscheduler.api.explanation import (
    ADDRESS_ANNOTATION,
    CERTIFICATE_ANNOTATION,
    PORT_ANNOTATION,
)
from kscheduler.sandbox import User
from tests.kit.polling import until
from tests.serving.explanation.asking import daemon_beside

LEASE = ("leases.coordination.k8s.io", "kube-scheduler", "kube-system")


def annotations(api):
    lease = api.objects.find(*LEASE)
    return ((lease or {}).get("metadata") or {}).get("annotations") or {}


async def test_the_leader_publishes_address_and_certificate_on_its_lease(explained):
    async with explained(elect=True) as asked:
        await until(lambda: CERTIFICATE_ANNOTATION in annotations(asked.api))
        host, _, port = annotations(asked.api)[ADDRESS_ANNOTATION].partition(":")
        assert f"https://{host}:{port}" == asked.url
        assert annotations(asked.api)[PORT_ANNOTATION] == port
        shown = await asyncio.to_thread(ssl.get_server_certificate, (host, int(port)))
        digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()
        assert annotations(asked.api)[CERTIFICATE_ANNOTATION] == digest
        assert asked.api.objects.find(*LEASE)["spec"]["holderIdentity"]


async def test_a_standby_names_the_leader_and_tells_of_itself(explained, tmp_path):
    async with explained(elect=True) as leader:
        await until(
            lambda: leader.daemon.leads and CERTIFICATE_ANNOTATION in annotations(leader.api)
        )
        kubeconfig = tmp_path / "standby"
        leader.api.write_kubeconfig(kubeconfig, User("system:kube-scheduler"))
        async with daemon_beside(leader.api, kubeconfig, elect=True) as standby:
            await until(lambda: CERTIFICATE_ANNOTATION in standby.daemon.elector.annotations)
            for path in ("/decisions", "/pendingpods", "/namespaces/default/decisions/p"):
                code, reason, told = (await standby.get(path)).refusal
                assert (code, reason) == (503, "ServiceUnavailable")
                assert leader.daemon.elector.config.identity in told
                assert f"at {annotations(leader.api)[ADDRESS_ANNOTATION]}" in told
            review = await standby.review({"pods": []})
            assert review.refusal[0] == 503
            (status,) = (await standby.get("/schedulerstatuses")).body["items"]
            assert "leader" not in status
            assert (await leader.get("/decisions")).status == 200


async def test_another_leader_replaces_the_annotations_of_the_last(explained, tmp_path):
    async with explained(elect=True) as first:
        await until(lambda: CERTIFICATE_ANNOTATION in annotations(first.api))
        address = annotations(first.api)[ADDRESS_ANNOTATION]
        kubeconfig = tmp_path / "second"
        first.api.write_kubeconfig(kubeconfig, User("system:kube-scheduler"))
        async with daemon_beside(first.api, kubeconfig, elect=True) as second:
            first.daemon.stopping.set()
            await until(lambda: second.daemon.leads)
            await until(lambda: annotations(first.api).get(ADDRESS_ANNOTATION, address) != address)
            assert f"https://{annotations(first.api)[ADDRESS_ANNOTATION]}" == second.url
            assert (await second.get("/decisions")).status == 200


async def test_annotations_of_others_on_the_lease_are_kept(explained):
    async with explained(elect=True) as asked:
        await until(lambda: CERTIFICATE_ANNOTATION in annotations(asked.api))

        def edit(lease):
            lease["metadata"]["annotations"]["example.com/owner"] = "joe"
            return lease

        lease = edit(json.loads(json.dumps(asked.api.objects.find(*LEASE))))
        asked.api.store[LEASE[0]].put((LEASE[2], LEASE[1]), lease)
        renewed = lease["spec"]["renewTime"]
        await until(lambda: asked.api.objects.find(*LEASE)["spec"]["renewTime"] != renewed)
        assert annotations(asked.api)["example.com/owner"] == "joe"
        assert CERTIFICATE_ANNOTATION in annotations(asked.api)
