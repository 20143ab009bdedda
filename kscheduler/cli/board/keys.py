"""Keys as a terminal sends them: characters as they are, others by their names.

Arrows and the like arrive as sequences that begin with Escape, in several spellings. An Escape that
nothing follows is the key itself; only time tells, so whoever reads calls `flush` after a moment.
"""

from __future__ import annotations

import codecs
import re

UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
PAGE_UP, PAGE_DOWN, HOME, END = "page-up", "page-down", "home", "end"
ENTER, ESCAPE, TAB, BACK_TAB = "enter", "escape", "tab", "back-tab"

_ESC = "\x1b"
# After Escape: `[` or `O`, then parameters, then a letter or `~`.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])")
_BEGINNING = re.compile(r"\x1b(?:\[[0-9;]*|O)?\Z")
_BY_ENDING = {
    "A": UP,
    "B": DOWN,
    "C": RIGHT,
    "D": LEFT,
    "H": HOME,
    "F": END,
    "Z": BACK_TAB,
    "1~": HOME,
    "4~": END,
    "5~": PAGE_UP,
    "6~": PAGE_DOWN,
    "7~": HOME,
    "8~": END,
}
_NAMED = {"\r": ENTER, "\n": ENTER, "\t": TAB}
# A paste of megabytes is no list of keys.
MAX_HELD = 64


class KeyDecoder:
    """Bytes in, keys out; a sequence may arrive in pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = ""

    @property
    def is_waiting(self) -> bool:
        """Whether it holds an Escape, or the beginning of a sequence."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[str]:
        text = self._held + self._decoder.decode(data)
        self._held = ""
        keys: list[str] = []
        while text:
            if not text.startswith(_ESC):
                keys.append(_NAMED.get(text[0], text[0]))
                text = text[1:]
            elif found := _SEQUENCE.match(text):
                ending = re.sub(r"^\x1b[\[O]", "", found[0])
                # With Shift, Ctrl or Alt: `1;5A`; it is the same key to us.
                name = _BY_ENDING.get(ending) or _BY_ENDING.get(ending[-1])
                if name is not None:
                    keys.append(name)
                text = text[found.end() :]
            elif _BEGINNING.match(text) and len(text) < MAX_HELD:
                self._held, text = text, ""
            else:
                keys.append(ESCAPE)
                text = text[1:]
        return keys

    def flush(self) -> list[str]:
        """The keys of a beginning that nothing has followed."""
        held, self._held = self._held, ""
        return [ESCAPE, *held[1:]] if held else []
