"""Comma-separated lists as flags take and print them: one CSV record in Go's dialect."""


def read_list(text: str) -> tuple[str, ...]:
    """The fields of the first record; ValueError in Go's words for stray quotes."""
    if not text:
        return ()
    text = text.lstrip("\r\n")
    if not text:
        raise ValueError("EOF")
    fields: list[str] = []
    rest, column, more = text, 1, True
    while more:
        if rest.startswith('"'):
            field, consumed, more = _quoted_field(rest, column)
        else:
            field, comma, _ = rest.split("\n", 1)[0].removesuffix("\r").partition(",")
            if '"' in field:
                at = column + _bytes(field[: field.index('"')])
                raise ValueError(f'parse error on line 1, column {at}: bare " in non-quoted-field')
            consumed, more = len(field) + len(comma), bool(comma)
        fields.append(field)
        rest, column = rest[consumed:], column + _bytes(rest[:consumed])
    return tuple(fields)


def write_list(values: tuple[str, ...]) -> str:
    fields = []
    for value in values:
        quoted = value == "\\." or value[:1].isspace() or any(c in value for c in ',"\r\n')
        fields.append('"' + value.replace('"', '""') + '"' if quoted else value)
    return ",".join(fields)


def _quoted_field(rest: str, column: int) -> tuple[str, int, bool]:
    """The field, how many characters it took, and whether another one follows."""
    field, at = "", 1
    while True:
        end = rest.find('"', at)
        if end < 0:
            raise _stray_quote(column + _bytes(rest))
        field += rest[at:end]
        after = rest[end + 1 : end + 2]
        if after == '"':
            field, at = field + '"', end + 2
        elif after == ",":
            return field, end + 2, True
        elif after in ("", "\n") or rest[end + 1 : end + 3] == "\r\n":
            return field, end + 1, False
        else:
            raise _stray_quote(column + _bytes(rest[:end]))


def _bytes(text: str) -> int:
    """Columns count bytes, also those of arguments that are not UTF-8."""
    return len(text.encode("utf-8", "surrogateescape"))


def _stray_quote(column: int) -> ValueError:
    return ValueError(
        f'parse error on line 1, column {column}: extraneous or missing " in quoted-field'
    )
