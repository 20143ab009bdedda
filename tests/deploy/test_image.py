"""The image's recipe, step by step but without an engine: what it copies, runs and starts works.

What only an engine can do is left out: the base image, its Python, and the user.
"""

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kscheduler.version import __version__

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "deploy" / "Dockerfile"
# Folders of the image; here they lie in a folder of the test's.
FOLDERS = re.compile(r"(?<![\w./-])/(src|opt)\b")


class Step(NamedTuple):
    word: str
    rest: str


def stages():
    """Steps by stage, each beginning with its FROM."""
    text = re.sub(r"^#.*\n", "", RECIPE.read_text(), flags=re.M).replace("\\\n", " ")
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        step = Step(*line.split(maxsplit=1))
        if step.word == "FROM":
            found.append([])
        if found:
            found[-1].append(step)
    return found


def is_sent(path):
    """Whether .dockerignore lets the builder see it: the last line that matches decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().split():
        pattern = line.removeprefix("!")
        if fnmatch.fnmatch(path, pattern) or fnmatch.fnmatch(path, f"{pattern}/*"):
            sent = line.startswith("!")
    return sent


class Image:
    """A root of a file system in a folder, and the environment of what runs there."""

    def __init__(self, root):
        self.root = root
        self.env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.env["HOME"] = str(root)

    def here(self, text):
        return FOLDERS.sub(lambda found: f"{self.root}/{found[1]}", text)

    def carry_out(self, step):
        if step.word == "ENV":
            for name, value in (pair.split("=", 1) for pair in shlex.split(step.rest)):
                self.env[name] = self.here(value).replace("$PATH", self.env["PATH"])
        elif step.word == "COPY":
            *sources, target = step.rest.split()
            for source in sources:
                assert is_sent(source), f"{source} is not sent to the builder"
                self._copy(ROOT / source, Path(self.here(target)), target)
        elif step.word == "RUN":
            self.run(step.rest)

    def _copy(self, source, target, text):
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            return
        folder = target if text.endswith("/") else target.parent
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def run(self, command):
        done = subprocess.run(
            ["bash", "-euc", self.here(command)],
            capture_output=True,
            text=True,
            check=False,
            env=self.env,
            cwd=self.root,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.slow
def test_the_steps_of_the_image_lead_to_a_scheduler_that_runs(tmp_path):
    build, final = stages()
    image = Image(tmp_path)
    for step in build:
        image.carry_out(step)
    assert not (tmp_path / "opt/kscheduler/bin/pip").exists()
    copied = [step.rest for step in final if step.word == "COPY"]
    assert copied == ["--from=build /opt/kscheduler /opt/kscheduler"]
    for step in final:
        if step.word == "ENV":
            image.carry_out(step)
    (entry,) = [step.rest for step in final if step.word == "ENTRYPOINT"]
    (program,) = re.findall(r'"([^"]+)"', entry)
    assert (
        shutil.which(program, path=image.env["PATH"]) == f"{tmp_path}/opt/kscheduler/bin/{program}"
    )
    assert __version__ in image.run(f"{program} --version")
    placed = image.run(f"{program} sandbox --once --nodes=2")
    assert placed.splitlines()[-1].endswith("placed, 0 waiting")


def test_nobody_is_root_in_the_image():
    (user,) = [step.rest for step in stages()[-1] if step.word == "USER"]
    assert all(int(number) > 0 for number in user.split(":"))
