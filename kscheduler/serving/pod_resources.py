"""/metrics/resources: requests and limits of every pod, for capacity planning.

At 100,000 pods this is some 70 MB of text, and on --metrics-listen anybody may ask for it. So the
page is printed in slices with room for other tasks, straight from the informer's store into a gzip
stream (a thirtieth of the size, and all that is kept). One print serves everyone who asks while it
goes on, and for ten times as long as it took afterwards.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from kscheduler.api.core import Pod, PodSpec
from kscheduler.api.quantity import NANO, QuantityError
from kscheduler.api.requests import pod_limits, pod_requests
from kscheduler.api.resource_names import is_attachable_volumes, is_hugepages
from kscheduler.serving import answers
from kscheduler.serving.connection import PIECE_BYTES
from kscheduler.serving.exposition import (
    GAUGE,
    double,
    family_head,
    label_pairs,
    message,
    number_text,
    opening,
    string,
    varint,
)
from kscheduler.serving.metrics_page import (
    GZIP,
    PROTOBUF,
    accepts_gzip,
    content_type_for,
    good_until,
    page_headers,
)
from kscheduler.slices import Slices

UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}
REQUEST = "kube_pod_resource_request"
LIMIT = "kube_pod_resource_limit"
# In the order of printing.
HELP = {
    LIMIT: "[STABLE] How much of a resource a pod may use.",
    REQUEST: "[STABLE] How much of a resource a pod requests.",
}
ENDED = ("Succeeded", "Failed")
# Printed bytes that are compressed together.
FLUSH_BYTES = 64 * 1024
# Compressed bytes that are unpacked together: at most a thousand times as many come out.
UNPACK_BYTES = 4 * 1024
# Endings remembered during a print; those of a usual spec have some 500 bytes.
MAX_ENDINGS_BYTES = 4 << 20

Pods = Callable[[], Collection[Pod]]


class Form(Protocol):
    """A way to write a family of gauges; the labels of a sample are sorted by name."""

    # Whether `opening` needs to know how many bytes the samples have.
    counts_bytes: bool

    def opening(self, name: str, samples_bytes: int) -> bytes: ...

    def labels(self, labels: Sequence[tuple[str, str]]) -> bytes: ...

    def ending(self, labels: Sequence[tuple[str, str]], value: float) -> bytes:
        """The last labels of a sample and its value."""

    def sample(self, name: str, beginning: bytes, ending: bytes) -> bytes: ...


class TextForm:
    counts_bytes = False

    def opening(self, name: str, samples_bytes: int) -> bytes:
        return opening(name, HELP[name], GAUGE).encode()

    def labels(self, labels: Sequence[tuple[str, str]]) -> bytes:
        return label_pairs(labels).encode("utf-8", "replace")

    def ending(self, labels: Sequence[tuple[str, str]], value: float) -> bytes:
        return b",%b} %b\n" % (self.labels(labels), number_text(value).encode())

    def sample(self, name: str, beginning: bytes, ending: bytes) -> bytes:
        return b"%b{%b%b" % (name.encode(), beginning, ending)


class ProtobufForm:
    """One MetricFamily per name, behind its length."""

    counts_bytes = True

    def opening(self, name: str, samples_bytes: int) -> bytes:
        head = family_head(name, HELP[name], GAUGE)
        return varint(len(head) + samples_bytes) + head

    def labels(self, labels: Sequence[tuple[str, str]]) -> bytes:
        return b"".join(message(1, string(1, name) + string(2, value)) for name, value in labels)

    def ending(self, labels: Sequence[tuple[str, str]], value: float) -> bytes:
        return self.labels(labels) + message(2, double(1, value))

    def sample(self, name: str, beginning: bytes, ending: bytes) -> bytes:
        return message(4, beginning + ending)


class Page(NamedTuple):
    """A finished page: gzip, and how many bytes it has unpacked."""

    packed: bytes
    size: int
    printed_at: float
    good_until: float


class ResourcesPage:
    """The handler. A standby, whose view may be behind, answers with nothing at all."""

    def __init__(
        self,
        pods: Pods,
        leads: Callable[[], bool],
        *,
        slices: Callable[[], Slices] = Slices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = pods
        self._leads = leads
        self._slices = slices
        self._clock = clock
        self._pages: dict[bool, Page] = {}
        # Held while a page is printed: requests that come meanwhile wait for that one.
        self._printing = {False: asyncio.Lock(), True: asyncio.Lock()}

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if not self._leads():
            return web.Response(body=b"", headers={})
        if request.method == "DELETE":
            return answers.text("metrics reset\n", headers={})
        content_type = content_type_for(request.headers.get("Accept", ""))
        protobuf, asked_at = content_type.startswith(PROTOBUF), self._clock()
        async with self._printing[protobuf]:
            page = self._pages.get(protobuf)
            # A request that waited for the lock takes the page printed meanwhile, expired or not.
            if page is None or (page.printed_at < asked_at and page.good_until < self._clock()):
                page = self._pages[protobuf] = await self._print(protobuf=protobuf)
        headers = page_headers(content_type)
        if accepts_gzip(request):
            return web.Response(body=page.packed, headers=headers | {"Content-Encoding": "gzip"})
        return _Unpacked(page, headers, self._slices)

    async def _print(self, *, protobuf: bool) -> Page:
        slices = self._slices()
        form: Form = ProtobufForm() if protobuf else TextForm()
        packer = zlib.compressobj(1, wbits=GZIP)
        packed: list[bytes] = []
        size = 0
        async for piece in print_pods(list(self._pods()), form, slices):
            size += len(piece)
            packed.append(packer.compress(piece))
        packed.append(packer.flush())
        slices.finish()
        now = self._clock()
        return Page(b"".join(packed), size, now, good_until(now, slices.worked_seconds))


class _Unpacked(web.StreamResponse):
    """A page for clients that do not know gzip, unpacked while it is sent."""

    def __init__(
        self, page: Page, headers: Mapping[str, str], slices: Callable[[], Slices]
    ) -> None:
        super().__init__(headers=headers)
        self.content_length = page.size
        self._packed = page.packed
        self._slices = slices
        self._bodiless = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self._bodiless = request.method == "HEAD"
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        packed, self._packed = (b"" if self._bodiless else self._packed), b""
        unpacker, slices = zlib.decompressobj(wbits=GZIP), self._slices()
        for start in range(0, len(packed), UNPACK_BYTES):
            left: bytes = packed[start : start + UNPACK_BYTES]
            while left:
                await self.write(unpacker.decompress(left, PIECE_BYTES))
                left = unpacker.unconsumed_tail
                # Writing to a client that reads as fast as we write never waits.
                if slices.due():
                    await slices.rest()
        await super().write_eof(data)


async def print_pods(pods: Sequence[Pod], form: Form, slices: Slices) -> AsyncIterator[bytes]:
    """The page, piece by piece; `pods` are those of one moment."""
    endings = _Endings(form)
    for name in HELP:
        samples_bytes = 0
        if form.counts_bytes:
            async for piece in _samples(name, pods, form, endings, slices):
                samples_bytes += len(piece)
        opened = False
        async for piece in _samples(name, pods, form, endings, slices):
            if not opened:
                yield form.opening(name, samples_bytes)
                opened = True
            yield piece


async def _samples(
    name: str, pods: Sequence[Pod], form: Form, endings: _Endings, slices: Slices
) -> AsyncIterator[bytes]:
    """The samples of one family, some `FLUSH_BYTES` at a time."""
    written: list[bytes] = []
    size = 0
    for pod in pods:
        if slices.due():
            await slices.rest()
        spec = pod.spec
        if spec.node_name and pod.status.phase in ENDED:
            continue
        of_spec = endings.of(pod)[name]
        if not of_spec:
            continue
        beginning = form.labels(
            (("namespace", pod.namespace), ("node", spec.node_name), ("pod", pod.name))
        )
        for ending in of_spec:
            sample = form.sample(name, beginning, ending)
            written.append(sample)
            size += len(sample)
        if size >= FLUSH_BYTES:
            yield b"".join(written)
            written.clear()
            size = 0
    if written:
        yield b"".join(written)


_NOTHING: Mapping[str, Sequence[bytes]] = dict.fromkeys(HELP, ())
_Parts = tuple[int, int, int, int, str, int | None]


class _Endings:
    """The part of a pod's samples that follows from its spec, by family and in order.

    The informer lets pods of one workload share the parts of their spec, so this is worked out once
    per workload. A spec is kept with its endings: ids of its parts stay its own.
    """

    def __init__(self, form: Form) -> None:
        self._form = form
        self._known: dict[_Parts, tuple[PodSpec, Mapping[str, Sequence[bytes]]]] = {}
        self._bytes = 0

    def of(self, pod: Pod) -> Mapping[str, Sequence[bytes]]:
        spec = pod.spec
        parts = (
            id(spec.containers),
            id(spec.init_containers),
            id(spec.overhead),
            id(spec.resources),
            spec.scheduler_name,
            spec.priority,
        )
        known = self._known.get(parts)
        if known is None:
            known = spec, self._build(pod)
            self._bytes += sum(len(one) for some in known[1].values() for one in some)
            if self._bytes > MAX_ENDINGS_BYTES:
                self._known.clear()
                self._bytes = 0
            self._known[parts] = known
        return known[1]

    def _build(self, pod: Pod) -> Mapping[str, Sequence[bytes]]:
        try:
            amounts = {REQUEST: pod_requests(pod), LIMIT: pod_limits(pod)}
        except QuantityError:
            # No API server lets such a pod in; scheduling it reports the quantity.
            return _NOTHING
        priority = "" if pod.spec.priority is None else str(pod.spec.priority)
        endings: dict[str, list[bytes]] = {}
        for name, of_resource in amounts.items():
            endings[name] = []
            for resource, nanos in sorted(of_resource.items()):
                if nanos:
                    labels = (
                        ("priority", priority),
                        ("resource", resource),
                        ("scheduler", pod.spec.scheduler_name),
                        ("unit", unit_of(resource)),
                    )
                    endings[name].append(self._form.ending(labels, approximate(nanos)))
        return endings


def unit_of(resource: str) -> str:
    if is_hugepages(resource):
        return "bytes"
    return UNITS.get(resource, "integer" if is_attachable_volumes(resource) else "")


def approximate(nanos: int) -> float:
    """The float Go makes of a quantity: its digits times a power of ten, 700m being 700 x 0.001."""
    for divisor, power in ((NANO, 1.0), (NANO // 1000, 0.001), (1000, 1e-06)):
        if nanos % divisor == 0:
            return nanos // divisor * power
    return nanos * 1e-09
