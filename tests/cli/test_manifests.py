"""Manifests from files, folders and standard input."""

import io

import click
import pytest

from kscheduler.cli.manifests import parts_of, read_manifests, title

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


@pytest.fixture
def write(tmp_path):
    def one(text, name="f.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return one


def names(manifests):
    return [manifest["metadata"]["name"] for manifest in manifests]


def test_several_documents_and_several_files_in_order(write):
    first = write(POD % "b" + "---\n---\n" + POD % "a", "1.yaml")
    second = write('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}', "2.json")
    assert names(read_manifests([second, first])) == ["c", "b", "a"]


def test_a_folder_stands_for_the_manifests_in_it(write, tmp_path):
    write(POD % "b", "b.yml")
    write(POD % "a", "a.yaml")
    write('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}', "c.json")
    write("not a manifest", "README.md")
    assert names(read_manifests([str(tmp_path)])) == ["a", "b", "c"]


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(POD % "a"))
    assert names(read_manifests(["-"])) == ["a"]


def test_lists_are_unpacked_to_any_depth(write):
    items = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: PodList, items: [%s]}\n"
    file = write(items % "{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    assert names(read_manifests([file])) == ["a"]
    assert read_manifests([write("kind: List\n")]) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "not YAML: while parsing"),
        ("- 1", "a manifest needs apiVersion and kind"),
        ("kind: Pod", "a manifest needs apiVersion and kind"),
        ("apiVersion: v1", "a manifest needs apiVersion and kind"),
        ("apiVersion: 1\nkind: Pod", "a manifest needs apiVersion and kind"),
        ("apiVersion: v1\nkind: [Pod]", "a manifest needs apiVersion and kind"),
        ("apiVersion: v1\nkind: Pod\nmetadata: [1]", "Pod: metadata and spec must be mappings"),
        ("apiVersion: v1\nkind: Pod\nspec: x", "Pod: metadata and spec must be mappings"),
        ("kind: List\nitems: [1]", "a manifest needs apiVersion and kind"),
    ],
)
def test_what_is_no_manifest_is_named(write, text, why):
    file = write(text)
    with pytest.raises(click.ClickException) as refused:
        read_manifests([file])
    assert refused.value.message.startswith(f"{file}: ")
    assert why in refused.value.message


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(click.ClickException, match="nowhere: No such file or directory"):
        read_manifests([str(tmp_path / "nowhere")])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(click.ClickException, match="not YAML"):
        read_manifests([str(tmp_path / "binary.yaml")])


def deployment(**spec):
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}


def test_a_workload_brings_its_pods():
    pods = list(parts_of(deployment(replicas=2, template=TEMPLATE)))
    assert names(pods) == ["web-0", "web-1"]
    assert pods[0]["metadata"] == {"labels": {"app": "web"}, "name": "web-0", "namespace": "shop"}
    assert pods[0]["spec"] == {"containers": []}
    assert pods[0]["spec"] is not pods[1]["spec"]
    assert TEMPLATE == {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}


def test_a_stateful_set_brings_claims_too():
    data = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    kept, hidden = {"name": "tmp", "emptyDir": {}}, {"name": "data", "emptyDir": {}}
    template = TEMPLATE | {"spec": {"containers": [], "volumes": [kept, hidden]}}
    parts = list(parts_of(deployment(replicas=2, template=template, volumeClaimTemplates=[data])))
    assert [(part["kind"], part["metadata"]["name"]) for part in parts] == [
        ("PersistentVolumeClaim", "data-web-0"),
        ("Pod", "web-0"),
        ("PersistentVolumeClaim", "data-web-1"),
        ("Pod", "web-1"),
    ]
    assert parts[0]["metadata"]["namespace"] == "shop"
    assert parts[0]["spec"] == data["spec"]
    mounted = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    assert parts[3]["spec"]["volumes"] == [kept, mounted]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"template": TEMPLATE}, 1),
        ({"template": TEMPLATE, "replicas": None}, 1),
        ({"template": TEMPLATE, "replicas": 0}, 0),
        ({"template": {"metadata": None, "spec": {}}}, 1),
        ({"replicas": 3}, 0),
    ],
    ids=["one by default", "null", "none wanted", "template without metadata", "no template"],
)
def test_how_many_pods(spec, count):
    assert len(list(parts_of(deployment(**spec)))) == count


@pytest.mark.parametrize("spec", [{"template": TEMPLATE, "replicas": "x"}, {"template": "x"}])
def test_a_workload_that_makes_no_sense_is_named(spec):
    with pytest.raises(click.ClickException, match=r"^Deployment web: spec\.template must be"):
        list(parts_of(deployment(**spec)))


def test_titles():
    assert title({"kind": "Pod", "metadata": {"name": "p"}}) == "Pod p"
    assert title({"kind": "Pod", "metadata": None}) == "Pod"
