"""The daemon's flags: kube-scheduler's names, types, defaults and groups, in our words."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kscheduler.cli.values import (
    BOOL,
    CERT_KEYS,
    DURATION,
    FLOAT32,
    INT,
    INT32,
    INT32S,
    IP,
    LEVEL,
    MAP,
    MULTIMAP,
    QUANTITY,
    STRING,
    STRINGS,
    VERSION,
    VMODULE,
    ValueType,
)
from kscheduler.config.options import Options

_DEFAULTS = Options()


class Flag(msgspec.Struct, frozen=True):
    name: str
    type: ValueType
    help: str
    short: str = ""

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")

    @property
    def default(self) -> Any:
        return getattr(_DEFAULTS, self.field)


# The group of flags that kube-scheduler does not have.
OWN = "Kscheduler"

GROUPS: dict[str, tuple[Flag, ...]] = {
    "Misc": (
        Flag(
            "config",
            STRING,
            "The configuration file (kubescheduler.config.k8s.io/v1). With it every flag under "
            "Deprecated is ignored except --pod-max-in-unschedulable-pods-duration; "
            "leader election flags still override the file.",
        ),
        Flag(
            "master",
            STRING,
            "URL of the API server; wins over the server named in the kubeconfig.",
        ),
        Flag(
            "write-config-to",
            STRING,
            "Write the completed configuration to this file and exit. Setup runs first, so the "
            "kubeconfig must load and the port must be free.",
        ),
    ),
    "Secure serving": (
        Flag(
            "bind-address",
            IP,
            "Address to serve HTTPS on. 0.0.0.0 or :: means every interface, IPv4 and IPv6.",
        ),
        Flag(
            "cert-dir",
            STRING,
            "Folder with kube-scheduler.crt and kube-scheduler.key; they are made there if "
            "missing. Without it the self-signed pair lives in memory only. Ignored when "
            "--tls-cert-file is given.",
        ),
        Flag("disable-http2-serving", BOOL, "Speak HTTP/1.1 only."),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            "How many HTTP/2 streams a client may open on one connection; 0 leaves it to the "
            "server.",
        ),
        Flag(
            "permit-address-sharing",
            BOOL,
            "Bind with SO_REUSEADDR: a wildcard and a specific address may share the port, and a "
            "restart need not wait for old connections to time out.",
        ),
        Flag(
            "permit-port-sharing",
            BOOL,
            "Bind with SO_REUSEPORT: several processes may listen on the same address and port.",
        ),
        Flag("secure-port", INT, "Port to serve HTTPS on. 0 switches the server off."),
        Flag(
            "tls-cert-file",
            STRING,
            "Certificate to serve with, followed by its chain if there is one. Read again when it "
            "changes. Without it and --tls-private-key-file a self-signed one is made.",
        ),
        Flag(
            "tls-cipher-suites",
            STRINGS,
            "Cipher suites to offer up to TLS 1.2, by their IANA names "
            "(TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256). Empty: the library's choice.",
        ),
        Flag(
            "tls-curve-preferences",
            INT32S,
            "Key exchange groups to allow, by number: 23 P-256, 24 P-384, 25 P-521, 29 X25519, "
            "4588 X25519MLKEM768. Their order does not matter. Empty: the library's choice.",
        ),
        Flag(
            "tls-min-version",
            STRING,
            "Oldest TLS version to accept: VersionTLS10, VersionTLS11, VersionTLS12 or "
            "VersionTLS13. Empty means VersionTLS12.",
        ),
        Flag("tls-private-key-file", STRING, "Private key for --tls-cert-file."),
        Flag(
            "tls-sni-cert-key",
            CERT_KEYS,
            "A further pair of certificate and key files for clients that ask by host name, "
            "optionally with the names it is for: cert,key or cert,key:*.example.com,example.com. "
            "Without names those in the certificate count. May be repeated.",
        ),
    ),
    "Authentication": (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "kubeconfig of an API server where we may create tokenreviews. Optional: without one "
            "(and outside a cluster) bearer tokens count as anonymous and no client CA is looked "
            "up.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            "Do not read missing authentication settings from the cluster.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            "How long the verdict on a bearer token is remembered.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            "Go on if the authentication settings cannot be read from the cluster; all requests "
            "may then count as anonymous.",
        ),
        Flag(
            "client-ca-file",
            STRING,
            "Authorities whose client certificates authenticate a request as their common name.",
        ),
        Flag(
            "requestheader-allowed-names",
            STRINGS,
            "Common names of the proxies that may vouch for users in headers. Empty: any that "
            "--requestheader-client-ca-file verifies.",
        ),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "Authorities of the proxies that vouch for users in headers. Do not assume that such "
            "a proxy has authorized the request.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            "Prefixes of headers with further facts about the user.",
        ),
        Flag("requestheader-group-headers", STRINGS, "Headers with the user's groups."),
        Flag(
            "requestheader-uid-headers",
            STRINGS,
            "Headers with the user's UID; X-Remote-Uid must be one of them. Needs the "
            "RemoteRequestHeaderUID feature.",
        ),
        Flag("requestheader-username-headers", STRINGS, "Headers with the user's name."),
    ),
    "Authorization": (
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            "Paths that need no authorization. A trailing * makes one a prefix.",
        ),
        Flag(
            "authorization-kubeconfig",
            STRING,
            "kubeconfig of an API server where we may create subjectaccessreviews. Optional: "
            "without one (and outside a cluster) everything but the always-allowed paths is "
            "forbidden.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            "How long a permission is remembered.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            "How long a refusal is remembered.",
        ),
    ),
    "Deprecated": (
        Flag(
            "contention-profiling",
            BOOL,
            "DEPRECATED: profile blocking too, if profiling is on. Use "
            "enableContentionProfiling in the configuration file.",
        ),
        Flag(
            "kube-api-burst",
            INT32,
            "DEPRECATED: requests that may exceed the rate at once. Use clientConnection.burst.",
        ),
        Flag(
            "kube-api-content-type",
            STRING,
            "DEPRECATED: content type of requests. Use clientConnection.contentType.",
        ),
        Flag(
            "kube-api-qps",
            FLOAT32,
            "DEPRECATED: requests per second to the API server; negative means no limit. Use "
            "clientConnection.qps.",
        ),
        Flag(
            "kubeconfig",
            STRING,
            "DEPRECATED: file that says where the API server is and who we are. Use "
            "clientConnection.kubeconfig.",
        ),
        Flag(
            "pod-max-in-unschedulable-pods-duration",
            DURATION,
            "DEPRECATED: how long a pod may wait as unschedulable before it is tried again "
            "without any event. Has no field in the configuration file.",
        ),
        Flag(
            "profiling",
            BOOL,
            "DEPRECATED: serve profiles under /debug/pprof/. Use enableProfiling.",
        ),
    ),
    "Leader election": (
        Flag(
            "leader-elect",
            BOOL,
            "Schedule only while holding the lease. Turn off when there is only one replica.",
        ),
        Flag(
            "leader-elect-lease-duration",
            DURATION,
            "How long the others wait after the last renewal they saw before they try to lead.",
        ),
        Flag(
            "leader-elect-renew-deadline",
            DURATION,
            "How long a leader tries to renew before it gives up; less than the lease duration.",
        ),
        Flag("leader-elect-resource-lock", STRING, "Kind of the lock. Only leases is left."),
        Flag("leader-elect-resource-name", STRING, "Name of the lease."),
        Flag("leader-elect-resource-namespace", STRING, "Namespace of the lease."),
        Flag(
            "leader-elect-retry-period",
            DURATION,
            "Time between two tries to get or renew the lease.",
        ),
    ),
    "Feature gate": (
        Flag(
            "emulated-version",
            STRINGS,
            "Offer the features of this release, written major.minor: [1.34..1.37], "
            "optionally as kube=1.36.",
        ),
        Flag(
            "feature-gates",
            MULTIMAP,
            "Switch features on or off: name=true|false,… (or kube:name=…). May be repeated. "
            "Gates that are not settled:",
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            "Oldest release of other control plane components to get along with; at most the "
            "emulated one. Some features wait for it.",
        ),
    ),
    "Metrics": (
        Flag(
            "allow-metric-labels",
            MAP,
            "Values a metric's label may have; others are reported as unexpected: "
            "metric,label='value,value'. May be repeated.",
        ),
        Flag(
            "allow-metric-labels-manifest",
            STRING,
            "YAML file with the same content, one 'metric,label': 'value,value' per line.",
        ),
        Flag(
            "disabled-metrics",
            STRINGS,
            "Full names of metrics not to collect; stronger than showing hidden ones.",
        ),
        Flag(
            "show-hidden-metrics-for-version",
            STRING,
            "Show metrics that the previous minor release deprecated and this one hides. Only "
            "that release (1.36) is accepted.",
        ),
    ),
    "Logs": (
        Flag("log-flush-frequency", DURATION, "Longest time a buffered line waits to be written."),
        Flag(
            "log-json-info-buffer-size",
            QUANTITY,
            "[Alpha] With JSON and split streams, bytes of info lines to buffer (512, 1K, 2Ki, …); "
            "0 writes at once. Needs LoggingAlphaOptions.",
        ),
        Flag(
            "log-json-split-stream",
            BOOL,
            "[Alpha] With JSON, errors go to stderr and info lines to stdout; otherwise all goes "
            "to stderr. Needs LoggingAlphaOptions.",
        ),
        Flag(
            "log-text-info-buffer-size",
            QUANTITY,
            "[Alpha] With text and split streams, bytes of info lines to buffer (512, 1K, 2Ki, …); "
            "0 writes at once. Needs LoggingAlphaOptions.",
        ),
        Flag(
            "log-text-split-stream",
            BOOL,
            "[Alpha] With text, errors go to stderr and info lines to stdout; otherwise all goes "
            "to stderr. Needs LoggingAlphaOptions.",
        ),
        Flag("logging-format", STRING, 'How lines are written: "text" (klog) or "json".'),
        Flag(
            "v",
            LEVEL,
            "How much to say. 2 tells of every binding, 5 of every decision, 10 of everything.",
            short="v",
        ),
        Flag(
            "vmodule",
            VMODULE,
            "Verbosity of single modules: bind=4,queue*=5. With the text format only.",
        ),
    ),
    "Global": (
        Flag("help", BOOL, "Print this help and exit.", short="h"),
        Flag(
            "version",
            VERSION,
            "Print the version and exit, with =raw in full; =vX.Y.Z… sets the version to report.",
        ),
    ),
    OWN: (
        Flag(
            "decision-log-bytes",
            INT,
            "Keep decisions in so many bytes of memory, for whoever asks later why a pod is where "
            "it is; the oldest make room for new ones. 0 keeps none.",
        ),
        Flag(
            "health-listen",
            STRING,
            "Also answer /healthz, /livez and /readyz here, without TLS and to anybody: "
            "address:port, or a port on loopback. Empty: nowhere.",
        ),
        Flag(
            "leader-elect-rejoin",
            BOOL,
            "Having lost the lease, drop all state and campaign again instead of exiting.",
        ),
        Flag(
            "leader-service",
            STRING,
            "A Service without selector, as namespace/name: while this instance leads, it is the "
            "only endpoint of its port https, so that whoever asks there asks the one that "
            "decides. Empty: none.",
        ),
        Flag(
            "metrics-listen",
            STRING,
            "Also answer /metrics, /metrics/resources and /metrics/slis here, without TLS and to "
            "anybody: address:port, or a port on loopback. Empty: nowhere.",
        ),
        Flag(
            "plugin",
            STRINGS,
            "A plugin of your own, as module:Class or path/to/file.py:Class; may be repeated. It "
            "runs where the configuration file names it. Installed packages need no flag: their "
            "plugins are found by entry point (kscheduler.plugins).",
        ),
        Flag(
            "plugin-max-failures",
            INT,
            "Take an out-of-tree plugin out of its profile when it has failed so often in a row at "
            "one extension point; 0 leaves it there.",
        ),
        Flag(
            "plugin-timeout",
            DURATION,
            "How long a call to an out-of-tree plugin may take where nothing may wait; then it is "
            "interrupted. 0 means for ever.",
        ),
        Flag(
            "plugin-wait-timeout",
            DURATION,
            "How long an out-of-tree plugin may take where it may wait: permit, pre_bind, bind.",
        ),
    ),
}


def all_flags() -> Iterator[Flag]:
    for group in GROUPS.values():
        yield from group
