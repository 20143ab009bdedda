"""Arguments in, Options out, by pflag's rules and in pflag's words.

`--flag=value`, `--flag value`, a bare `--flag` where the type allows it, `-v2`, `-v 2`, `-v=2`; an
underscore in a name is a dash; `--` ends the flags; flags and other arguments may be mixed. The
first use of a list replaces the default, further uses add to it.
"""

from collections.abc import Sequence
from typing import Any

from kscheduler.cli.flags import Flag, all_flags
from kscheduler.config.options import Options
from kscheduler.errors import KschedulerError
from kscheduler.gotext.strconv import quote
from kscheduler.suggestions import nearest


class UsageError(KschedulerError):
    """The command line cannot be read; usage is shown with it.

    `meant` is the flag that was meant, as far as one can guess; "" if there is none like it.
    """

    def __init__(self, text: str, meant: str = "") -> None:
        super().__init__(text)
        self.meant = meant


def parse(args: Sequence[str]) -> tuple[Options, list[str]]:
    """Options as the flags say, and the arguments that are no flags."""
    line = _Line(args)
    line.read()
    values = {f.field: line.values.get(f.name, f.default) for f in line.flags.values()}
    texts = {name: flag.type.show(values[flag.field]) for name, flag in line.flags.items()}
    given = frozenset(line.flags[name].field for name in line.values)
    return Options(**values, given=given, texts=dict(sorted(texts.items()))), line.positionals


class _Line:
    def __init__(self, args: Sequence[str]) -> None:
        self.flags = {flag.name: flag for flag in all_flags()}
        self.values: dict[str, Any] = {}
        self.positionals: list[str] = []
        self._shorts = {flag.short: flag for flag in self.flags.values() if flag.short}
        self._rest = list(args)

    def read(self) -> None:
        while self._rest:
            arg = self._rest.pop(0)
            if arg == "--":
                self.positionals += self._rest
                return
            if arg.startswith("--"):
                self._long(arg)
            elif arg.startswith("-") and arg != "-":
                self._shorthands(arg[1:])
            else:
                self.positionals.append(arg)

    def _long(self, arg: str) -> None:
        name, equals, text = arg[2:].partition("=")
        if not name or name.startswith("-"):
            raise UsageError(f"bad flag syntax: {arg}")
        known = name.replace("_", "-")
        flag = self.flags.get(known)
        if flag is None:
            near = nearest(known, self.flags)
            raise UsageError(f"unknown flag: --{name}", near and f"--{near}")
        if not equals:
            text = flag.type.bare or self._next(f"flag needs an argument: --{name}")
        self._set(flag, text)

    def _shorthands(self, letters: str) -> None:
        """A run of one-letter flags; the first that takes a value takes the rest of the run."""
        while letters and not letters.startswith("test."):
            flag = self._shorts.get(letters[0])
            if flag is None:
                raise UsageError(f"unknown shorthand flag: {_quoted_letter(letters)} in -{letters}")
            rest = letters[1:]
            if rest.startswith("=") and len(rest) > 1:
                text, rest = rest[1:], ""
            elif flag.type.bare:
                text = flag.type.bare
            elif rest:
                text, rest = rest, ""
            else:
                text = self._next(
                    f"flag needs an argument: {_quoted_letter(letters)} in -{letters}"
                )
            self._set(flag, text)
            letters = rest

    def _next(self, complaint: str) -> str:
        if not self._rest:
            raise UsageError(complaint)
        return self._rest.pop(0)

    def _set(self, flag: Flag, text: str) -> None:
        try:
            self.values[flag.name] = flag.type.read(text, self.values.get(flag.name))
        except (KschedulerError, ValueError) as err:
            shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise UsageError(
                f"invalid argument {quote(text)} for {quote(shown)} flag: {err}"
            ) from None


def _quoted_letter(letters: str) -> str:
    """The first byte as a quoted character, which is how pflag sees it."""
    letter = chr(letters.encode("utf-8", "surrogateescape")[0])
    return "'\\''" if letter == "'" else f"'{quote(letter)[1:-1]}'" if letter != '"' else "'\"'"
