"""For tests of plugins: a plugin on its own, with nodes, pods and API objects made up for it.

    stage = Stage(NodeLoad, nodes=[make_node("a"), make_node("b")], args={"halfLife": 5})
    assert stage.scores(make_pod("p")) == {"a": 100, "b": 0}

The plugin is made, called and checked as the scheduler does it; what it does wrong is raised.
"""

from kscheduler.testing.objects import make_node, make_pod
from kscheduler.testing.stage import Stage

__all__ = ["Stage", "make_node", "make_pod"]
