"""A class that declares itself as an in-tree plugin answers for all nodes at once."""

import pytest

from kscheduler.extension_points import Point
from kscheduler.framework.declaration import plugin


def test_points_and_signing_are_read_off_the_class():
    @plugin(weight=2, also_at=(Point.PRE_SCORE,))
    class Example:
        name = "Example"

        def score(self, cycle, pod, nodes): ...

        def sign(self, pod): ...

    declared = Example.declaration
    assert declared.points == {Point.SCORE, Point.PRE_SCORE}
    assert (declared.name, declared.signs, declared.weight) == ("Example", True, 2)


@pytest.mark.parametrize(
    ("method", "instead"), [("filter_node", "filter"), ("score_node", "score")]
)
def test_methods_asked_node_by_node_are_refused(method, instead):
    per_node = type("Example", (), {"name": "Example", method: lambda self, cycle, pod, node: None})
    with pytest.raises(TypeError, match=f"{method} is for out-of-tree plugins; .* by {instead}$"):
        plugin()(per_node)
