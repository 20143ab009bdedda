"""Manifests from files, folders and standard input."""

import io

import click
import pytest

from kscheduler.cli.manifests import located, read_manifests, title

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


@pytest.mark.parametrize("text", ["", "---\n---\n", "# nothing\n", "kind: List\n"])
def test_a_file_without_objects_is_named(write, text):
    file = write(text)
    with pytest.raises(click.ClickException) as refused:
        read_manifests([file])
    assert refused.value.message == f"{file}: there are no objects in it"


def test_a_folder_without_manifests_is_named(tmp_path):
    with pytest.raises(click.ClickException, match=r"there is no \*\.yaml"):
        read_manifests([str(tmp_path)])


def test_titles():
    assert title({"kind": "Pod", "metadata": {"name": "p"}}) == "Pod p"
    assert title({"kind": "Pod", "metadata": None}) == "Pod"


def test_an_object_is_told_with_its_file_if_it_has_one(write):
    file = write("kind: List\napiVersion: v1\nitems: [{apiVersion: v1, kind: Pod}]")
    (pod,) = read_manifests([file])
    assert located(pod) == f"{file}: Pod"
    assert located({"kind": "Pod", "metadata": {"name": "p"}}) == "Pod p"
