"""JSON bytes to API structs: fast when the server is tidy, forgiving when it is not.

Go writes `null` for an empty list without omitempty and reads it as "not set"; msgspec reads it as
an error. And it gives up on what is nested deeply, even in fields that no struct has. So a refused
document is tried a second time, reduced to the fields that its struct has. What a struct does not
have stays text in both tries: no number in it is too long and no string too odd.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from kscheduler.errors import KschedulerError

T = TypeVar("T")
Json = bytes | bytearray | memoryview | msgspec.Raw | str

# All that msgspec raises for bytes that it cannot make anything of.
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_WITH_PARTS = (inspect.StructType, inspect.DictType, inspect.ListType, inspect.VarTupleType)
_NULL = msgspec.Raw(b"null")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class DecodeError(KschedulerError):
    """Raised when bytes are not JSON or do not have the shape of the wanted object."""


def without_nulls(value: Any) -> Any:
    """A JSON value without its null members and elements."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    return value


def convert(value: Any, kind: type[T]) -> T:
    """A JSON-like Python value (from YAML, say) as an API struct."""
    try:
        # By way of JSON: some fields hold a part of it as text.
        return msgspec.json.decode(_encode(without_nulls(value)), type=kind)
    except msgspec.ValidationError as error:
        raise DecodeError(f"cannot decode {_name(kind)}: {error}") from error


@lru_cache(maxsize=256)
def decoder_for(kind: type[T]) -> Callable[[Json], T]:
    """A function from JSON to `kind`, one per type; it takes about 10 µs for a usual pod.

    All that it raises is DecodeError.
    """
    fast = msgspec.json.Decoder(kind).decode

    def decode(data: Json) -> T:
        try:
            return fast(data)
        except UNREADABLE:
            pass
        structure = inspect.type_info(kind)
        try:
            try:
                return fast(_tidy(data, structure))
            except RecursionError:
                # Too deep even to tidy: decoded without what is nested deeper than any field of the
                # API, which then comes back into fields that hold a part of the text as it is.
                mark = token_hex()
                text, parts = outline(data, mark=mark.encode())
                decoded: T = _refilled(fast(_tidy(text, structure)), mark.encode(), parts)
                if mark.encode() in _encode(decoded):
                    raise DecodeError(f"cannot decode {_name(kind)}: nested too deeply") from None
                return decoded
        except (*UNREADABLE, UnbalancedError) as error:
            raise DecodeError(f"cannot decode {_name(kind)}: {error}") from error

    return decode


def members_of(data: Json) -> dict[str, msgspec.Raw]:
    """The members of an object as text, however deeply they are nested."""
    try:
        return _members(data)
    except RecursionError:
        mark = token_hex().encode()
        text, parts = outline(data, depth=1, mark=mark)
        return {name: _refilled(value, mark, parts) for name, value in _members(text).items()}


def _refilled(value: Any, mark: bytes, parts: list[bytes]) -> Any:
    """The value with the parts of an outline in place of their marks, wherever text is kept raw.

    It goes as deep as structs are nested, not as deep as their text.
    """
    if isinstance(value, msgspec.Raw):
        pieces = bytes(value).split(b'"' + mark)
        filled = pieces[:1]
        for piece in pieces[1:]:
            number, _, rest = piece.partition(b'"')
            filled += [parts[int(number)], rest]
        return msgspec.Raw(b"".join(filled)) if pieces[1:] else value
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {
            name: new
            for name, old in fields.items()
            if (new := _refilled(old, mark, parts)) is not old
        }
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        items = tuple([_refilled(one, mark, parts) for one in value])
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _tidy(data: Json, kind: inspect.Type) -> Json:
    """The members that `kind` has fields for, without nulls; other values stay, to be refused."""
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
                with_parts = [one for one in types if isinstance(one, _WITH_PARTS)]
                return _tidy(data, with_parts[0]) if with_parts else data
    except msgspec.ValidationError:
        pass
    return data


def _present(
    parts: Iterable[tuple[Any, msgspec.Raw, inspect.Type]],
) -> dict[Any, msgspec.Raw]:
    return {key: msgspec.Raw(_tidy(value, kind)) for key, value, kind in parts if value != _NULL}


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)


# Deeper than any field of the API, shallower than anybody's stack is short.
READ_DEPTH = 64
# Working memory is about 10 bytes per byte of a block.
BLOCK_BYTES = 1 << 20

_QUOTE = ord('"')
# By byte: 1 opens a level of nesting, 255 (-1 as a signed byte) closes one.
_STEPS = bytes({"{": 1, "[": 1, "}": 255, "]": 255}.get(chr(code), 0) for code in range(256))


class UnbalancedError(KschedulerError):
    """Brackets that open and close do not match: the text is no JSON."""


class Outline(NamedTuple):
    """A text in which `parts` are replaced by their numbers: part 0 is `0`, part 1 is `1`; or by
    strings of a mark and the number.
    """

    text: bytes
    parts: list[bytes]


def outline(
    data: bytes | bytearray | memoryview | str, depth: int = READ_DEPTH, mark: bytes = b""
) -> Outline:
    """Every object and array within `depth` others, set aside.

    With a `mark`, a string that begins with it stands for each of them.

    What it makes of a text that is no JSON is no JSON either, or not as long as its parts are.
    """
    text = data.encode() if isinstance(data, str) else bytes(data)
    begins, ends = _places(text, depth)
    pieces, parts, at = [], [], 0
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        pieces += [text[at:begin], b'"%b%d"' % (mark, number) if mark else b"%d" % number]
        at = end + 1
        parts.append(text[begin:at])
    return Outline(b"".join([*pieces, text[at:]]), parts)


def _places(text: bytes, depth: int) -> tuple[list[int], list[int]]:
    """Begins and ends of the objects and arrays that have `depth` others around them."""
    # Here, so that commands that only ask start without numpy.
    import numpy as np

    steps = np.frombuffer(_STEPS, np.int8)
    # Escaped backslashes first: the quote behind two of them ends its string.
    plain = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    begins: list[int] = []
    ends: list[int] = []
    quotes = level = lowest = 0
    for start in range(0, len(plain), BLOCK_BYTES):
        codes = np.frombuffer(plain, np.uint8, min(BLOCK_BYTES, len(plain) - start), start)
        in_string = (np.cumsum(codes == _QUOTE, dtype=np.uint8) + np.uint8(quotes)) & 1
        step = steps[codes]
        step[in_string == 1] = 0
        levels = np.cumsum(step, dtype=np.int64) + level
        begins += (np.flatnonzero((step > 0) & (levels == depth + 1)) + start).tolist()
        ends += (np.flatnonzero((step < 0) & (levels == depth)) + start).tolist()
        quotes, level = int(in_string[-1]), int(levels[-1])
        lowest = min(lowest, int(levels.min()))
    if level or quotes or lowest < 0:
        raise UnbalancedError("brackets or quotes do not match")
    return begins, ends
