"""The types of a kubeconfig's fields as Go names them, and the first value of a wrong type.

The order of the fields is the one in which Go prints them, as it does when a name is used twice.
"""

from kscheduler.gotext.base64_text import decode_base64
from kscheduler.gotext.json_text import Node

RAW = "runtime.RawExtension"
BYTES = "[]uint8"
EXTENSIONS = {"extensions": "[]v1.NamedExtension"}
PLAIN = {"string": "string", "v1.ExecInteractiveMode": "string", "bool": "bool"}
STRUCTS: dict[str, dict[str, str]] = {
    "v1.Config": {
        "kind": "string",
        "apiVersion": "string",
        "preferences": "v1.Preferences",
        "clusters": "[]v1.NamedCluster",
        "users": "[]v1.NamedAuthInfo",
        "contexts": "[]v1.NamedContext",
        "current-context": "string",
        **EXTENSIONS,
    },
    "v1.Preferences": {"colors": "bool", **EXTENSIONS},
    "v1.NamedExtension": {"name": "string", "extension": RAW},
    "v1.NamedCluster": {"name": "string", "cluster": "v1.Cluster"},
    "v1.Cluster": {
        "server": "string",
        "tls-server-name": "string",
        "insecure-skip-tls-verify": "bool",
        "certificate-authority": "string",
        "certificate-authority-data": BYTES,
        "proxy-url": "string",
        "disable-compression": "bool",
        **EXTENSIONS,
    },
    "v1.NamedContext": {"name": "string", "context": "v1.Context"},
    "v1.Context": {"cluster": "string", "user": "string", "namespace": "string", **EXTENSIONS},
    "v1.NamedAuthInfo": {"name": "string", "user": "v1.AuthInfo"},
    "v1.AuthInfo": {
        "client-certificate": "string",
        "client-certificate-data": BYTES,
        "client-key": "string",
        "client-key-data": BYTES,
        "token": "string",
        "tokenFile": "string",
        "as": "string",
        "as-uid": "string",
        "as-groups": "[]string",
        "as-user-extra": "map[string][]string",
        "username": "string",
        "password": "string",
        "auth-provider": "v1.AuthProviderConfig",
        "exec": "v1.ExecConfig",
        **EXTENSIONS,
    },
    "v1.AuthProviderConfig": {"name": "string", "config": "map[string]string"},
    "v1.ExecConfig": {
        "command": "string",
        "args": "[]string",
        "env": "[]v1.ExecEnvVar",
        "apiVersion": "string",
        "installHint": "string",
        "provideClusterInfo": "bool",
        "interactiveMode": "v1.ExecInteractiveMode",
    },
    "v1.ExecEnvVar": {"name": "string", "value": "string"},
}


def mismatch(node: Node, kind: str, struct: str = "", path: str = "") -> str:
    """What Go says of the first value that does not fit its type; empty if all do."""
    inner = _inner(kind)
    if node.kind == "null" or kind == RAW:
        return ""
    if node.kind != _wanted(kind):
        place = f"struct field {struct}.{path}" if path else "value"
        return f"json: cannot unmarshal {node.kind} into Go {place} of type {kind}"
    if kind == BYTES:
        return _base64_problem(node.text)
    found = (mismatch(item, inner, struct, path) for item in node.items)
    if kind in STRUCTS:
        name, fields = kind.removeprefix("v1."), STRUCTS[kind]
        found = (
            mismatch(value, fields[key], name, f"{path}.{key}" if path else key)
            for key, value in node.members
            if key in fields
        )
    elif node.kind == "object":
        found = (mismatch(value, inner, struct, path) for _, value in node.members)
    return next(filter(None, found), "")


def printed(node: Node | None, kind: str) -> str:
    """A value as Go's %v prints it; clusters and contexts have neither maps nor pointers."""
    if kind in STRUCTS:
        members = dict(node.members) if node else {}
        return f"{{{' '.join(printed(members.get(k), t) for k, t in STRUCTS[kind].items())}}}"
    if kind == RAW:
        return f"{{{_printed_bytes(node.raw.encode() if node else b'')} <nil>}}"
    if kind == BYTES:
        return _printed_bytes(decode_base64(node.text.encode()) if node else b"")
    if kind == "bool":
        return node.raw if node and node.kind == "bool" else "false"
    if kind in PLAIN:
        return node.text if node else ""
    return f"[{' '.join(printed(item, _inner(kind)) for item in (node.items if node else ()))}]"


def _printed_bytes(data: bytes) -> str:
    return f"[{' '.join(map(str, data))}]"


def _inner(kind: str) -> str:
    return kind.removeprefix("[]").removeprefix("map[string]")


def _wanted(kind: str) -> str:
    if kind in PLAIN or kind == BYTES:
        return PLAIN.get(kind, "string")
    return "array" if kind.startswith("[]") else "object"


def _base64_problem(text: str) -> str:
    try:
        decode_base64(text.encode())
    except ValueError as error:
        return str(error)
    return ""
