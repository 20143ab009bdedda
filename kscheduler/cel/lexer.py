"""Lexer: an expression as tokens, by cel-spec's lexical grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kscheduler.cel.errors import Issue

_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}"
    r"|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
)
_STRING = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        r'[rR]"""(?s:.*?)"""',
        r"[rR]'''(?s:.*?)'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_TOKEN = re.compile(
    rf"""(?P<space>[\t \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:{_STRING}))
    |(?P<string>{_STRING})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
        |\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_./\-\x20]+`)
    |(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\](){{}}.,\-!?:+*/%])
    """,
    re.VERBOSE,
)
KEYWORDS = frozenset(("in", "true", "false", "null"))


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (or, for operators and keywords, the text itself), text and offset."""

    kind: str
    text: str
    offset: int


def tokens_of(expression: str) -> tuple[list[Token], list[Issue]]:
    """The tokens with an end marker, and an issue for each text that is no token."""
    tokens = []
    issues = []
    position, end = 0, len(expression)
    while position < end:
        found = _TOKEN.match(expression, position)
        if found is None:
            position, issue = _skip(expression, position)
            issues.append(issue)
            continue
        kind, text = found.lastgroup or "", found.group()
        if kind != "space":
            if kind == "op" or (kind == "ident" and text in KEYWORDS):
                kind = text
            tokens.append(Token(kind, text, position))
        position = found.end()
    tokens.append(Token("<EOF>", "<EOF>", end))
    return tokens, issues


def _skip(expression: str, position: int) -> tuple[int, Issue]:
    """Position after the unreadable text; an open string reaches to the end of its line."""
    if expression[position] in "\"'":
        line_end = expression.find("\n", position)
        after = len(expression) if line_end < 0 else line_end
    else:
        after = position + 1
    text = expression[position:after].replace("\n", "\\n").replace("\r", "\\r")
    return after, Issue(position, f"Syntax error: token recognition error at: '{text}'")
