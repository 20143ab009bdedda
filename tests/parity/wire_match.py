"""Recorded values with placeholders, held against real ones.

A placeholder is a pattern, and what it stood for once it must stand for again: `@UID:pod/p1@` is
one UID throughout, `@RV#2@` of an object one version that is newer than its `@RV#1@`.
"""

import re
import socket
from collections.abc import Iterator, Mapping
from itertools import pairwise

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HOST = re.escape(socket.gethostname())

ANY_NODE = "@NODE@"
SHAPES = {
    ANY_NODE: r"n\d",
    "@TIME@": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "@MICROTIME@": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "@HEXNANOS@": "[0-9a-f]{16}",
    "@HOSTNAME@": HOST,
    "@RV@": r"\d+",
    "@UUID@": UUID,
    "@300-599@": "[345][0-9][0-9]",
    "@SAME_AS_TIMEOUTSECONDS@": "[0-9hms]+",
}
# Present or not as the server pleases; the content was not recorded.
SERVERS_OWN = "@MANAGED_FIELDS@"

_NAMED_SHAPES = {
    "@UID:": UUID,
    "@IDENTITY": f"{HOST}_{UUID}",
    "@RANDOM": "[a-z0-9]{5}",
}
_PLACEHOLDER = re.compile("|".join([*map(re.escape, SHAPES), "(@UID:|@IDENTITY|@RANDOM)[^@]+@"]))
_VERSION = re.compile(r"@RV#(\d+)@")


class Matcher:
    """Compares one scenario's values; remembers what its placeholders stood for.

    `literals` are placeholders whose value is known beforehand.
    """

    def __init__(self, literals: Mapping[str, str]) -> None:
        self._literals = dict(literals)
        self._bound: dict[str, str] = {}
        self._versions: dict[str, dict[int, int]] = {}

    def differences(
        self, recorded: object, seen: object, path: str = "", *, ordered: bool = True
    ) -> Iterator[str]:
        """What differs, each with its place; `ordered` is whether the order of keys counts."""
        if isinstance(recorded, Mapping) and isinstance(seen, Mapping):
            yield from self._in_mapping(recorded, seen, path, ordered=ordered)
        elif isinstance(recorded, list) and isinstance(seen, list):
            yield from self._in_list(recorded, seen, path, ordered=ordered)
        elif isinstance(recorded, str) and isinstance(seen, str):
            if not self._fits(recorded, seen):
                yield f"{path}: {seen!r} instead of {self._filled(recorded)!r}"
        elif type(recorded) is not type(seen) or recorded != seen:
            yield f"{path}: {seen!r} instead of {recorded!r}"

    def _in_mapping(
        self,
        recorded: Mapping[str, object],
        seen: Mapping[str, object],
        path: str,
        *,
        ordered: bool,
    ) -> Iterator[str]:
        wanted = [key for key, value in recorded.items() if value != SERVERS_OWN]
        got = [key for key in seen if recorded.get(key) != SERVERS_OWN]
        for key in wanted:
            if key not in seen:
                yield f"{path}.{key}: missing, should be {recorded[key]!r}"
            elif key == "resourceVersion":
                yield from self._in_version(recorded, seen, f"{path}.{key}")
            else:
                yield from self.differences(
                    recorded[key], seen[key], f"{path}.{key}", ordered=ordered
                )
        for key in got:
            if key not in recorded:
                yield f"{path}.{key}: {seen[key]!r} should not be there"
        if ordered and set(wanted) == set(got) and wanted != got:
            yield f"{path}: keys in the order {got} instead of {wanted}"

    def _in_list(
        self, recorded: list[object], seen: list[object], path: str, *, ordered: bool
    ) -> Iterator[str]:
        if len(recorded) != len(seen):
            yield f"{path}: {len(seen)} entries instead of {len(recorded)}"
            return
        for position, (one, other) in enumerate(zip(recorded, seen, strict=True)):
            yield from self.differences(one, other, f"{path}[{position}]", ordered=ordered)

    def _in_version(
        self, recorded: Mapping[str, object], seen: Mapping[str, object], path: str
    ) -> Iterator[str]:
        """Versions are numbered per object, which its UID in the same mapping names."""
        numbered = _VERSION.fullmatch(str(recorded["resourceVersion"]))
        value = str(seen["resourceVersion"])
        if numbered is None or "uid" not in recorded:
            yield from self.differences(recorded["resourceVersion"], value, path)
        elif not value.isdecimal():
            yield f"{path}: {value!r} is no version"
        elif not self._is_version(str(recorded["uid"]), int(numbered[1]), int(value)):
            known = self._versions[str(recorded["uid"])]
            yield f"{path}: {value} cannot be version {numbered[1]} of the object beside {known}"

    def _is_version(self, uid: str, number: int, value: int) -> bool:
        known = self._versions.setdefault(uid, {})
        if known.setdefault(number, value) != value:
            return False
        values = [known[number] for number in sorted(known)]
        return all(older < newer for older, newer in pairwise(values))

    def _fits(self, recorded: str, seen: str) -> bool:
        """The first value that fits binds the placeholders; later ones must agree."""
        pattern, names = self._pattern(recorded)
        match = re.fullmatch(pattern, seen, re.DOTALL)
        if match is None:
            return False
        for position, name in enumerate(names, 1):
            self._bound[name] = match[position]
        return True

    def _pattern(self, recorded: str) -> tuple[str, list[str]]:
        pattern, names, end = "", [], 0
        recorded = self._filled(recorded)
        for found in _PLACEHOLDER.finditer(recorded):
            pattern += re.escape(recorded[end : found.start()])
            end = found.end()
            if found[0] in SHAPES:
                pattern += SHAPES[found[0]]
            else:
                names.append(found[0])
                pattern += f"({_NAMED_SHAPES[found[1]]})"
        return pattern + re.escape(recorded[end:]), names

    def _filled(self, recorded: str) -> str:
        for name, value in {**self._literals, **self._bound}.items():
            recorded = recorded.replace(name, value)
        return recorded
