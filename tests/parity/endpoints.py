"""Sends recorded requests to the daemon's secure port, and compares the answers.

    python -m tests.parity.endpoints [FILE…]

`cases/endpoints.jsonl.gz`, or the files named, introduce settings of kube-scheduler (`instance`)
and hold requests to each of them with who sent them and what came back (`response`), and what TLS
clients saw (`tls`). Here every setting is a daemon in this process, against a cluster in memory
with the users and roles of the recording. Compared are status, content type, headers and body, in
order, so that counters have to agree too.

Different by nature, and therefore not compared: whether a body comes in chunks, the help texts of
metrics, and flags that kube-scheduler does not have. Different on purpose: DIFFERENT, below.
"""

import asyncio
import contextlib
import gzip
import json
import re
import ssl
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import uvloop
from cryptography import x509

from kscheduler import logs
from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.cli.flags import GROUPS, OWN
from kscheduler.errors import KschedulerError
from kscheduler.sandbox import ApiServer, User
from kscheduler.sandbox.access.credentials import Authority, KeyPair
from tests.kit.ports import free_port

CASES = Path(__file__).parent / "cases" / "endpoints.jsonl.gz"
PATIENCE_SECONDS = 30.0

# HTTP/2 is not spoken, so whoever offers it beside HTTP/1.1 gets that, and who insists is refused.
DIFFERENT = {("leader", ("h2", "http/1.1")): "http/1.1", ("leader", ("h2",)): "handshake error"}

# Settings that were asked for their health an unknown number of times before the recording began.
UNCOUNTED = ("standby",)

OPS_PATHS = [
    path
    for start in ("/configz", "/flagz", "/statusz", "/healthz", "/livez", "/readyz")
    for path in (start, f"{start}/*")
]
OPS_PATHS += ["/metrics", "/metrics/resources", "/metrics/slis", "/debug/*"]
TOKENS = {
    "joe-token": User("joe"),
    "mon-token": User("mon", ("system:monitoring",)),
    "ops-token": User("ops"),
    "admin-token": User("admin", ("system:masters",)),
}
PATTERNS = {
    "@DELIM@": "(?:: |:|=| )",
    "@DATE@": r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d UTC \d{4}",
    "@N@": r"\d+",
    "@NN@": r"\d\d",
    "@GOVERSION@": r"[\w.+-]+",
    "@EPOCH@": r"[\d.e+]+",
    "@RFC3339@": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "@KUBECONFIG@": r"[^\s\"]+",
    "@CONFIG@": r"[^\s\"]+",
    "@PORT@": r"\d+",
    "@DEADPORT@": r"\d+",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Instance:
    """A daemon under one of the recorded settings."""

    port: int
    task: asyncio.Task[int] | None = None
    verbosity: logs.Logging = field(default_factory=logs.Logging)


def main(paths: list[str]) -> int:
    records = [record for path in paths or [CASES] for record in load(Path(path))]
    compared = sum(record["record"] != "instance" for record in records)
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(replay(records, Path(folder)))
    for line in found:
        print(line)
    print(f"{compared - len(found)}/{compared} cases")
    return 1 if found else 0


def load(path: Path) -> list[dict]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [json.loads(line) for line in lines]


async def replay(records: list[dict], folder: Path) -> list[str]:
    """The differences, one text for each case that has any."""
    instances: dict[str, Instance] = {}
    found = []
    quiet = Silence()
    async with cluster() as api, contextlib.AsyncExitStack() as running:
        stage = Stage(api, folder)
        for record in records:
            name = record["instance"]
            if record["record"] == "instance":
                instances[name] = await running.enter_async_context(stage.started(record, quiet))
                continue
            logs.configure(instances[name].verbosity, stderr=quiet)
            if record["record"] == "tls":
                lines = list(await stage.tls_differences(record, instances[name]))
                title = f"{name} TLS"
            else:
                lines = list(await stage.differences(record, instances[name]))
                title = f"{name} {record['method']} {record['path']} as {record['identity']}"
            if lines:
                found.append("\n".join(f"{title}: {line}" for line in lines))
    logs.configure(logs.Logging())
    return found


class Silence:
    def write(self, line: bytes, /) -> None: ...

    def flush(self) -> None: ...


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[ApiServer]:
    async with ApiServer(tokens=TOKENS, tls=True) as api:
        verbs = ["get", "head", "put", "post", "delete"]
        rules = [{"nonResourceURLs": OPS_PATHS, "verbs": verbs}]
        about = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "ops"}}
        api.objects.create(about | {"kind": "ClusterRole", "rules": rules})
        group = "rbac.authorization.k8s.io"
        api.objects.create(
            about
            | {
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "ops"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "ops"}],
            }
        )
        yield api


class Stage:
    """The cluster and everybody who comes to the daemons."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self._api = api
        self._folder = folder
        assert api.authority is not None
        foreign = Authority("somebody-else")
        signed = api.authority.client
        self._certificates: dict[str, KeyPair] = {
            "cert:joe": signed("joe"),
            "cert:ops": signed("ops"),
            "cert:masters": signed("admin", ("system:masters",)),
            "cert:wrong-ca": foreign.client("admin", ("system:masters",)),
            "proxy": api.aggregator.front_proxy.client("front-proxy-client"),
        }
        self._kubeconfig = folder / "kubeconfig"
        api.write_kubeconfig(self._kubeconfig, User("system:kube-scheduler"))
        self._without_rights = folder / "without-rights"
        api.write_kubeconfig(self._without_rights, User("nobody"))
        self._dead = folder / "dead"
        dead = f"https://127.0.0.1:{free_port()}"
        self._dead.write_text(self._kubeconfig.read_text().replace(api.url, dead))

    @contextlib.asynccontextmanager
    async def started(self, record: dict, quiet: Silence) -> AsyncIterator[Instance]:
        """Ready to be asked: as far as it gets in this setting."""
        name = record["instance"]
        config = self._folder / f"{name}.yaml"
        port = free_port()
        fillers = {
            "@KUBECONFIG_NORIGHTS@": str(self._without_rights),
            "@KUBECONFIG_DEAD@": str(self._dead),
            "@KUBECONFIG@": str(self._kubeconfig),
            "@CONFIG@": str(config),
            "@PORT@": str(port),
        }
        config.write_text(filled(record["config"], fillers))
        options, _ = parse([filled(arg, fillers) for arg in record["args"]])
        logs.configure(options.logging(), stderr=quiet)
        instance = Instance(port, verbosity=options.logging())
        ready = asyncio.Event()
        instance.task = asyncio.create_task(run(options, ready, name), name=name)
        try:
            await asyncio.wait_for(ready.wait(), PATIENCE_SECONDS)
            await self._ask(instance, "GET", "/livez", "none")
            yield instance
        finally:
            instance.task.cancel()
            await asyncio.wait({instance.task})

    async def differences(self, record: dict, instance: Instance) -> Iterator[str]:
        answer = await self._ask(
            instance,
            record["method"],
            record["path"],
            record["identity"],
            record.get("request_headers", {}),
            record.get("request_body", ""),
        )
        return compare(record, answer)

    async def tls_differences(self, record: dict, instance: Instance) -> Iterator[str]:
        versions = {name: await greeted(instance.port, name) for name in record["versions"]}
        alpn = [[offer, await offered(instance.port, offer)] for offer, _ in record["alpn"]]
        wanted = [
            [offer, DIFFERENT.get((record["instance"], tuple(offer)), chosen)]
            for offer, chosen in record["alpn"]
        ]
        return differ(
            ("versions", record["versions"], versions),
            ("ALPN", wanted, alpn),
            ("certificate", record["certificate"], await certificate(instance.port)),
        )

    async def _ask(
        self,
        instance: Instance,
        method: str,
        path: str,
        identity: str,
        headers: dict[str, str] | None = None,
        body: str = "",
    ) -> Answer:
        kind, _, who = identity.partition(":")
        sent = dict(headers or {})
        context = insecure_context()
        if kind == "token":
            sent["Authorization"] = f"Bearer {who}-token"
        elif kind == "bad-token":
            sent["Authorization"] = "Bearer nobody-knows-me"
        elif kind == "basic":
            sent["Authorization"] = "Basic am9lOnNlY3JldA=="
        elif kind == "proxy":
            sent["X-Remote-User"] = who
            self._show(context, "proxy")
        elif kind == "cert":
            self._show(context, identity)
        return await exchange(instance.port, context, method, path, sent, body.encode())

    def _show(self, context: ssl.SSLContext, name: str) -> None:
        pair = self._certificates[name]
        path = self._folder / "client.pem"
        path.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(path)


async def run(options, ready: asyncio.Event, name: str) -> int:
    async with setup(options, options.gates()) as daemon:
        running = asyncio.create_task(daemon.run())
        try:
            while not settled(daemon, name):
                if running.done():
                    running.result()
                await asyncio.sleep(0.01)
            ready.set()
            return await running
        except KschedulerError:
            return 1
        finally:
            running.cancel()
            await asyncio.wait({running})


def settled(daemon, name: str) -> bool:
    """Whether an instance is where its description says."""
    if name == "leader":
        return daemon.synced and daemon.elector is not None and daemon.elector.is_leader
    return daemon.synced or name in ("delayed-standby", "unsynced")


def compare(record: dict, answer: Answer) -> Iterator[str]:
    headers = dict(record["headers"])
    got = {name: answer.headers.get(name) for name in headers}
    for name in ("transfer-encoding", "content-length"):
        headers.pop(name, None)
        got.pop(name, None)
    if "process-start-time-unix" in headers:
        headers["process-start-time-unix"] = got["process-start-time-unix"]
    unexpected = [
        name
        for name in ("x-content-type-options", "location", "warning", "content-disposition")
        if name in answer.headers and name not in headers
    ]
    yield from differ(
        ("status", record["status"], answer.status),
        ("content type", record["content_type"], answer.headers.get("content-type")),
        ("headers", headers, got),
        ("unexpected headers", [], unexpected),
    )
    length = answer.headers.get("content-length")
    if record["method"] != "HEAD" and length is not None and int(length) != len(answer.body):
        yield f"content length {length} of a body of {len(answer.body)}"
    if record.get("body_omitted"):
        yield from differ(("empty", record["body_empty"], not answer.body))
        return
    want, got = record["body"], upstreams_part(answer.body)
    if record["instance"] in UNCOUNTED and record["path"] == "/metrics/slis":
        want, got = without_counts(want), without_counts(got)
    if not matches(want, got):
        yield f"body: want {want!r}, got {got!r}"


def differ(*pairs: tuple[str, object, object]) -> Iterator[str]:
    return (f"{what}: want {want!r}, got {got!r}" for what, want, got in pairs if want != got)


def matches(want: str, got: str) -> bool:
    pattern = re.escape(want)
    for name, stands_for in PATTERNS.items():
        pattern = pattern.replace(name, stands_for)
    return re.fullmatch(pattern, got) is not None


def upstreams_part(body: str) -> str:
    """Without help texts, and without flags that are ours alone."""
    own = "|".join(re.escape(flag.name) for flag in GROUPS[OWN])
    body = re.sub(r"^# HELP .*\n", "", body, flags=re.MULTILINE)
    body = re.sub(rf"^ *(?:{own})[:= ].*\n", "", body, flags=re.MULTILINE)
    return re.sub(rf'"(?:{own})":"[^"]*",', "", body)


def without_counts(body: str) -> str:
    return re.sub(r"^kubernetes_healthchecks_total.*\n", "", body, flags=re.MULTILINE)


def filled(text: str, fillers: dict[str, str]) -> str:
    for name, filler in fillers.items():
        text = text.replace(name, filler)
    return text


async def exchange(
    port: int, context: ssl.SSLContext, method: str, path: str, headers: dict[str, str], body: bytes
) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(PATIENCE_SECONDS):
            head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.transport.abort()
    status, *fields = head.decode().split("\r\n")
    pairs = (line.partition(": ") for line in fields)
    named = {name.lower(): value for name, _, value in pairs}
    return Answer(int(status.split()[1]), named, content.decode("latin-1"))


async def greeted(port: int, version: str) -> str:
    """The version spoken with a client that knows one only."""
    context = insecure_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings(action="ignore"):  # some of them should not be used any more
        context.minimum_version = ssl.TLSVersion.TLSv1
        number = ssl.TLSVersion[version.replace(".", "_")]
        context.maximum_version = context.minimum_version = number
    try:
        return (await handshake(port, context)).version() or ""
    except OSError:
        return "refused"


async def offered(port: int, protocols: list[str]) -> str | None:
    context = insecure_context()
    if protocols:
        context.set_alpn_protocols(protocols)
    try:
        return (await handshake(port, context)).selected_alpn_protocol()
    except OSError:
        return "handshake error"


async def certificate(port: int) -> dict:
    shown = (await handshake(port, insecure_context())).getpeercert(binary_form=True)
    found = x509.load_der_x509_certificate(shown)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    told = ", ".join(
        [f"DNS:{name}" for name in names.get_values_for_type(x509.DNSName)]
        + [f"IP Address:{address}" for address in names.get_values_for_type(x509.IPAddress)]
    )
    constraints = found.extensions.get_extension_for_class(x509.BasicConstraints)
    return {
        "subject": re.sub(r"\d+$", "@EPOCH@", f"CN = {_common_name(found.subject)}"),
        "issuer": re.sub(r"\d+$", "@EPOCH@", f"CN = {_common_name(found.issuer)}"),
        "extensions": [
            *_usages(found),
            f"X509v3 Basic Constraints:{' critical' * constraints.critical}",
            f"CA:{str(constraints.value.ca).upper()}",
            "X509v3 Subject Alternative Name:",
            told,
        ],
        "validity_days": (found.not_valid_after_utc - found.not_valid_before_utc).days * 1.0,
    }


def _usages(found: x509.Certificate) -> list[str]:
    usage = found.extensions.get_extension_for_class(x509.KeyUsage)
    kinds = {
        "Digital Signature": usage.value.digital_signature,
        "Key Encipherment": usage.value.key_encipherment,
        "Certificate Sign": usage.value.key_cert_sign,
    }
    extended = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    known = {x509.OID_SERVER_AUTH: "TLS Web Server Authentication"}
    return [
        f"X509v3 Key Usage:{' critical' * usage.critical}",
        ", ".join(kind for kind, used in kinds.items() if used),
        "X509v3 Extended Key Usage:",
        ", ".join(known.get(oid, oid.dotted_string) for oid in extended),
    ]


def _common_name(name: x509.Name) -> str:
    return str(name.get_attributes_for_oid(x509.OID_COMMON_NAME)[0].value)


async def handshake(port: int, context: ssl.SSLContext) -> ssl.SSLObject:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    tls = writer.get_extra_info("ssl_object")
    writer.transport.abort()
    return tls


def insecure_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
