"""Nodes that have the pod's images are preferred, the more bytes the better."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.plugins.image_locality import ImageLocality, normalized
from kscheduler.state.cache import Cache
from tests.plugins.machines import container, make_node, raw_scores
from tests.plugins.topologies import make_cluster, make_pod

MIB = 1024 * 1024


def has(**sizes):
    """A node with these images; `app=40` is `app:latest` of 40 MiB."""
    return {f"{name}:latest": size * MIB for name, size in sizes.items()}


def running(*images, init=(), volumes=()):
    return make_pod(
        containers=[container(image=image) for image in images],
        initContainers=[container(image=image) for image in init],
        volumes=[{"name": "v", "image": {"reference": image}} for image in volumes],
    )


@pytest.mark.parametrize(
    ("pod", "images", "want"),
    [
        pytest.param(
            running("a", "b"), [has(b=250), has(a=40)], [5, 0], id="the larger image counts more"
        ),
        pytest.param(
            running("a", "b"), [has(a=40, b=300), has()], [7, 0], id="both on one node count both"
        ),
        pytest.param(running("a", "b"), [has(a=4000), has(b=10)], [100, 0], id="at most 100"),
        pytest.param(
            running("a", "b"),
            [has(a=4000), has(b=10), has()],
            [66, 0, 0],
            id="an image on few nodes counts less",
        ),
        pytest.param(
            running("a", "b", "c"),
            [has(a=300, b=600, c=900), has(b=600, c=900), has()],
            [36, 32, 0],
            id="three images over three nodes",
        ),
        pytest.param(
            running("a", volumes=["b"]), [has(a=30, b=300), has()], [7, 0], id="image volumes"
        ),
        pytest.param(
            running("a", init=["b"]), [has(a=30, b=300), has()], [7, 0], id="init containers"
        ),
        pytest.param(
            running("a", "a"), [has(a=100), has()], [3, 0], id="an image named twice counts twice"
        ),
        pytest.param(running("a"), [has(b=300), has()], [0, 0], id="nobody has it"),
        pytest.param(running(), [has(b=300)], [0], id="no image"),
        pytest.param(running("a"), [has(a=1000), has(a=1000)], [100, 100], id="everybody has it"),
    ],
)
def test_score(pod, images, want):
    nodes = make_cluster([make_node(f"n{i}", images=own) for i, own in enumerate(images)])
    assert raw_scores(ImageLocality(), pod, nodes) == want


def test_all_nodes_of_the_cluster_count_not_only_the_feasible_ones():
    nodes = make_cluster([make_node(f"n{i}", images=has(a=1000)) for i in range(2)])
    with_others = make_cluster(
        [make_node(f"n{i}", images=has(a=1000)) for i in range(2)]
        + [make_node(f"m{i}") for i in range(2)]
    )
    assert raw_scores(ImageLocality(), running("a"), nodes.take([1])) == [100]
    assert raw_scores(ImageLocality(), running("a"), with_others.take([1, 2])) == [48, 0]


def test_pods_with_the_same_images_share_their_scores_whatever_else_they_are():
    plugin, nodes = ImageLocality(), make_cluster([make_node("n", images=has(a=1000))])
    for number in range(3):
        pod = make_pod(containers=[container(image="a")], hostname=f"unlike-{number}")
        assert raw_scores(plugin, pod, nodes) == [100]
    assert raw_scores(plugin, running("a", "b"), nodes) == [49]
    (cache,) = plugin.caches
    assert cache.entries == 2


def test_scores_follow_the_images_of_nodes():
    cache, plugin = Cache(), ImageLocality()
    cache.add_node(make_node("n"))
    assert raw_scores(plugin, running("a"), cache.snapshot()) == [0]
    cache.update_node(make_node("n", images=has(a=1000)))
    assert raw_scores(plugin, running("a"), cache.snapshot()) == [100]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("root", "root:latest"),
        ("root:tag", "root:tag"),
        ("gcr.io:5000/root", "gcr.io:5000/root:latest"),
        ("gcr.io:5000/root:tag", "gcr.io:5000/root:tag"),
        ("root@sha256:abc", "root@sha256:abc"),
        ("", ":latest"),
    ],
)
def test_names_without_a_tag_mean_latest(name, want):
    assert normalized(name) == want


def test_signs_the_names_of_containers_but_not_of_volumes():
    pod = running("b:1", "a", init=["b:1", "c"], volumes=["d"])
    names = ["a:latest", "b:1", "c:latest"]
    assert ImageLocality().sign(pod) == {"v1.Pod.Spec.CanonicalImageNames()": names}


SIZES = {f"{name}:latest": size for name, size in zip("abcd", (0, 30, 700, 5000), strict=True)}


@settings(deadline=None)
@given(
    on_nodes=st.lists(st.sets(st.sampled_from(sorted(SIZES))), min_size=1, max_size=6),
    images=st.lists(st.sampled_from("abcdx"), max_size=5),
)
def test_equals_its_definition(on_nodes, images):
    nodes = make_cluster(
        [
            make_node(f"n{i}", images={name: SIZES[name] * MIB + 7 for name in sorted(own)})
            for i, own in enumerate(on_nodes)
        ]
    )

    def score(own):
        total = 0
        for image in images:
            name = f"{image}:latest"
            if name in own:
                share = float(sum(name in other for other in on_nodes)) / float(len(on_nodes))
                total += int(float(SIZES[name] * MIB + 7) * share)
        low, high = 23 * MIB, 1000 * MIB * len(images)
        total = low if total < low else min(total, high)
        return 100 * (total - low) // (high - low) if images else 0

    assert raw_scores(ImageLocality(), running(*images), nodes) == [score(own) for own in on_nodes]
