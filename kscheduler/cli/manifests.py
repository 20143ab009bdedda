"""Manifests from files: YAML or JSON, several documents, lists."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import yaml

Manifest = dict[str, Any]


class FileManifest(Manifest):
    """A manifest that knows its file, so that messages can name it."""

    def __init__(self, manifest: Manifest, file: str) -> None:
        super().__init__(manifest)
        self.file = file


def read_manifests(paths: Iterable[str]) -> list[Manifest]:
    """All objects in these files, in order; a folder stands for the manifests in it."""
    files: list[str] = []
    for path in paths:
        if path != "-" and Path(path).is_dir():
            kinds = ("*.yaml", "*.yml", "*.json")
            there = sorted(str(found) for kind in kinds for found in Path(path).glob(kind))
            if not there:
                raise click.ClickException(f"{path}: there is no {', '.join(kinds)} in it")
            files += there
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
        objects = [
            FileManifest(manifest, file) for one in documents for manifest in _flattened(file, one)
        ]
        if not objects:
            raise click.ClickException(f"{file}: there are no objects in it")
        found += objects
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


def located(manifest: Manifest) -> str:
    """An object's title behind the file it comes from, if that is known."""
    if isinstance(manifest, FileManifest):
        return f"{manifest.file}: {title(manifest)}"
    return title(manifest)
