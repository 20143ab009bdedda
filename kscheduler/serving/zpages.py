"""/flagz and /statusz: what was asked of the process, and how it is.

Plain text is for people; the delimiter in it changes at random so that nobody writes a parser.
Programs ask for a kind of config.k8s.io instead.
"""

from __future__ import annotations

import datetime
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from kscheduler.config.emulation import BINARY, Release, release_text
from kscheduler.serving import answers
from kscheduler.serving.answers import Handler
from kscheduler.serving.health import STARTED
from kscheduler.serving.negotiation import JSON, TEXT, YAML, Target, choose

COMPONENT = "kube-scheduler"
GROUP = "config.k8s.io"
DEPRECATED = "v1alpha1"
VERSIONS = (DEPRECATED, "v1beta1")
DELIMITERS = (":", ": ", "=", " ")
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)
FORMS = (JSON, YAML, TEXT)


@dataclass(frozen=True, slots=True)
class ZPage:
    """`members` are the fields of the structured form behind its metadata."""

    kind: str
    text: Callable[[], str]
    members: Callable[[], Mapping[str, Any]]

    @property
    def name(self) -> str:
        return self.kind.lower()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        if not accept.strip():
            return answers.text(self.text(), headers={})
        choice = choose(accept, FORMS, self._allows)
        if choice is None:
            return answers.not_acceptable(request, ", ".join(FORMS))
        if choice.target is None:
            return answers.text(self.text(), headers={})
        return self._structured(request, choice.media_type, choice.target)

    def _allows(self, media_type: str, target: Target | None) -> bool:
        if media_type == TEXT:
            return target is None
        return target in [Target(GROUP, version, self.kind) for version in VERSIONS]

    def _structured(
        self, request: web.BaseRequest, media_type: str, target: Target
    ) -> web.Response:
        document = {
            "kind": self.kind,
            "apiVersion": f"{GROUP}/{target.version}",
            "metadata": {"name": COMPONENT},
            **self.members(),
        }
        content_type = media_type + target.parameters()
        answer = answers.encoded(request, document, media_type, content_type=content_type)
        if target.version == DEPRECATED:
            answer.headers["Warning"] = (
                f'299 - "This version of the {self.name} endpoint is deprecated. '
                'Please use a newer version."'
            )
        return answer


def flagz(flags: Mapping[str, str]) -> Handler:
    delimiter = random.choice(DELIMITERS)
    lines = [f"{name}{delimiter}{value}\n" for name, value in sorted(flags.items())]
    text = _head("flagz") + "".join(lines)
    return ZPage("Flagz", lambda: text, lambda: {"flags": dict(sorted(flags.items()))})


def statusz(paths: Sequence[str], emulated: Release) -> Handler:
    return ZPage(
        "Statusz", partial(_status_text, paths, emulated), partial(_status, paths, emulated)
    )


def _head(name: str) -> str:
    return f"\n{COMPONENT} {name}\n{WARNING}\n"


def _status_text(paths: Sequence[str], emulated: Release) -> str:
    facts = {
        "Started": _started().strftime("%a %b %e %H:%M:%S UTC %Y"),
        "Up": _uptime(_up_seconds()),
        "Go version": _interpreter(),
        "Binary version": str(BINARY),
        "Emulation version": release_text(emulated),
        "Paths": " ".join(paths),
    }
    delimiter = random.choice(DELIMITERS)
    lines = (f"{name}{delimiter} {value}\n" for name, value in facts.items())
    return f"{_head('statusz')}\n{''.join(lines)}"


def _status(paths: Sequence[str], emulated: Release) -> Mapping[str, Any]:
    return {
        "startTime": f"{_started():%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": _up_seconds(),
        "goVersion": _interpreter(),
        "binaryVersion": str(BINARY),
        "emulationVersion": release_text(emulated),
        "paths": list(paths),
    }


def _started() -> datetime.datetime:
    return datetime.datetime.fromtimestamp(STARTED, datetime.UTC)


def _up_seconds() -> int:
    return max(0, int(time.time()) - STARTED)


def _uptime(seconds: int) -> str:
    return f"{seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec"


def _interpreter() -> str:
    """In the place of Go's version."""
    return f"python{platform.python_version()}"
