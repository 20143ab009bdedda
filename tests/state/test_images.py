from kscheduler.api.core import ContainerImage
from kscheduler.state import images as images_module
from kscheduler.state.images import Images


def image(size, *names):
    return ContainerImage(names=names, size_bytes=size)


def found(images, name, length=3):
    answer = images.find(name, length)
    return answer and (answer.size, answer.node_count, answer.mask.tolist())


def test_the_first_reporter_decides_the_size():
    images = Images()
    images.add(0, [image(5, "a")])
    images.add(2, [image(6, "a")])
    assert found(images, "a") == (5, 2, [True, False, True])


def test_the_size_stays_when_the_first_reporter_leaves():
    images = Images()
    images.add(0, [image(5, "a")])
    images.add(2, [image(6, "a")])
    images.remove(0, [image(5, "a")])
    assert found(images, "a") == (5, 1, [False, False, True])


def test_an_image_nobody_has_is_forgotten():
    images = Images()
    images.add(0, [image(5, "a")])
    images.remove(0, [image(5, "a")])
    images.add(1, [image(6, "a")])
    assert found(images, "a") == (6, 1, [False, True, False])
    assert found(images, "b") is None


def test_every_name_finds_the_image():
    images = Images()
    images.add(1, [image(5, "a:1", "a@sha")])
    assert found(images, "a:1") == found(images, "a@sha") == (5, 1, [False, True, False])


def test_answers_follow_the_number_of_rows():
    images = Images()
    images.add(0, [image(5, "a")])
    assert found(images, "a", 1) == (5, 1, [True])
    assert found(images, "a", 2) == (5, 1, [True, False])


def test_answers_are_bounded(monkeypatch):
    monkeypatch.setattr(images_module, "MAX_ANSWERS", 2)
    images = Images()
    images.add(0, [image(5, "a", "b", "c")])
    assert [found(images, name)[0] for name in "abcab"] == [5] * 5
    assert len(images._answers) <= 2
