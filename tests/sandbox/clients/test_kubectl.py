"""The real kubectl against the sandbox."""

import asyncio
import json

import yaml
from aiohttp import web

from kscheduler.sandbox import ApiServer
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.clients.kubectl import Kubectl, lines, needs_kubectl

pytestmark = needs_kubectl


async def test_get_prints_tables(kubectl, objects, nodes):
    objects.create(pod_manifest("p", nodeName=nodes[0]))
    await until(lambda: objects.get("pods", "p")["status"]["phase"] == "Running")
    heading, row = lines(await kubectl("get", "pods"))
    assert heading == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["p", "1/1", "Running", "0"]
    heading, row = lines(await kubectl("get", "pods", "-o", "wide", "-A"))
    assert "NODE" in heading
    assert nodes[0] in row
    heading, *rows = lines(await kubectl("get", "nodes"))
    assert heading == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row[:2] for row in rows] == [[nodes[0], "Ready"], [nodes[1], "Ready"]]
    assert "172." in await kubectl("get", "nodes", "-o", "wide")


async def test_it_works_over_tls_with_a_token(tmp_path):
    async with ApiServer(tls=True) as server:
        server.write_kubeconfig(tmp_path / "config")
        kubectl = Kubectl(tmp_path, tmp_path / "config")
        assert await kubectl("apply", "-f", "-", manifest=pod_manifest("p")) == "pod/p created"
        assert await kubectl("get", "pods", "-o", "name") == "pod/p"
        assert (await kubectl("delete", "pod", "p")).startswith('pod "p" deleted')


async def test_get_prints_json_yaml_and_paths(kubectl, objects):
    objects.create(pod_manifest("p"))
    assert json.loads(await kubectl("get", "pod", "p", "-o", "json"))["kind"] == "Pod"
    listed = yaml.safe_load(await kubectl("get", "pods", "-o", "yaml"))
    assert [item["kind"] for item in listed["items"]] == ["Pod"]
    path = "jsonpath={.items[0].metadata.name}"
    assert await kubectl("get", "po", "-o", path) == "p"
    assert await kubectl("get", "pods", "-o", "name", "-l", "app=none") == ""


async def test_apply_creates_changes_and_recognises(kubectl, objects):
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "1"},
    }
    apply = ("apply", "-f", "-")
    assert await kubectl(*apply, manifest=config) == "configmap/c created"
    assert await kubectl(*apply, manifest=config) == "configmap/c unchanged"
    config["data"] = {"b": "2"}
    assert await kubectl(*apply, manifest=config) == "configmap/c configured"
    assert objects.get("configmaps", "c")["data"] == {"b": "2"}


async def test_apply_merges_lists_by_key(kubectl, objects):
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]
                },
            },
        },
    }
    await kubectl("apply", "-f", "-", manifest=deployment)
    containers = deployment["spec"]["template"]["spec"]["containers"]
    del containers[0]
    containers[0]["image"] = "b:2"
    await kubectl("apply", "-f", "-", manifest=deployment)
    (left,) = objects.get("deployments.apps", "d")["spec"]["template"]["spec"]["containers"]
    assert (left["name"], left["image"]) == ("b", "b:2")


async def test_apply_works_through_openapi_v2_as_older_clients_do(kubectl, server, objects):
    async def no_v3(request):
        return web.Response(status=404) if request.path.startswith("/openapi/v3") else None

    seen = []
    server.interceptors.append(no_v3)
    server.hooks.append(lambda exchange: seen.append(exchange.path))
    pod = pod_manifest("p")
    assert await kubectl("apply", "-f", "-", manifest=pod) == "pod/p created"
    pod["spec"]["containers"][0]["image"] = "example.com/app:2"
    assert await kubectl("apply", "-f", "-", manifest=pod) == "pod/p configured"
    assert "/openapi/v2" in seen
    assert objects.get("pods", "p")["spec"]["containers"][0]["image"] == "example.com/app:2"


async def test_unknown_fields_are_refused_unless_validation_is_off(kubectl):
    pod = pod_manifest("p", colour="red")
    code, _, err = await kubectl.attempt("apply", "-f", "-", manifest=pod)
    assert code == 1
    assert 'unknown field "spec.colour"' in err
    assert await kubectl("apply", "--validate=false", "-f", "-", manifest=pod) == "pod/p created"


async def test_apply_on_the_server_side(kubectl, objects):
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "1"},
    }
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, manifest=config) == "configmap/c serverside-applied"
    config["data"] = {"b": "2"}
    await kubectl(*apply, manifest=config)
    assert objects.get("configmaps", "c")["data"] == {"b": "2"}


async def test_describe_tells_about_pods_and_nodes(kubectl, objects, nodes):
    pod = objects.create(pod_manifest("p", nodeName=nodes[0]))
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {
                "kind": "Pod",
                "namespace": "default",
                "name": "p",
                "uid": pod["metadata"]["uid"],
            },
            "type": "Normal",
            "reason": "Scheduled",
            "message": "Successfully assigned default/p",
            "source": {"component": "default-scheduler"},
        }
    )
    about = await kubectl("describe", "pod", "p")
    assert ["Node:", f"{nodes[0]}/172.16.0.0"] in lines(about)
    assert "Successfully assigned default/p" in about
    about = lines(await kubectl("describe", "node", nodes[0]))
    assert ["Non-terminated", "Pods:", "(1", "in", "total)"] in about
    assert ["HolderIdentity:", nodes[0]] in about


async def test_delete_waits_until_it_is_done(kubectl, objects, nodes):
    objects.create(pod_manifest("p", nodeName=nodes[0]))
    await until(lambda: objects.get("pods", "p")["status"]["phase"] == "Running")
    assert (await kubectl("delete", "pod", "p")).startswith('pod "p" deleted')
    assert objects.find("pods", "p") is None
    code, _, err = await kubectl.attempt("get", "pod", "p")
    assert (code, err.strip()) == (1, 'Error from server (NotFound): pods "p" not found')


async def test_delete_takes_a_namespace_with_all_in_it(kubectl, objects):
    await kubectl("create", "namespace", "team")
    await kubectl("apply", "-n", "team", "-f", "-", manifest=pod_manifest("p"))
    assert await kubectl("delete", "namespace", "team") == 'namespace "team" deleted'
    assert objects.find("namespaces", "team") is None


async def test_watch_prints_changes_as_they_come(kubectl, server, objects):
    process = await kubectl.start("get", "pods", "--watch", "--no-headers", "-o", "name")
    await until(lambda: server.open_watches == 1)
    objects.create(pod_manifest("p"))
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    assert line == b"pod/p\n"
    process.terminate()
    await process.communicate()


async def test_create_label_annotate_patch_and_taint(kubectl, objects, nodes):
    await kubectl("create", "configmap", "c", "--from-literal=a=1")
    assert objects.get("configmaps", "c")["data"] == {"a": "1"}
    await kubectl("run", "p", "--image=nginx")
    await kubectl("label", "pod", "p", "tier=web")
    await kubectl("annotate", "pod", "p", "note=hello")
    about = objects.get("pods", "p")["metadata"]
    assert (about["labels"]["tier"], about["annotations"]["note"]) == ("web", "hello")
    await kubectl("label", "pod", "p", "tier-")
    assert "tier" not in objects.get("pods", "p")["metadata"]["labels"]
    change = '{"metadata":{"labels":{"a":"b"}}}'
    for kind in ("strategic", "merge"):
        await kubectl("patch", "pod", "p", "--type", kind, "-p", change)
    change = '[{"op":"remove","path":"/metadata/labels/a"}]'
    await kubectl("patch", "pod", "p", "--type", "json", "-p", change)
    await kubectl("taint", "node", nodes[0], "key=value:NoSchedule")
    assert objects.get("nodes", nodes[0])["spec"]["taints"] == [
        {"key": "key", "value": "value", "effect": "NoSchedule"}
    ]


async def test_cordon_and_drain(kubectl, objects, nodes):
    objects.create(pod_manifest("p", nodeName=nodes[0]))
    await until(lambda: objects.get("pods", "p")["status"]["phase"] == "Running")
    assert await kubectl("cordon", nodes[1]) == f"node/{nodes[1]} cordoned"
    assert objects.get("nodes", nodes[1])["spec"]["unschedulable"] is True
    assert await kubectl("uncordon", nodes[1]) == f"node/{nodes[1]} uncordoned"
    code, _, err = await kubectl.attempt("drain", nodes[0], "--force")
    assert code == 0, err
    assert objects.find("pods", "p") is None


async def test_scale_replace_and_edit(kubectl, objects, tmp_path):
    await kubectl("create", "deployment", "d", "--image=nginx")
    await kubectl("scale", "deployment", "d", "--replicas=4")
    deployment = objects.get("deployments.apps", "d")
    assert deployment["spec"]["replicas"] == 4
    deployment["spec"]["replicas"] = 2
    path = tmp_path / "d.yaml"
    path.write_text(yaml.safe_dump(deployment))
    await kubectl("replace", "-f", str(path))
    assert objects.get("deployments.apps", "d")["spec"]["replicas"] == 2


async def test_wait_and_events(kubectl, objects, nodes):
    objects.create(pod_manifest("p", nodeName=nodes[0]))
    await kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=30s")
    code, out, err = await kubectl.attempt("events", "--for", "pod/none")
    assert (code, out, err) == (0, "", "No events found in default namespace.\n")


async def test_it_explains_and_lists_what_there_is(kubectl):
    assert "NodeName indicates" in await kubectl("explain", "pod.spec.nodeName")
    kinds = await kubectl("api-resources", "-o", "name")
    assert "resourceclaims.resource.k8s.io" in kinds.splitlines()
    assert "scheduling.k8s.io/v1" in (await kubectl("api-versions")).splitlines()
    code, out, _ = await kubectl.attempt("version", "-o", "json")
    assert (code, json.loads(out)["serverVersion"]["minor"]) == (0, "37")


async def test_it_asks_what_it_may(kubectl):
    assert await kubectl("auth", "can-i", "create", "pods") == "yes"
    code, out, _ = await kubectl.attempt("auth", "can-i", "create", "pods", "--as", "joe")
    assert (code, out.strip()) == (1, "no")


async def test_invalid_objects_are_explained(kubectl):
    pod = pod_manifest("p", restartPolicy="Sometimes")
    code, _, err = await kubectl.attempt("create", "-f", "-", manifest=pod)
    assert code == 1
    assert err.strip() == (
        'The Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": '
        'supported values: "Always", "Never", "OnFailure"'
    )
