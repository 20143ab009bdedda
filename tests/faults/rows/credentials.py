"""Row in which everything is replaced that a scheduler and its API server know each other by."""

import os
import secrets
from pathlib import Path

from tests.controlplane.certificates import Authority, write_certificates
from tests.faults.rig import Rig
from tests.faults.row import FAULT_SECONDS, Row


class Rotation(Row):
    """Nothing overlaps: what was valid is not any more when its successor is. Connections are reset
    each time, since only new ones ask who is there.
    """

    number = 24
    title = "token, then server certificate, then its authority replaced under load"
    at_once = True
    rate = 2.0
    # kube-scheduler reads the authority's file every five minutes.
    patience_seconds = 360.0

    async def start(self, rig: Rig) -> None:
        await super().start(rig)
        token = self._token_file(rig).read_text()
        rig.proxy.tokens = {token: token}

    async def fault(self, rig: Rig) -> None:
        old = self._token_file(rig).read_text()
        assert rig.proxy.tokens is not None
        new = secrets.token_urlsafe(24)
        replace_file(self._token_file(rig), new)
        rig.proxy.tokens = {new: rig.proxy.tokens[old]}
        rig.proxy.listeners[rig.scheduler.name].reset_connections()
        rig.proxy.counts["token replaced"] += 1
        await rig.pause(FAULT_SECONDS / 3)
        self._serve_with(rig, rig.folder / "renewed", rig.authority)
        rig.proxy.counts["certificate replaced"] += 1
        await rig.pause(FAULT_SECONDS / 3)
        self._serve_with(rig, rig.folder / "next", Authority())
        rig.proxy.counts["authority replaced"] += 1
        await rig.pause(FAULT_SECONDS / 3)

    def _serve_with(self, rig: Rig, folder: Path, authority: Authority) -> None:
        """From now on, with a new certificate by this authority."""
        folder.mkdir()
        write_certificates(folder, {}, authority)
        rig.proxy.serving.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
        replace_file(rig.folder / "ca.crt", (folder / "ca.crt").read_text())
        rig.proxy.listeners[rig.scheduler.name].reset_connections()

    def _token_file(self, rig: Rig) -> Path:
        return rig.folder / f"{rig.scheduler.name}.token"


def replace_file(path: Path, content: str) -> None:
    """At once, as a kubelet replaces what it has mounted."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(content)
    os.replace(fresh, path)


ROWS = (Rotation(),)
