"""The text of an event, as upstream's formatting leaves it.

The message is cut to what the API takes, then used as a printf format without arguments, so that a
percent sign comes out mangled. Both are visible to users and reproduced on purpose.
"""

import re

MAX_NOTE_BYTES = 1024
_ELLIPSIS = b" ..."

_DIRECTIVE = re.compile(
    r"%[-+# 0]*(?P<index>\[[^\]]*\]?)?(?P<width>\*|\d+)?(?P<precision>\.(?:\*|\d*))?"
    r"(?P<late_index>\[[^\]]*\]?)?(?P<verb>.)?",
    re.DOTALL,
)


def note_text(message: str) -> str:
    return _formatted(_cut(message))


def _cut(message: str) -> str:
    """At 1020 bytes; Go writes each byte of a character that was cut through as U+FFFD."""
    data = message.encode(errors="replace")
    if len(data) <= MAX_NOTE_BYTES:
        return data.decode()
    head = data[: MAX_NOTE_BYTES - len(_ELLIPSIS)]
    whole = head.decode(errors="ignore")
    torn = len(head) - len(whole.encode())
    return whole + torn * "\ufffd" + _ELLIPSIS.decode()


def _formatted(message: str) -> str:
    return _DIRECTIVE.sub(_directive, message) if "%" in message else message


def _directive(match: re.Match[str]) -> str:
    complaints = "%!(BADWIDTH)" if match["width"] == "*" else ""
    complaints += "%!(BADPREC)" if match["precision"] == ".*" else ""
    verb = match["verb"]
    if verb is None:
        return f"{complaints}%!(NOVERB)"
    if verb == "%":
        return f"{complaints}%"
    indexed = match["index"] or match["late_index"]
    return f"{complaints}%!{verb}({'BADINDEX' if indexed else 'MISSING'})"
