"""JSON bytes to API structs: fast when the server is tidy, forgiving when it is not.

Go writes `null` for an empty list without omitempty and reads it as "not set"; msgspec reads it as
an error. And it gives up on what is nested deeply, even where nobody looks. So a refused document
is tried a second time, reduced to the fields that its struct has. What a struct does not have stays
text in both tries: no number in it is too long and no string too odd.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from kscheduler.api.nesting import UnbalancedError, outline
from kscheduler.errors import KschedulerError

T = TypeVar("T")
Json = bytes | bytearray | memoryview | msgspec.Raw | str

# All that msgspec raises for bytes that it cannot make anything of.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_NULL = msgspec.Raw(b"null")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class DecodeError(KschedulerError):
    """Raised when bytes are not JSON or do not have the shape of the wanted object."""


def without_nulls(value: Any) -> Any:
    """The same JSON value with every null member and null element left out."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def convert(value: Any, kind: type[T]) -> T:
    """A JSON-like Python value (from YAML, say) as an API struct."""
    try:
        return msgspec.convert(without_nulls(value), kind)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot decode {_name(kind)}: {error}") from error


@lru_cache(maxsize=256)
def decoder_for(kind: type[T]) -> Callable[[Json], T]:
    """A function from JSON to `kind`; made once per type, about 10 µs for a usual pod.

    All that it raises is DecodeError.
    """
    fast = msgspec.json.Decoder(kind).decode

    def decode(data: Json) -> T:
        try:
            return fast(data)
        except UNREADABLE:
            pass
        try:
            return _decode_tidied(data)
        except (*UNREADABLE, UnbalancedError) as error:
            raise DecodeError(f"cannot decode {_name(kind)}: {error}") from error

    def _decode_tidied(data: Json) -> T:
        structure = inspect.type_info(kind)
        try:
            return fast(_tidy(data, structure))
        except RecursionError:
            return fast(_tidy(outline(data).text, structure))

    return decode


def _tidy(data: Json, kind: inspect.Type) -> Json:
    """What `kind` has fields for, without nulls; what is of another kind is left to be refused."""
    try:
        match kind:
            case inspect.StructType(fields=fields):
                members = _members(data)
                kept = [(field.encode_name, field.type) for field in fields]
                return _encode(_present((k, members[k], t) for k, t in kept if k in members))
            case inspect.DictType(value_type=inner):
                return _encode(_present((k, v, inner) for k, v in _members(data).items()))
            case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
                numbered = enumerate(_elements(data))
                return _encode(list(_present((i, v, inner) for i, v in numbered).values()))
            case inspect.UnionType(types=types):
                return _tidy(
                    data, next((one for one in types if _has_parts(one)), inspect.AnyType())
                )
    except msgspec.ValidationError:
        pass
    return data


def _present(
    parts: Iterable[tuple[Any, msgspec.Raw, inspect.Type]],
) -> dict[Any, msgspec.Raw]:
    return {key: msgspec.Raw(_tidy(value, kind)) for key, value, kind in parts if value != _NULL}


def _has_parts(kind: inspect.Type) -> bool:
    return isinstance(
        kind, inspect.StructType | inspect.DictType | inspect.ListType | inspect.VarTupleType
    )


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
