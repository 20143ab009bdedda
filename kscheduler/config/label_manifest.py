"""The file behind --allow-metric-labels-manifest: `metric,label` → allowed values."""

import yaml

from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.yaml_text import YamlError, yaml_to_json

SHOWN_CHARACTERS = 10


class ManifestError(ConfigError):
    """The manifest cannot be used; the text begins with the verb that failed."""


def read_manifest(path: str) -> dict[str, str]:
    try:
        text = files.read(path)
    except ConfigError as err:
        raise ManifestError(f"read allow list manifest: {err}") from None
    try:
        yaml_to_json(text)
        return _labels(_first_document(text))
    except YamlError as err:
        raise ManifestError(f"parse allow list manifest: {err}") from None


def _first_document(text: bytes) -> yaml.Node | None:
    loader = yaml.SafeLoader(text)
    try:
        return loader.get_node() if loader.check_node() else None
    finally:
        loader.dispose()


def _labels(root: yaml.Node | None) -> dict[str, str]:
    if root is None or root.tag.endswith(":null"):
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise YamlError(f"yaml: unmarshal errors:\n  {_mismatch(root, 'map[string]string')}")
    wrong = [
        _mismatch(node, "string")
        for pair in root.value
        for node in pair
        if not isinstance(node, yaml.ScalarNode)
    ]
    if wrong:
        raise YamlError("\n  ".join(["yaml: unmarshal errors:", *wrong]))
    return {key.value: "" if _is_null(value) else value.value for key, value in root.value}


def _mismatch(node: yaml.Node, wanted: str) -> str:
    tag = node.tag.rpartition(":")[2]
    shown = ""
    if isinstance(node, yaml.ScalarNode):
        text = node.value
        text = text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."
        shown = f" `{text}`"
    return f"line {node.start_mark.line + 1}: cannot unmarshal !!{tag}{shown} into {wanted}"


def _is_null(node: yaml.Node) -> bool:
    return node.tag.endswith(":null")
