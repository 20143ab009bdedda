"""/debug/pprof/ and the profiles below it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from html import escape

from aiohttp import web

from kscheduler.serving import answers
from kscheduler.serving.answers import NO_SNIFF, query_of
from kscheduler.serving.gate import Pages, path_of
from kscheduler.serving.profiling import memory
from kscheduler.serving.profiling.formats import pprof, speedscope, summed
from kscheduler.serving.profiling.sampler import (
    INTERVAL_SECONDS,
    BusyError,
    Place,
    Sampler,
    Stack,
    stack_of_task,
    stacks_of_threads,
)

ROOT = "/debug/pprof/"
DEFAULT_SECONDS = 30
MAX_SECONDS = 300
CPU = ("cpu", "nanoseconds")

ABOUT = {
    "allocs": "The same as heap: what is gone is not remembered",
    "block": "Always empty: the one thread blocks on no other",
    "goroutine": "Tasks of the event loop and what each awaits. Add ?debug=1 to read it as text",
    "heap": "Objects by type. Add ?debug=1 to read it as text",
    "mutex": "Always empty: there are no locks to contend for",
    "profile": "CPU time of the event loop by stack; ?seconds= says for how long to look",
    "threadcreate": "Threads and where they stand",
    "trace": "What ran when, for speedscope; ?seconds= says for how long to look",
}


def install(pages: Pages) -> None:
    async def redirect(request: web.BaseRequest) -> web.StreamResponse:
        link = f'<a href="{ROOT}">Found</a>.\n\n'
        return answers.text(link, status=302, content_type=answers.HTML, headers={"Location": ROOT})

    pages.add("/debug/pprof", redirect)
    pages.add_below(ROOT, Profiler().answer)


class Profiler:
    """The pages below /debug/pprof/, which share one sampler."""

    def __init__(self) -> None:
        self._sampler = Sampler()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        name = path_of(request).removeprefix(ROOT)
        text = query_of(request).get("debug", ["0"])[0] not in ("", "0")
        match name:
            case "":
                return answers.text(_index(), content_type=answers.HTML)
            case "profile" | "trace":
                return await self._sample(request, name)
            case "symbol":
                return answers.text("num_symbols: 1\n")
            case "heap" | "allocs":
                held = await memory.by_type()
                if text:
                    return answers.text(memory.as_text(held))
                units = (("inuse_objects", "count"), ("inuse_space", "bytes"))
                types = (((Place(kind, "", 0, 0),), numbers) for kind, numbers in held.items())
                return _file(name, pprof(units, types))
            case "goroutine":
                tasks = Counter(
                    (*stack_of_task(task), Place(f"task {task.get_name()}", "", 0, 0))
                    for task in asyncio.all_tasks()
                )
                return _stacks(name, tasks, text=text)
            case "threadcreate":
                names = {thread.ident: thread.name for thread in threading.enumerate()}
                threads = Counter(
                    (*stack, Place(f"thread {names.get(number, number)}", "", 0, 0))
                    for number, stack in stacks_of_threads().items()
                )
                return _stacks(name, threads, text=text)
            case "block" | "mutex":
                return _stacks(name, {}, text=text)
        return answers.text("Unknown profile\n", status=404)

    async def _sample(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        asked = query_of(request).get("seconds", [""])[0]
        # Nonsense means the default, as in Go.
        is_positive = asked.isascii() and asked.isdigit() and int(asked) > 0
        seconds = int(asked) if is_positive else DEFAULT_SECONDS
        if seconds > MAX_SECONDS:
            return answers.text(f"at most {MAX_SECONDS} seconds can be looked at\n", status=400)
        try:
            samples = await self._sampler.sample(seconds)
        except BusyError as error:
            return answers.text(f"Could not enable CPU profiling: {error}\n", status=500)
        if name == "trace":
            return _file(name, speedscope(samples))
        profile = pprof(
            (("samples", "count"), CPU),
            summed(samples).items(),
            started=samples.started,
            seconds=samples.seconds,
            period=(CPU, int(INTERVAL_SECONDS * 1e9)),
        )
        return _file(name, profile)


def _index() -> str:
    rows = "".join(
        f"<tr><td><a href='{name}'>{name}</a></td><td>{escape(what)}</td></tr>\n"
        for name, what in ABOUT.items()
    )
    return (
        f"<html>\n<head>\n<title>{ROOT}</title>\n</head>\n<body>\n{ROOT}<br>\n"
        f"<table>\n{rows}</table>\n"
        "<p>Read with <code>go tool pprof</code> or any other reader of pprof's format.</p>\n"
        "</body>\n</html>\n"
    )


def _stacks(name: str, stacks: Mapping[Stack, int], *, text: bool) -> web.Response:
    if text:
        parts = [f"{name} profile: total {sum(stacks.values())}\n"]
        for stack, count in stacks.items():
            lines = "".join(f"#\t{place}\n" for place in stack[:-1])
            parts.append(f"{count} @ {stack[-1].function}\n{lines}\n")
        return answers.text("".join(parts))
    return _file(name, pprof(((name, "count"),), ((s, (n,)) for s, n in stacks.items())))


def _file(name: str, content: bytes) -> web.Response:
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f'attachment; filename="{name}"',
        **NO_SNIFF,
    }
    return web.Response(body=content, headers=headers)
