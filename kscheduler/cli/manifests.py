"""Manifests from files: YAML or JSON, several documents, lists, templates made into pods."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml

Manifest = dict[str, Any]


def read_manifests(paths: Iterable[str]) -> list[Manifest]:
    """All objects in these files, in order; a folder stands for the manifests in it."""
    files: list[str] = []
    for path in paths:
        if path != "-" and Path(path).is_dir():
            kinds = ("*.yaml", "*.yml", "*.json")
            files += sorted(str(found) for kind in kinds for found in Path(path).glob(kind))
        else:
            files.append(path)
    found: list[Manifest] = []
    for file in files:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
            documents = list(yaml.safe_load_all(text))
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{file}: not YAML: {error}") from error
        for document in documents:
            found += _flattened(file, document)
    return found


def _flattened(path: str, document: object) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict):
        raise click.ClickException(f"{path}: a manifest needs apiVersion and kind")
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List"):
        for item in document.get("items") or ():
            yield from _flattened(path, item)
    elif not isinstance(kind, str) or not isinstance(document.get("apiVersion"), str):
        raise click.ClickException(f"{path}: a manifest needs apiVersion and kind")
    elif not all(isinstance(document.get(part) or {}, dict) for part in ("metadata", "spec")):
        raise click.ClickException(f"{path}: {kind}: metadata and spec must be mappings")
    else:
        yield document


def title(manifest: Manifest) -> str:
    """An object's kind and name, for messages."""
    return f"{manifest['kind']} {(manifest.get('metadata') or {}).get('name', '')}".rstrip()


def parts_of(workload: Manifest) -> Iterator[Manifest]:
    """The pods, and claims for them, that a controller would make of a workload; the sandbox has no
    such controllers.
    """
    spec = workload.get("spec") or {}
    template = spec.get("template")
    replicas = 1 if spec.get("replicas") is None else spec["replicas"]
    if not template:
        return
    if not isinstance(template, dict) or not isinstance(replicas, int):
        what = "spec.template must be a mapping and spec.replicas a number"
        raise click.ClickException(f"{title(workload)}: {what}")
    metadata = workload["metadata"]
    for number in range(replicas):
        pod = copy.deepcopy(template) | {"apiVersion": "v1", "kind": "Pod"}
        name = f"{metadata['name']}-{number}"
        namespace = metadata.get("namespace", "default")
        pod["metadata"] = (pod.get("metadata") or {}) | {"name": name, "namespace": namespace}
        # A StatefulSet has claims made for each of its pods, which its pods then mount.
        for claim_template in spec.get("volumeClaimTemplates") or ():
            claim = copy.deepcopy(claim_template)
            claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            about = claim.get("metadata") or {}
            volume = about["name"]
            claim["metadata"] = about | {"name": f"{volume}-{name}", "namespace": namespace}
            yield claim
            volumes = pod.setdefault("spec", {}).get("volumes") or []
            source = {"claimName": claim["metadata"]["name"]}
            mounted = {"name": volume, "persistentVolumeClaim": source}
            others = [one for one in volumes if one["name"] != volume]
            pod["spec"]["volumes"] = [*others, mounted]
        yield pod
