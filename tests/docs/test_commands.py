"""Commands on the pages: each has the sub-commands, flags and targets that it is written with."""

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from kscheduler.cli import kscheduler
from kscheduler.cli.command_line import parse
from kscheduler.cli.explain import explain
from kscheduler.cli.what_if import what_if

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
]
ALIASES = {"why": explain, "whatif": what_if}
# In a block of commands at the beginning of a line, or anywhere in a sentence.
COMMAND = re.compile(
    r"(?:^\$ |`)((?:\S*/)?(?:kscheduler|make|kubectl (?:why|whatif)) [^`\n]*)", re.M
)
RECIPE = re.compile(r"^(\S+):.*\n((?:\t.*\n)+)", re.M)
FILE = re.compile(r"\b(?:[\w/.-]+\.(?:yaml|json|txt)|FILE|OLD|NEW)\b")


def commands(page):
    for text in COMMAND.findall(page.read_text()):
        # Places that a reader fills in, and what stands for more of the same.
        if not re.search(r"[…|\[]", text):
            yield text


FOUND = [(page, text) for page in PAGES for text in commands(page)]


def words(text):
    """Up to a remark, or to where the shell goes on with another command."""
    found = shlex.split(text, comments=True)
    ends = [place for place, word in enumerate(found) if word in ("&&", ";", "|", "&")]
    return found[: ends[0]] if ends else found


def check(command, name, args, parent=None):
    """Fails if click would not take the arguments; nothing is run. Sentences name commands without
    any, too.
    """
    if not args:
        return
    context = command.make_context(name, args, parent=parent)
    rest = context._protected_args + context.args if isinstance(command, click.Group) else []
    if rest:
        name, inner, args = command.resolve_command(context, rest)
        check(inner, name, args, context)


def check_kscheduler(args):
    if args and args[0] in kscheduler.list_commands(click.Context(kscheduler)):
        check(kscheduler, "kscheduler", args)
    elif args not in (["--help"], ["-h"]):
        _, rest = parse(args)
        assert rest == []


def check_make(args):
    targets = dict(RECIPE.findall((ROOT / "Makefile").read_text()))
    for target in (arg for arg in args if "=" not in arg):
        assert target in targets, f"no target {target}"
        given = [arg.removeprefix("ARGS=") for arg in args if arg.startswith("ARGS=")]
        recipe = next(
            line for line in targets[target].splitlines() if "$(ARGS)" in line or not given
        )
        if not given or "pytest" in recipe:
            continue
        if "-m tests." not in recipe:
            check_kscheduler(["sandbox", *shlex.split(given[0])])
            continue
        module = importlib.import_module(re.search(r"-m (tests\.\S+)", recipe)[1])
        if isinstance(module.main, click.Command):
            check(module.main, target, shlex.split(given[0]))


@pytest.mark.parametrize(
    ("page", "text"),
    FOUND,
    ids=[f"{page.relative_to(ROOT)}: {text[:60]}" for page, text in FOUND],
)
def test_a_command_on_a_page_can_be_given(page, text, tmp_path, monkeypatch):
    for name in FILE.findall(text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.chdir(tmp_path)
    program, *args = words(text)
    if program == "make":
        check_make(args)
    elif program == "kubectl":
        check(ALIASES[args[0]], args[0], args[1:])
    else:
        check_kscheduler(args)


def test_there_are_commands():
    assert len(FOUND) > 60
