from kscheduler.api.core import Service
from kscheduler.api.meta import ObjectMeta
from kscheduler.plugins.helper.lister_memo import ListerMemo, NamespaceMemo


class Counted:
    """A lister that counts changes, and how often it is read."""

    def __init__(self):
        self.objects = []
        self.generation = 0
        self.reads = 0

    def add(self, name, namespace="ns"):
        self.objects.append(Service(ObjectMeta(name=name, namespace=namespace)))
        self.generation += 1

    def items(self):
        self.reads += 1
        return iter(self.objects)

    def add_index(self, name, function):
        self.values_of = function

    def by_index(self, name, value):
        self.reads += 1
        return [item for item in self.objects if value in self.values_of(item)]


def test_answers_are_kept_until_an_object_changes():
    lister = Counted()
    answers = ListerMemo(lister, "test")
    assert answers.get("how many") is None
    answers.put("how many", 0, 1)
    assert answers.get("how many") == 0
    lister.add("a")
    assert answers.get("how many") is None
    assert [service.name for service in answers.objects] == ["a"]


def test_objects_are_not_looked_at_while_nothing_changes():
    lister = Counted()
    lister.add("a")
    answers = ListerMemo(lister, "test")
    for _ in range(3):
        answers.get("anything")
    assert lister.reads == 1


def test_a_change_that_was_none_keeps_the_answers():
    lister = Counted()
    lister.add("a")
    answers = ListerMemo(lister, "test")
    answers.get("question")
    answers.put("question", "answer", 1)
    lister.generation += 1
    assert answers.get("question") == "answer"


def test_answers_about_a_namespace_are_kept_until_an_object_in_it_changes():
    lister = Counted()
    answers = NamespaceMemo(lister, "test")
    lister.add("a")
    assert answers.get("ns", "how many") is None
    assert answers.put("ns", "how many", len(answers.objects("ns")), 1) == 1
    lister.add("a", namespace="other")
    assert answers.get("ns", "how many") == 1
    assert answers.get("other", "how many") is None
    lister.add("b")
    assert answers.get("ns", "how many") is None
    assert [service.name for service in answers.objects("ns")] == ["a", "b"]


def test_objects_of_a_namespace_are_not_looked_at_while_nothing_changes():
    lister = Counted()
    lister.add("a")
    answers = NamespaceMemo(lister, "test")
    answers.put("ns", "how many", len(answers.objects("ns")), 1)
    for _ in range(3):
        assert answers.get("ns", "how many") == 1
        assert answers.get("ns", "anything else") is None
        assert len(answers.objects("ns")) == 1
    assert lister.reads == 1


def test_a_change_in_another_namespace_is_looked_at_once():
    lister = Counted()
    lister.add("a")
    answers = NamespaceMemo(lister, "test")
    answers.put("ns", "how many", len(answers.objects("ns")), 1)
    lister.add("a", namespace="other")
    for _ in range(3):
        assert answers.get("ns", "how many") == 1
    assert lister.reads == 2
