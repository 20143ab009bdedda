"""Code written by hand beside the libraries that also do it, in CPU time.

Answers the question of docs/dependencies.md: is it still worth it?

    python -m tests.bench.libraries [--requests 20000]

HTTP/1.1 beside aiohttp's client and httptools' parser (if that is installed; it is no dependency),
decoding of a pod beside the official client's models, metrics beside prometheus-client's. The HTTP
server is a process of its own that answers a binding with 201 and a Status, as kube-apiserver does;
only the client's CPU time is counted, so the machine may be busy.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time

import aiohttp
import prometheus_client
import uvloop
from kubernetes.client import ApiClient

from kscheduler.api.core import Pod
from kscheduler.api.decode import decoder_for
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.http.response import Response
from kscheduler.client.transport import Transport
from kscheduler.metrics import Metrics
from tests.client.streams import realistic_pod

try:
    import httptools
except ImportError:
    httptools = None

PATH = "/api/v1/namespaces/team-7/pods/web-6d4cf56db6-00042/binding"
REQUEST = (
    b'{"kind":"Binding","apiVersion":"v1","metadata":{"name":"web-6d4cf56db6-00042",'
    b'"namespace":"team-7","uid":"6d3c9f0e-0000-4000-8000-000000000042"},'
    b'"target":{"kind":"Node","name":"node-01234"}}'
)
STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
HEAD = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 4ad0f5a0-4cb5-4d9a-a3cb-8f0f5a6ad0c1\r\n"
    b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 6d3c9f0e-0000-4000-8000-000000000001\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 6d3c9f0e-0000-4000-8000-000000000002\r\n"
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
)
ANSWER = HEAD + b"Content-Length: %d\r\n\r\n" % len(STATUS) + STATUS
# One event of a watch, as kube-apiserver flushes it: a chunk of its own.
EVENT = b'{"type":"MODIFIED","object":' + b'{"kind":"Pod","spec":{}}' * 90 + b"}\n"
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
WATCH_HEAD = HEAD.replace(b"201 Created", b"200 OK") + b"Transfer-Encoding: chunked\r\n\r\n"
WARM_UP = 500


class Bindings(asyncio.Protocol):
    """A server that reads as little of a request as it can: its end."""

    def connection_made(self, transport):
        self._transport = transport
        self._unread = b""

    def data_received(self, data):
        self._unread += data
        while (end := self._unread.find(b"\r\n\r\n")) >= 0:
            length = self._unread[:end].lower().partition(b"content-length:")[2]
            size = end + 4 + int(length.split(b"\r\n")[0])
            if len(self._unread) < size:
                return
            self._unread = self._unread[size:]
            self._transport.write(ANSWER)


async def serve():
    server = await asyncio.get_running_loop().create_server(Bindings, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def per_request(send, requests):
    """Microseconds of CPU, with 16 requests under way at a time as when pods are bound."""
    for _ in range(WARM_UP):
        await send()

    async def work():
        for _ in range(requests // 16):
            await send()

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(16)))
    return (time.process_time() - started) / (requests // 16 * 16) * 1e6


async def with_our_client(server, requests):
    async with Transport(RestConfig(server), agent="bench") as transport:
        return await per_request(lambda: transport.request("POST", PATH, body=REQUEST), requests)


async def with_aiohttp(server, requests):
    headers = {"User-Agent": "bench", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:

        async def send():
            async with session.post(server + PATH, data=REQUEST) as response:
                assert response.status == 201
                return await response.read()

        return await per_request(send, requests)


class HttptoolsResponse:
    """What `Response` is asked for, by httptools' callbacks."""

    def __init__(self):
        self.headers = {}
        self.body = []
        self.complete = False
        self._parser = httptools.HttpResponseParser(self)
        self.feed = self._parser.feed_data

    def on_header(self, name, value):
        self.headers[name.lower()] = value

    def on_headers_complete(self):
        self.status = self._parser.get_status_code()
        self.keeps_alive = self._parser.should_keep_alive()

    def on_body(self, data):
        self.body.append(data)

    def on_message_complete(self):
        self.complete = True

    def take(self):
        body, self.body = self.body, []
        return b"".join(body)


def parse_answers(make, count):
    """Microseconds of CPU per answer, head and body at once."""
    started = time.process_time()
    for _ in range(count):
        response = make()
        response.feed(ANSWER)
        assert response.complete
        response.take()
    return (time.process_time() - started) / count * 1e6


def parse_watch(make, count):
    """Microseconds of CPU per event of a watch, each a chunk of 2 KB."""
    response = make()
    response.feed(WATCH_HEAD)
    started = time.process_time()
    for _ in range(count):
        response.feed(CHUNK)
        response.take()
    return (time.process_time() - started) / count * 1e6


def per_call(function, count):
    """Microseconds of CPU."""
    function()
    started = time.process_time()
    for _ in range(count):
        function()
    return (time.process_time() - started) / count * 1e6


class Answered:
    """What the official client wants to decode: something with a text."""

    def __init__(self, text):
        self.data = text


def print_least(what, runs):
    print(f"{what:<40} {min(runs):8.2f} µs of CPU (least of {len(runs)})", flush=True)


def compare_http(url, requests, rounds):
    for name, client in (("kscheduler", with_our_client), ("aiohttp", with_aiohttp)):
        runs = [uvloop.run(client(url, requests)) for _ in range(rounds)]
        print_least(f"request with {name}", runs)
    parsers = {"kscheduler": Response} | ({"httptools": HttptoolsResponse} if httptools else {})
    for name, make in parsers.items():
        for what, parse in (("answer", parse_answers), ("watch event", parse_watch)):
            print_least(f"{what} parsed by {name}", [parse(make, requests) for _ in range(rounds)])


def compare_decoding(rounds):
    text = json.dumps(realistic_pod(1))
    encoded, decode, official = text.encode(), decoder_for(Pod), ApiClient()
    ours = [per_call(lambda: decode(encoded), 2000) for _ in range(rounds)]
    print_least("pod decoded by kscheduler", ours)
    theirs = [
        per_call(lambda: official.deserialize(text, "V1Pod", "application/json"), 50)
        for _ in range(rounds)
    ]
    print_least("pod decoded by the official client", theirs)


def compare_metrics(rounds):
    registry = prometheus_client.CollectorRegistry()
    buckets = [0.001 * 2**power for power in range(15)]
    counter = prometheus_client.Counter("a", "a", ["x"], registry=registry).labels("1")
    histogram = prometheus_client.Histogram("h", "h", ["x"], registry=registry, buckets=buckets)
    series = histogram.labels("1")
    metrics = Metrics()
    ours = metrics.schedule_attempts_total.labels("scheduled", "default-scheduler")
    measured = metrics.rest_client_request_duration_seconds.labels("POST", "localhost")
    for what, call in (
        ("counter of kscheduler", ours.inc),
        ("counter of prometheus-client", counter.inc),
        ("histogram of kscheduler", lambda: measured.observe(0.01)),
        ("histogram of prometheus-client", lambda: series.observe(0.01)),
    ):
        print_least(what, [per_call(call, 50_000) for _ in range(rounds)])


def main():
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        uvloop.run(serve())
        return
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.libraries", "--serve"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        compare_http(url, given.requests, given.rounds)
    finally:
        server.terminate()
        server.wait()
    compare_decoding(given.rounds)
    compare_metrics(given.rounds)


if __name__ == "__main__":
    main()
