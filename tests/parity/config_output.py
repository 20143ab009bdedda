"""What a start has printed, taken apart: log lines, the error and its form, help, plugins."""

import json
import re
from typing import NamedTuple

from kscheduler.cli.flags import GROUPS, OWN

HEADER = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^ ]+:\d+\] ")
# Every start writes it unless allowed labels are given; the recording leaves it out.
EVERY_START = "The manifest file is empty, ignoring."
# Said by releases (1.37.1), not by the release candidate that was recorded: 1.37.0-rc.1 counts as
# older than the 1.37 that it emulates.
ALPHA_FEATURES = "component has alpha features enabled in emulated version"
PLUGINS = '"the scheduler starts to work with those plugins" Plugins='
WEIGHTED = ("score", "placementScore")
FLAG = re.compile(
    r"  (?:(?P<short>-\w), |    )--(?P<name>[\w-]+)(?: (?P<type>\S+))?(?: {3,}(?P<text>.*))?"
)
DEFAULT = re.compile(r"\(default (.*)\)$")
OWN_VERSION = re.compile(r" \(kscheduler [^)]*\)$", re.MULTILINE)
ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Said(NamedTuple):
    form: str
    error: str
    log: list[list[str]]


def read_stderr(text: str) -> Said:
    if text.startswith("Usage:"):
        return Said("usage", text.rstrip("\n").rpartition("\n")[2], [])
    if text.startswith("{"):
        return _read_json(text)
    lines = _log_lines(text)
    if lines is None:
        return Said("plain", text.removesuffix("\n"), [])
    failures = [line for _, line in lines if line.startswith('"command failed" err=')]
    others = [[severity, line] for severity, line in lines if line not in failures]
    if failures:
        return Said("klog", _value(failures[0].removeprefix('"command failed" err=')), others)
    return Said("none", "", others)


def _read_json(text: str) -> Said:
    lines = [json.loads(line) for line in text.splitlines()]
    failed = [line for line in lines if line["msg"] == "command failed"]
    log = [["I" if "v" in line else "E", line["msg"]] for line in lines if line not in failed]
    return Said("klog", failed[0]["err"], log) if failed else Said("none", "", log)


def _log_lines(text: str) -> list[list[str]] | None:
    """Severity and text of each line; a value of several lines belongs to one. None: no log."""
    lines: list[list[str]] = []
    for line in text.splitlines():
        if match := HEADER.match(line):
            lines.append([match[1], line[match.end() :]])
        elif not lines:
            return None
        else:
            lines[-1][1] += f"\n{line}"
    return lines


def _value(text: str) -> str:
    """The string that klog printed as a value."""
    if text.startswith("<\n"):
        return "\n".join(line[1:] for line in text.splitlines()[1:-1])
    return re.sub(r"\\(x..|u....|U........|.)", _unescaped, text[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES.get(code, code)


def error_set(text: str) -> set[str]:
    """The entries of an aggregated error, each of which ends in a bracket."""
    return set(re.split(r"(?<=[\])]), ", text.removeprefix("[").removesuffix("]")))


def comparable_log(case: dict, log: list[list[str]]) -> list[list[str]]:
    """Our lines without those that the recording leaves out."""
    own = tuple(f"FLAG: --{flag.name}=" for flag in GROUPS[OWN])
    own += (ALPHA_FEATURES,)
    kept = [line for line in log if line[1] != EVERY_START and not line[1].startswith(own)]
    if not any(line[1].startswith("FLAG:") for line in case["log"]):
        kept = [line for line in kept if not line[1].startswith("FLAG:")]
    if any(re.fullmatch(r"(-v|--v)=?[2-9]", arg) for arg in case["args"]):
        # Text does not tell the level of a line; above 1 only what was recorded counts.
        kept = [line for line in kept if line in case["log"]]
    return kept


def json_keys(text: str) -> list[list[str]]:
    return [sorted(json.loads(line)) for line in text.splitlines()]


def matches(want: str, got: str) -> bool:
    """Equal, but for build facts, our own version and the header of log lines."""
    got = OWN_VERSION.sub("", got)
    got = HEADER.sub(r"\1@TIME@ @PID@ file] ", got)
    want = re.sub(r"([IWEF])@TIME@ @PID@ \S+\] ", r"\1@TIME@ @PID@ file] ", want)
    return bool(re.fullmatch(re.escape(want).replace("@BUILD@", '[^"]*'), got))


def read_help(text: str) -> dict:
    """What is said about upstream's flags; ours come behind them, in a group of their own."""
    usage, groups, group = [], [], None
    lines = iter(text.splitlines())
    for line in lines:
        if line == "Usage:":
            usage.append(next(lines))
        elif line.endswith(" flags:") and not line.startswith(" "):
            group = {"group": line.removesuffix(" flags:"), "flags": []}
            groups.append(group)
        elif group and (match := FLAG.fullmatch(line)):
            group["flags"].append(_flag(match))
    assert groups.pop()["group"] == OWN
    return {"usage": usage, "groups": groups}


def _flag(match: re.Match[str]) -> dict:
    text = match["text"] or ""
    default = DEFAULT.search(text)
    return {
        "name": match["name"],
        "short": match["short"],
        "type": match["type"],
        "default": default[1] if default else None,
        "deprecated": text.startswith("DEPRECATED"),
    }


def effective_plugins(text: str, case: dict) -> list[dict]:
    names = [profile["schedulerName"] for profile in case["written_config"]["profiles"]]
    printed = [
        json.loads(line.partition(PLUGINS)[2]) for line in text.splitlines() if PLUGINS in line
    ] or [line["Plugins"] for line in map(json.loads, text.splitlines()) if "Plugins" in line]
    return [_profile(name, points) for name, points in zip(names, printed, strict=True)]


def _profile(name: str, points: dict) -> dict:
    profile: dict = {"schedulerName": name}
    for point, chosen in points.items():
        key = point[0].lower() + point[1:]
        enabled = chosen["Enabled"] or []
        if key != "multiPoint":
            weighted = key in WEIGHTED
            profile[key] = [[p["Name"], p["Weight"]] if weighted else p["Name"] for p in enabled]
    return profile
