"""Writes the pages beside it from the code: python docs/reference/generate.py."""

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kscheduler.cli.flags import GROUPS, Flag
from kscheduler.config.defaults import default_config
from kscheduler.config.dump import to_yaml
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.plugin_args import CoreModel
from kscheduler.config.wire import NOT_WIRED
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog

HERE = Path(__file__).parent
MEANINGS: dict[str, dict[str, str]] = yaml.safe_load((HERE / "meanings.yaml").read_text())
MADE = "<!-- Made by docs/reference/generate.py; `make docs` writes it anew. -->"

ARGS = [kind for _, kind in sorted(catalog().kinds.items())]
# Arguments by their kind, as `kscheduler config print-defaults` prints them.
IN_AN_EMPTY_FILE: dict[str, dict[str, object]] = {
    entry["args"]["kind"]: entry["args"]
    for profile in yaml.safe_load(to_yaml(default_config(catalog(), FeatureGates.defaults())))[
        "profiles"
    ]
    for entry in profile["pluginConfig"]
}


def flags() -> Iterator[str]:
    yield "# Flags"
    yield "Those of kube-scheduler 1.37, in its groups; the last group is ours."
    for group, members in GROUPS.items():
        yield f"## {group}"
        rows = [("flag", "default", "meaning"), ("---",) * 3]
        rows += [(f"`--{flag.name}`", shown(default_of(flag)), flag.help) for flag in members]
        yield table(rows)


def default_of(flag: Flag) -> str:
    return flag.type.show(flag.default)


def configuration() -> Iterator[str]:
    yield "# Configuration"
    yield (
        "`kubescheduler.config.k8s.io/v1`, as kube-scheduler 1.37 reads it. "
        "`kscheduler config print-defaults` prints an empty file completed, "
        "`kscheduler config validate FILE` every mistake in one."
    )
    for kind in types_of(KubeSchedulerConfiguration, *ARGS):
        yield f"## {kind.__name__}"
        meanings = MEANINGS.get(kind.__name__, {})
        rows = [("field", "type", "default", "meaning"), ("---",) * 4]
        for name, field in fields_of(kind):
            rows.append(
                (
                    f"`{name}`",
                    type_name(field),
                    default(field) or completed(kind, name),
                    field.description or meanings[name],
                )
            )
        yield table(rows)


def fields_of(kind: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in kind.model_fields.items():
        if NOT_WIRED not in field.metadata:
            yield field.alias or name, field


def types_of(*roots: type[BaseModel]) -> list[type[BaseModel]]:
    """Each type once, before those that its fields lead to."""
    found: list[type[BaseModel]] = []
    waiting = list(roots)
    while waiting:
        kind = waiting.pop(0)
        if kind in found or not is_explained(kind):
            continue
        found.append(kind)
        inner = [t for _, field in fields_of(kind) for t in models_in(field.annotation)]
        waiting = inner + waiting
    return found


def is_explained(kind: type[BaseModel]) -> bool:
    """Whether the page has a table for a type: its fields are described, or in meanings.yaml."""
    fields = [field for _, field in fields_of(kind)]
    return kind.__name__ in MEANINGS or any(field.description for field in fields)


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from models_in(inner)


def type_name(field: FieldInfo) -> str:
    inner = next(models_in(field.annotation), None)
    text = str(field.annotation)
    if inner is not None and is_explained(inner):
        name = f"[{inner.__name__}](#{inner.__name__.lower()})"
    elif "PluginArgs" in text:
        name = "object"
    elif inner is not None and issubclass(inner, CoreModel):
        name = inner.__name__  # a type of the core API, where its fields are documented
    else:
        name = next(word for key, word in WORDS.items() if re.search(rf"\b{key}\b", text))
    return f"list of {name}" if text.startswith("tuple") else name


WORDS = {
    "Duration": "duration",
    "bytes": "base64",
    "bool": "bool",
    "float": "float",
    "int": "int",
    "str": "string",
}


def default(field: FieldInfo) -> str:
    value = field.default
    if isinstance(value, BaseModel) or value in (None, (), b"") or isinstance(value, tuple):
        return ""
    return shown(str(value).lower() if isinstance(value, bool) else str(value))


def completed(kind: type[BaseModel], name: str) -> str:
    """What an argument without a default of its own is set to in an empty file."""
    value = IN_AN_EMPTY_FILE.get(kind.__name__, {}).get(name)
    if not isinstance(value, list | dict):
        return shown("" if value is None else str(value))
    return shown(yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=200).strip())


def metrics() -> Iterator[str]:
    yield "# Metrics"
    yield (
        "What `/metrics` shows, under kube-scheduler's names. "
        "Families that begin with `kscheduler_` are ours."
    )
    rows = [("name", "type", "labels", "stability", "meaning"), ("---",) * 5]
    for name, family in sorted(Metrics().families.items()):
        stability, meaning = STABILITY.match(family.collect().documentation).groups(default="")
        labels = ", ".join(family.label_names)
        rows.append((f"`{name}`", family.kind, labels, stability.lower(), meaning))
    yield table(rows)


STABILITY = re.compile(r"(?:\[(\w+)\] )?(.*)", re.DOTALL)


def shown(value: str) -> str:
    return f"`{value}`" if value and value != '""' else ""


def table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )


PAGES = {"flags.md": flags, "configuration.md": configuration, "metrics.md": metrics}


def render(page: str) -> str:
    return "\n\n".join([MADE, *PAGES[page]()]) + "\n"


def main() -> None:
    for page in PAGES:
        (HERE / page).write_text(render(page))


if __name__ == "__main__":
    main()
