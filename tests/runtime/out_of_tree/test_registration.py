"""Where plugins come from, and mistakes told in one sentence that names the place."""

import sys
from importlib.metadata import EntryPoint

import pytest

from kscheduler.errors import ConfigError
from kscheduler.plugins import catalog
from kscheduler.runtime.out_of_tree import registration
from kscheduler.runtime.out_of_tree.registration import register


class Mine:
    name = "Mine"

    def __init__(self, args, handle):
        pass

    def filter(self, cycle, pod, nodes):
        return ()


IN_TREE = catalog().in_tree


def made(**attributes):
    return type("Mine", (Mine,), attributes)


def refusal(given=(), specs=(), wanted=()):
    with pytest.raises(ConfigError) as caught:
        register(dict(given), specs, wanted, IN_TREE)
    return str(caught.value)


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Writes a module and gives its path; it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


SOURCE = """
class Mine:
    name = "Mine"
    def __init__(self, args, handle): pass
    def score_node(self, cycle, pod, node): return 1
"""


def test_classes_given(monkeypatch):
    (one,) = register({"Mine": Mine}, (), (), IN_TREE).values()
    assert (one.name, one.points, one.signs) == ("Mine", {"filter"}, False)


def test_a_file_at_hand(file):
    path = file(SOURCE)
    (one,) = register({}, [f"{path}:Mine"], (), IN_TREE).values()
    assert (one.name, one.points) == ("Mine", {"score"})
    assert one.source == f"--plugin {path}:Mine"


def test_a_file_may_import_its_neighbours(file):
    file("WEIGHT = 3\n", "neighbour_of_mine.py")
    path = file(f"import neighbour_of_mine\n{SOURCE}")
    assert list(register({}, [f"{path}:Mine"], (), IN_TREE)) == ["Mine"]


def test_a_module_by_name(file, tmp_path):
    file(SOURCE, "some_module_of_mine.py")
    sys.path.append(str(tmp_path))
    assert list(register({}, ["some_module_of_mine:Mine"], (), IN_TREE)) == ["Mine"]


def entry(value, name="Mine"):
    return EntryPoint(name, value, registration.GROUP)


def test_packages_are_not_asked_for_plugins_that_are_there_anyway(monkeypatch):
    monkeypatch.setattr(registration, "installed", lambda: pytest.fail("packages were asked"))
    assert list(register({"Mine": Mine}, (), ["NodeName", "Mine"], IN_TREE)) == ["Mine"]


def test_what_is_installed_is_loaded_only_if_wanted(file, tmp_path, monkeypatch):
    file(SOURCE, "installed_of_mine.py")
    sys.path.append(str(tmp_path))
    entries = [entry("installed_of_mine:Mine"), entry("no_such_module:Broken", "Broken")]
    monkeypatch.setattr(registration, "installed", lambda: entries)
    assert list(register({}, (), (), IN_TREE)) == []
    assert list(register({}, (), {"Mine"}, IN_TREE)) == ["Mine"]
    assert refusal(wanted={"Broken"}) == (
        "entry point Broken = no_such_module:Broken: cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )


@pytest.mark.parametrize(
    ("plugin_class", "problem"),
    [
        pytest.param(made(name=""), 'it has no name: give the class an attribute, name = "…"'),
        pytest.param(made(filter=lambda self, pod: ()), "filter must take (cycle, pod, nodes)"),
        pytest.param(made(__init__=lambda self: None), "its constructor must take (args, handle)"),
        pytest.param(
            made(args_type=dict),
            "args_type must be a msgspec.Struct, a dataclass or a pydantic model",
        ),
        pytest.param(made(score=7), "score must be a method (cycle, pod, nodes)"),
    ],
    ids=["no name", "wrong signature", "constructor", "args type", "no method"],
)
def test_a_class_that_does_not_keep_the_contract(plugin_class, problem):
    assert refusal({"Mine": plugin_class}) == f"plugins['Mine']: class Mine: {problem}"


def test_a_class_that_waits_where_nothing_may():
    async def filter_(self, cycle, pod, nodes):
        return ()

    assert refusal({"Mine": made(filter=filter_)}) == (
        "plugins['Mine']: class Mine: filter must not be async: "
        "only bind, permit, post_bind, pre_bind may wait"
    )


def test_a_class_that_extends_nothing():
    def initialize(self, args, handle):
        pass

    methods = {"name": "Mine", "__init__": initialize, "PreFilter": initialize}
    assert refusal({"Mine": type("Mine", (), methods)}) == (
        "plugins['Mine']: class Mine: it extends nothing: it has none of the methods of extension "
        "points (did you mean pre_filter by PreFilter?)"
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("Mine", "must be module:Class or file.py:Class"),
        ("no.such:Mine", "cannot be imported: ModuleNotFoundError: No module named 'no'"),
        ("/no/such.py:Mine", "cannot be imported: FileNotFoundError: no such file: /no/such.py"),
        ("json:Mine", "json has no Mine"),
        ("json:loads", "must be a class, not function"),
    ],
)
def test_a_flag_that_names_nothing_useful(spec, problem):
    assert refusal(specs=[spec]) == f"--plugin {spec}: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("1 / 0\n", "ZeroDivisionError: division by zero", id="raises"),
        pytest.param("import sys\nsys.exit(4)\n", "SystemExit: 4", id="exits"),
    ],
)
def test_a_file_that_cannot_be_run(text, problem, file):
    path = file(text)
    source = f"--plugin {path}:Mine"
    assert refusal(specs=[f"{path}:Mine"]) == f"{source}: cannot be imported: {problem}"


def test_names_that_are_taken(file):
    assert refusal({"NodeName": made(name="NodeName")}) == (
        "plugins['NodeName']: a plugin named NodeName already exists in kube-scheduler"
    )
    path = file(SOURCE)
    assert refusal({"Mine": Mine}, [f"{path}:Mine"]) == (
        f"--plugin {path}:Mine: a plugin named Mine already exists: plugins['Mine']"
    )


def test_a_name_that_is_not_the_class_s_own():
    assert refusal({"Yours": Mine}) == "plugins['Yours']: class Mine calls itself Mine"
