"""Arguments of out-of-tree plugins, decoded as the plugin's class declares them.

    class Args(msgspec.Struct, frozen=True, rename="camel"):
        half_life: float = 60.0

    class NodeLoad:
        args_type = Args          # a msgspec.Struct, a dataclass or a pydantic model

Without `args_type` a plugin gets what stands in the file, as plain JSON. All mistakes are
reported at once, each with its place in the file.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

import msgspec
import pydantic

from kscheduler.api.field_errors import FieldError, Path, aggregate, invalid
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.plugin_args import RawArgs
from kscheduler.errors import ConfigError
from kscheduler.runtime.plugin_calls import text_of

TYPE_META = ("apiVersion", "kind")
# msgspec's "Expected `int`, got `str` - at `$.weights[0]`".
_AT = re.compile(r"^(?P<problem>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


class ArgsError(ConfigError):
    """Arguments that a plugin does not take."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(aggregate(errors))
        self.errors = errors


def is_args_type(kind: object) -> bool:
    return isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct | pydantic.BaseModel) or dataclasses.is_dataclass(kind)
    )


def decoded(kind: Any, args: object, path: Path) -> Any:
    """`args` as configuration has them: RawArgs, or None if there are none."""
    given = args.value if isinstance(args, RawArgs) else args
    if kind is None:
        return given
    plain = {} if given is None else given
    errors: list[FieldError] = []
    by_pydantic = issubclass(kind, pydantic.BaseModel)
    if isinstance(plain, Mapping):
        names = _names(kind)
        plain = {k: v for k, v in plain.items() if k not in TYPE_META or k in names}
        takes_more = by_pydantic and kind.model_config.get("extra") == "allow"
        if not takes_more:
            errors += [_unknown_field(path, name) for name in plain if name not in names]
            plain = {k: v for k, v in plain.items() if k in names}
    decode = _by_pydantic if by_pydantic else _by_msgspec
    try:
        result, more = decode(kind, plain, path)
    except Exception as error:  # Types may check themselves, and fail at that.
        result, more = None, [invalid(path, plain, text_of(error))]
    if errors or more:
        raise ArgsError(errors + more)
    return result


def check_all(
    config: KubeSchedulerConfiguration, args_types: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Mistakes in the arguments of these plugins, wherever they are configured."""
    for i, profile in enumerate(config.profiles):
        for j, entry in enumerate(profile.plugin_config):
            if entry.name in args_types:
                path = (Path("profiles")[i] / "pluginConfig")[j] / "args"
                try:
                    decoded(args_types[entry.name], entry.args, path)
                except ArgsError as error:
                    yield from error.errors


def _names(kind: Any) -> set[str]:
    """Names of the fields in a file."""
    if issubclass(kind, msgspec.Struct):
        return set(kind.__struct_encode_fields__)
    if issubclass(kind, pydantic.BaseModel):
        fields = kind.model_fields.items()
        by_name = {name for name, _ in fields}
        return by_name | {str(one.alias) for _, one in fields if one.alias}
    return {field.name for field in dataclasses.fields(kind)}


def _by_pydantic(kind: Any, plain: object, path: Path) -> tuple[Any, list[FieldError]]:
    try:
        return kind.model_validate(plain), []
    except pydantic.ValidationError as error:
        return None, [
            invalid(_below(path, one["loc"]), one["input"], one["msg"])
            if one["type"] != "missing"
            else FieldError(_below(path, one["loc"]).text, "Required value")
            for one in error.errors()
        ]


def _by_msgspec(kind: Any, plain: object, path: Path) -> tuple[Any, list[FieldError]]:
    try:
        return msgspec.convert(plain, kind), []
    except msgspec.ValidationError as error:
        # msgspec stops at the first mistake; converting field by field finds the others.
        by_field = _mistakes_by_field(kind, plain, path)
        return None, by_field or [_msgspec_error(error, plain, path)]


def _mistakes_by_field(kind: Any, plain: object, path: Path) -> list[FieldError]:
    if not isinstance(plain, Mapping):
        return []
    found: list[FieldError] = []
    for name, field_type, required in _fields(kind):
        if name in plain:
            try:
                msgspec.convert(plain[name], field_type)
            except msgspec.ValidationError as error:
                below = path / name
                deeper = is_args_type(field_type) and _mistakes_by_field(
                    field_type, plain[name], below
                )
                found += deeper or [_msgspec_error(error, plain[name], below)]
        elif required:
            found.append(FieldError((path / name).text, "Required value"))
    return found


def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """Per field its name in a file, its type, and whether it must be there."""
    if issubclass(kind, msgspec.Struct):
        return [
            (field.encode_name, field.type, field.required)
            for field in msgspec.structs.fields(kind)
        ]
    types = get_type_hints(kind, include_extras=True)
    missing = dataclasses.MISSING
    return [
        (field.name, types[field.name], field.default is field.default_factory is missing)
        for field in dataclasses.fields(kind)
    ]


def _below(path: Path, steps: tuple[int | str, ...]) -> Path:
    for step in steps:
        path = path[step] if isinstance(step, int) else path / step
    return path


def _msgspec_error(error: msgspec.ValidationError, plain: object, path: Path) -> FieldError:
    found = _AT.match(str(error))
    assert found is not None
    problem, below = found["problem"], found["path"] or ""
    place = Path(path.text + below)
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown:
        return _unknown_field(place, unknown[1])
    if problem.startswith("Object missing required field"):
        return FieldError((place / problem.split("`")[1]).text, "Required value")
    return invalid(place, _value_at(plain, below), problem.replace("`", ""))


def _value_at(plain: Any, below: str) -> object:
    """The value at msgspec's `.weights[0]`; None where the path names no single place."""
    for name, position in re.findall(r"\.([^.\[]+)|\[(\d+)\]", below):
        try:
            plain = plain[name] if name else plain[int(position)]
        except (KeyError, IndexError, TypeError):
            return None
    return plain


def _unknown_field(path: Path, name: str) -> FieldError:
    return FieldError(path.text, f'unknown field "{name}"')
