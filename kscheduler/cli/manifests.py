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
    return [item for path in paths for file in _files(path) for item in _objects(file)]


def _files(path: str) -> list[str]:
    if path != "-" and Path(path).is_dir():
        kinds = ("*.yaml", "*.yml", "*.json")
        return sorted(str(found) for kind in kinds for found in Path(path).glob(kind))
    return [path]


def _objects(path: str) -> Iterator[Manifest]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        documents = list(yaml.safe_load_all(text))
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: not YAML: {error}") from error
    for document in documents:
        yield from _flattened(path, document)


def _flattened(path: str, document: object) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict) or not document.get("kind"):
        raise click.ClickException(f"{path}: a manifest needs apiVersion and kind")
    if document["kind"] == "List" or str(document["kind"]).endswith("List"):
        for item in document.get("items") or ():
            yield from _flattened(path, item)
    else:
        yield document


def pods_of(workload: Manifest) -> Iterator[Manifest]:
    """The pods that a controller would make of a workload; the sandbox has no controllers."""
    spec = workload.get("spec") or {}
    template = spec.get("template")
    if not template:
        return
    metadata = workload["metadata"]
    for number in range(int(spec.get("replicas", 1))):
        pod = copy.deepcopy(template)
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        pod.setdefault("metadata", {})
        pod["metadata"] |= {
            "name": f"{metadata['name']}-{number}",
            "namespace": metadata.get("namespace", "default"),
        }
        yield pod
