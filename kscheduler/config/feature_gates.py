"""Feature gates: every gate kube-scheduler knows, at the release it emulates.

    --emulated-version, --min-compatibility-version → Emulation → the spec in force per gate
    --feature-gates → explicit values → checked against locks, stages and dependencies

`FeatureGates` never changes after it is made; `apply` makes another one. Mirrors component-base's
featuregate. Differs: where upstream's order of errors is random, ours is that of the command line,
and of the table for dependencies.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from kscheduler import logs
from kscheduler.api.field_errors import aggregate
from kscheduler.config.emulation import COMPONENT, Emulation, Release, release_text
from kscheduler.config.gate_table import HISTORY, NEEDS
from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import parse_bool

log = logs.logger(__name__)


class Stage(StrEnum):
    """Maturity of a feature; the values are those of metric labels and help texts."""

    PRE_ALPHA = "PRE-ALPHA"
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


class Spec(NamedTuple):
    """Stage and default of a gate from a release on."""

    since: Release
    stage: Stage
    default: bool
    locked: bool = False
    min_compatibility: Release | None = None


class GateState(NamedTuple):
    stage: Stage
    enabled: bool


_STAGES = {"a": Stage.ALPHA, "b": Stage.BETA, "g": Stage.GA, "d": Stage.DEPRECATED}
_ALL_OF_STAGE = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_UNBORN = Spec((0, 0), Stage.PRE_ALPHA, default=False)


@cache
def _known() -> Mapping[str, tuple[Spec, ...]]:
    rows = (line.split() for line in HISTORY.strip().splitlines())
    return MappingProxyType({name: _specs(stages) for name, *stages in rows})


def _specs(stages: Iterable[str]) -> tuple[Spec, ...]:
    """A lowest compatible release, once demanded, holds for the stages that follow."""
    specs: list[Spec] = []
    lowest = None
    for text in stages:
        body, _, demanded = text.partition("@")
        body, locked = body.removesuffix("!"), body.endswith("!")
        lowest = _release(demanded) if demanded else lowest
        specs.append(Spec(_release(body[:-2]), _STAGES[body[-2]], body[-1] == "+", locked, lowest))
    return tuple(specs)


def _release(text: str) -> Release:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


class FeatureGates:
    """Feature gates and whether each is on; a gate that does not exist is a bug: KeyError."""

    def __init__(self, emulation: Emulation, explicit: Mapping[str, bool]) -> None:
        self.emulation = emulation
        self._explicit = dict(explicit)
        self._specs = {name: _spec_at(specs, emulation) for name, specs in _known().items()}
        self._enabled = {name: spec.default for name, spec in self._specs.items()}
        # AllAlpha and AllBeta switch whole stages; a gate's own value wins over them.
        for switch, stage in _ALL_OF_STAGE.items():
            if switch in self._explicit:
                of_stage = [name for name, spec in self._specs.items() if spec.stage is stage]
                self._enabled |= dict.fromkeys(of_stage, self._explicit[switch])
        self._enabled |= self._explicit

    @classmethod
    def defaults(cls) -> "FeatureGates":
        return cls(Emulation(), {})

    @classmethod
    def from_flags(
        cls,
        gates: Mapping[str, Sequence[str]],
        emulated: Sequence[str] = (),
        min_compatibility: Sequence[str] = (),
    ) -> "FeatureGates":
        """`gates` maps a component, "" when none was named, to its `name=bool` items."""
        base = cls(Emulation.from_flags(emulated, min_compatibility), {})
        _raise_if(base._broken_dependencies())
        for component, items in gates.items():
            if not component and COMPONENT in gates:
                raise ConfigError(
                    "set kube feature gates with default empty prefix or kube: prefix "
                    "consistently, do not mix use"
                )
            if component not in ("", COMPONENT):
                raise ConfigError(f"component not registered: {component}")
            base = base.apply(parse_gates(",".join(items)))
        return base

    def apply(self, values: Mapping[str, bool]) -> "FeatureGates":
        """The gates with these values set on top, or ConfigError."""
        explicit = {**self._explicit, **values}
        _raise_if(self._refusals(explicit))
        changed = FeatureGates(self.emulation, explicit)
        _raise_if(changed._broken_dependencies())
        return changed

    def enabled(self, name: str) -> bool:
        return self._enabled[name]

    def states(self) -> dict[str, GateState]:
        """Stage and value of each gate that exists at the emulated release, by name."""
        return {
            name: GateState(spec.stage, self._enabled[name])
            for name, spec in self._specs.items()
            if spec.stage is not Stage.PRE_ALPHA
        }

    def validate(self) -> list[str]:
        """Problems of the versions; alpha features only warn.

        Upstream means alpha features of an older release, but compares its own version, e.g.
        1.37.1, with the emulated one, 1.37, and so warns of any.
        """
        alphas = [name for name, state in self.states().items() if state == (Stage.ALPHA, True)]
        if alphas:
            log.text_warning(
                "component has alpha features enabled in emulated version, this is unsupported: "
                f"features=[{' '.join(alphas)}]"
            )
        return self.emulation.problems()

    def descriptions(self) -> list[str]:
        """Lines of --help: gates that are alpha or beta at the emulated release."""
        forward = Emulation(self.emulation.emulated, self.emulation.emulated)
        lines = []
        for name in sorted(_known()):
            now, later = self._specs[name], _spec_at(_known()[name], forward)
            if now.stage not in (Stage.ALPHA, Stage.BETA):
                continue
            line = _option(name, now)
            if later != now and later.min_compatibility:
                demanded = release_text(later.min_compatibility)
                condition = f"if --min-compatibility-version>={demanded}"
                line += f", or {_option(name, later)} {condition}"
            lines.append(line)
        return lines

    def _refusals(self, explicit: Mapping[str, bool]) -> list[str]:
        """Reasons why these values cannot be set; an unknown gate ends the search.

        Setting a gate that is about to be removed only warns.
        """
        found: list[str] = []
        for name, value in explicit.items():
            if name not in self._specs:
                return [*found, f"unrecognized feature gate: {name}"]
            spec, text = self._specs[name], _go_bool(value)
            locked = _go_bool(spec.default)
            if spec.locked and locked != text:
                found.append(
                    f"cannot set feature gate {name} to {text}, feature is locked to {locked}"
                )
            elif spec.stage is Stage.PRE_ALPHA:
                at = self.emulation
                found.append(
                    f"cannot set feature gate {name} to {text}, feature is PreAlpha at emulated "
                    f"version {release_text(at.emulated)}, "
                    f"min compatibility version {release_text(at.lowest)}"
                )
            elif kind := {Stage.GA: "GA", Stage.DEPRECATED: "deprecated"}.get(spec.stage):
                log.info(
                    f"Warning: setting {kind} feature gate. "
                    "It will be removed in a future release.",
                    featureGate=name,
                    value=value,
                )
        return found

    def _broken_dependencies(self) -> list[str]:
        found = []
        for name, needed in NEEDS.items():
            missing = [other for other in needed if not self._enabled[other]]
            if self._enabled[name] and missing:
                found.append(
                    f"{name} is enabled, but depends on features that are disabled: "
                    f"[{' '.join(missing)}]"
                )
        return found


def parse_gates(text: str) -> dict[str, bool]:
    """`A=true,B=0`, with blanks around names and values."""
    values = {}
    for item in filter(None, text.split(",")):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise ConfigError(f"missing bool value for {name}")
        try:
            values[name] = parse_bool(value)
        except ConfigError as err:
            raise ConfigError(f"invalid value of {name}={value}, err: {err}") from None
    return values


def _raise_if(problems: Sequence[str]) -> None:
    if problems:
        raise ConfigError(aggregate(problems))


def _spec_at(specs: Sequence[Spec], emulation: Emulation) -> Spec:
    """The latest stage that has begun and asks for no newer peers than we may have."""
    for spec in reversed(specs):
        demanded = spec.min_compatibility
        if spec.since <= emulation.emulated and (not demanded or demanded <= emulation.lowest):
            return spec
    return _UNBORN


def _option(name: str, spec: Spec) -> str:
    return f"{name}=true|false ({spec.stage.value} - default={_go_bool(spec.default)})"


def _go_bool(value: object) -> str:
    return "true" if value else "false"
