"""Kubeconfigs that lead to the sandbox."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from kscheduler.private_files import write_private_file
from kscheduler.sandbox.access.certificates import KeyPair

_NAME = "sandbox"


def make_kubeconfig(
    url: str, *, token: str = "", ca: bytes = b"", client: KeyPair | None = None
) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": url}
    if ca:
        cluster["certificate-authority-data"] = _coded(ca)
    user: dict[str, Any] = {}
    if token:
        user["token"] = token
    if client is not None:
        user["client-certificate-data"] = _coded(client.certificate)
        user["client-key-data"] = _coded(client.key)
    context = {"cluster": _NAME, "user": _NAME, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": user}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
    }


def write_private(path: Path, config: dict[str, Any]) -> None:
    """Write a kubeconfig only its owner can read: it holds a credential."""
    write_private_file(path, yaml.safe_dump(config, sort_keys=False).encode())


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()
