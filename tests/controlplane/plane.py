"""A control plane for tests: etcd and kube-apiserver on loopback, with all they need in one folder.

    DIR/kubeconfig              cluster admin
    DIR/<user>.kubeconfig       everybody else of USERS
    DIR/etcd.log, kube-apiserver.log, *.pid, certificates, tokens

RBAC decides, over TLS, with static tokens. Admission is a default cluster's, except for plugins
whose work a controller would have to finish, unless controllers are to be run beside it.

An APIService whose Service is of type ExternalName leads to a server on loopback; so does a Node
with the address 127.0.0.1 to a kubelet there that serves with DIR/kubelet.crt.
"""

import json
import os
import secrets
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.binaries import program
from tests.controlplane.certificates import certificate_of, write_certificates, write_private
from tests.kit.ports import free_port

ADMIN = "admin"
# Name of the token → user and groups it stands for.
USERS = {
    ADMIN: ("kubernetes-admin", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kscheduler": ("kscheduler", ""),
}
# What is answered when the server is ready, has heard of the roles and bindings that it has made
# itself, and has told by whose certificates to believe clients.
READY_FOR = (
    (ADMIN, "/readyz"),
    ("kube-scheduler", "/api/v1/pods?limit=1"),
    (
        "kube-scheduler",
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    ),
)
# The one who comes with a client certificate instead.
CERTIFIED = "certified"
CERTIFIED_USER = "system:kube-scheduler"
FRONT_PROXY = "front-proxy-client"
# A service account, a taint and a finalizer that only a controller would make or take away.
NEEDS_CONTROLLERS = ("ServiceAccount", "TaintNodesByCondition", "StorageObjectInUseProtection")
START_SECONDS = 120.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.1
LAST_LINES = 15


class ControlPlaneError(Exception):
    """A program of the control plane did not come up or went away; the text has its last words."""


@dataclass
class ControlPlane:
    folder: Path
    port: int = 0
    extra_flags: tuple[str, ...] = ()
    # Whether somebody will run the controllers of a cluster beside it.
    controllers: bool = False
    etcd_url: str = ""
    tokens: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when the server answers that it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.port = self.port or free_port()
        write_certificates(self.folder, {CERTIFIED: CERTIFIED_USER, FRONT_PROXY: FRONT_PROXY})
        self.set_tokens({name: secrets.token_urlsafe(24) for name in USERS})
        self._write_kubeconfig(CERTIFIED, certificate_of(self.folder, CERTIFIED))
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self.run("etcd", program("etcd"), *etcd_flags(self.folder, self.etcd_url))
        self.wait("etcd", lambda: answers(f"{self.etcd_url}/health"))
        self.start_api_server()

    def set_tokens(self, tokens: dict[str, str]) -> None:
        """Who comes with which token, from the API server's next start on."""
        self.tokens |= tokens
        rows = [f'{self.tokens[name]},{user},,"{group}"' for name, (user, group) in USERS.items()]
        write_private(self.folder / "tokens.csv", "".join(f"{row}\n" for row in rows))
        for name, token in self.tokens.items():
            self._write_kubeconfig(name, {"token": token})

    def start_api_server(self) -> None:
        """Under the same address as before, if it has run before."""
        self.run("kube-apiserver", program("kube-apiserver"), *self._api_server_flags())
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        for user, path in READY_FOR:
            bearer = {"Authorization": f"Bearer {self.tokens[user]}"}
            request = urllib.request.Request(f"{self.url}{path}", headers=bearer)
            self.wait("kube-apiserver", partial(answers, request, context))

    def kill_api_server(self) -> None:
        """Gone without a word to anybody; etcd keeps what it has written."""
        process = self.processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def compact(self) -> None:
        """Makes etcd forget all history: only what is there now can still be read."""
        revision = self._ask_etcd("kv/range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})

    def _ask_etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.etcd_url}/v3/{what}", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            told: dict[str, Any] = json.load(answer)
            return told

    def stop(self) -> None:
        """In reverse order of start; what does not end in time is killed."""
        for name, process in reversed(self.processes.items()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            (self.folder / f"{name}.pid").unlink(missing_ok=True)

    def check(self) -> None:
        """Raises if a program has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise ControlPlaneError(f"{name} ended:\n{self._last_words(name)}")

    def run(self, name: str, path: Path, *flags: str) -> None:
        """Starts a program that ends with the others; its log is in the folder."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [path, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C meant for us must not end them before we do.
                start_new_session=True,
            )
        self.processes[name] = process
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Until this program is ready; raises if it is not in time, or if any of them ends."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"{name} is not ready after {START_SECONDS:.0f} s:\n{self._last_words(name)}"
                )
            time.sleep(POLL_SECONDS)

    def _last_words(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-LAST_LINES:])

    def _api_server_flags(self) -> list[str]:
        here = self.folder
        disabled = () if self.controllers else NEEDS_CONTROLLERS
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={here / 'apiserver.crt'}",
            f"--tls-private-key-file={here / 'apiserver.key'}",
            f"--client-ca-file={here / 'ca.crt'}",
            f"--requestheader-client-ca-file={here / 'ca.crt'}",
            f"--requestheader-allowed-names={FRONT_PROXY}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={here / FRONT_PROXY}.crt",
            f"--proxy-client-key-file={here / FRONT_PROXY}.key",
            f"--kubelet-certificate-authority={here / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--token-auth-file={here / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            *(f"--disable-admission-plugins={name}" for name in disabled),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={here / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={here / 'service-accounts.key'}",
            "--service-cluster-ip-range=10.0.0.0/16",
            # There is nobody to tell the endpoints of `kubernetes` to, and loopback is not one.
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            *self.extra_flags,
        ]

    def _write_kubeconfig(self, name: str, user: dict[str, str]) -> None:
        cluster = {"server": self.url, "certificate-authority": str(self.folder / "ca.crt")}
        context = {"cluster": "controlplane", "user": name}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "controlplane", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": context}],
            "current-context": name,
        }
        path = self.folder / ("kubeconfig" if name == ADMIN else f"{name}.kubeconfig")
        write_private(path, yaml.safe_dump(config, sort_keys=False))


def etcd_flags(folder: Path, url: str) -> list[str]:
    peer = f"http://127.0.0.1:{free_port()}"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # Nothing here outlives the machine; waiting for its disk would only make tests slow.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def answers(request: str | urllib.request.Request, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(request, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended and that its parent has not asked about does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    try:
        facts = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return facts.rpartition(")")[2].split()[0] == "Z"
