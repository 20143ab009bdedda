"""Field errors in upstream's wording: `<path>: Invalid value: <value>: <detail>`.

A path is a plain string; `child` and `index` know how an empty one grows.
"""

import json
from collections.abc import Iterable, Sequence

from kscheduler.gotext.strconv import quote


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def index(path: str, key: int | str) -> str:
    return f"{path}[{key}]"


def invalid(path: str, value: str | Sequence[str], detail: str) -> str:
    """A path nobody gave shows as `<nil>`, as it does upstream."""
    shown = quote(value) if isinstance(value, str) else json_list(value)
    return f"{path or '<nil>'}: Invalid value: {shown}: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    known = ", ".join(quote(item) for item in supported)
    return f"{path}: Unsupported value: {quote(value)}: supported values: {known}"


def aggregate(errors: Iterable[str]) -> str:
    """Several errors as one text, each said once."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def json_list(values: Sequence[str]) -> str:
    """JSON of a list of strings as Go encodes it; one that was never set is null."""
    if not values:
        return "null"
    text = json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
