"""Rules of a configuration, all checked, in kube-scheduler's order and words.

Mirrors pkg/scheduler/apis/config/validation/validation.go. Differs: errors about removed plugins
come in the order of the extension points, which upstream leaves to chance.
"""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.api.field_errors import (
    FieldError,
    Named,
    Path,
    duplicate,
    invalid,
    required,
)
from kscheduler.api.resource_names import is_extended
from kscheduler.api.validation import label_key_errors
from kscheduler.config.catalog import Catalog
from kscheduler.config.dump import internal_json
from kscheduler.config.model import (
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    Plugins,
)
from kscheduler.config.plugin_args import Gates

REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
# Upstream does not check multiPoint and the placement points for removed plugins.
UNGUARDED_POINTS = ("multi_point", "placement_generate", "placement_score")

Errors = Iterator[FieldError]
ROOT = Path()


def validate(
    config: KubeSchedulerConfiguration, catalog: Catalog, gates: Gates
) -> list[FieldError]:
    """All violated rules, in the order in which upstream reports them; none if it is valid."""
    errors: list[FieldError] = []
    client = config.client_connection
    if client.burst < 0:
        where = ROOT / "clientConnection" / "burst"
        errors.append(invalid(where, client.burst, "must be non-negative"))
    if config.leader_election.leader_elect:
        errors += _election_errors(config.leader_election, ROOT / "leaderElection")
    if config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        errors.append(invalid(ROOT / "parallelism", config.parallelism, detail))
    errors += _profiles_errors(config, catalog, gates)
    percentage = config.percentage_of_nodes_to_score
    errors += _percentage_errors(percentage, ROOT / "percentageOfNodesToScore")
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        errors.append(invalid(ROOT / "podInitialBackoffSeconds", initial, "must be greater than 0"))
    if longest < initial:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        errors.append(invalid(ROOT / "podMaxBackoffSeconds", longest, detail))
    errors += _extenders_errors(config.extenders, ROOT / "extenders")
    return errors


def _election_errors(election: LeaderElectionConfiguration, path: Path) -> Errors:
    spans = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, span in spans.items():
        if span <= 0:
            yield invalid(path / name, span, "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        # The value shown is the deadline's, as upstream has it.
        detail = "must be greater than `RenewDeadline`"
        yield invalid(path / "leaseDuration", election.renew_deadline, detail)
    if not election.resource_lock:
        yield required(path / "resourceLock")
    if not election.resource_namespace:
        yield required(path / "resourceNamespace")
    if not election.resource_name:
        yield required(path / "resourceName")
    if election.resource_lock != "leases":
        detail = 'resourceLock value must be "leases"'
        yield invalid(path / "resourceLock", election.resource_lock, detail)


def _percentage_errors(percentage: int | None, path: Path) -> Errors:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _profiles_errors(config: KubeSchedulerConfiguration, catalog: Catalog, gates: Gates) -> Errors:
    path = ROOT / "profiles"
    if not config.profiles:
        yield required(path)
        return
    names: set[str] = set()
    for i, profile in enumerate(config.profiles):
        yield from _profile_errors(profile, path[i], config.api_version, catalog, gates)
        if profile.scheduler_name in names:
            # Upstream hands the path of the first one over as the value; it shows as {}.
            yield duplicate(path[i] / "schedulerName", {})
        names.add(profile.scheduler_name)
    yield from _queue_sort_errors(config.profiles, path)


def _profile_errors(
    profile: KubeSchedulerProfile, path: Path, api_version: str, catalog: Catalog, gates: Gates
) -> Errors:
    if not profile.scheduler_name:
        yield required(path / "schedulerName")
    percentage = profile.percentage_of_nodes_to_score
    yield from _percentage_errors(percentage, path / "percentageOfNodesToScore")
    for attr, info in Plugins.model_fields.items():
        if attr in UNGUARDED_POINTS:
            continue
        for i, plugin in enumerate(getattr(profile.plugins, attr).enabled):
            if plugin.name in REMOVED_PLUGINS:
                where = (path / "plugins" / str(info.alias) / "enabled")[i]
                yield _removed(plugin.name, where, api_version)
    seen: set[str] = set()
    for i, entry in enumerate(profile.plugin_config):
        where = (path / "pluginConfig")[i]
        if entry.name in seen:
            yield duplicate(where, entry.name)
        seen.add(entry.name)
        args_type = catalog.args_of(entry.name)
        if entry.name in REMOVED_PLUGINS:
            yield _removed(entry.name, where, api_version)
        elif args_type is None or not args_type.validated_with_file:
            continue
        elif isinstance(entry.args, args_type):
            yield from entry.args.errors(where / "args", gates)
        else:
            shown = internal_json(entry.args)
            yield invalid(where / "args", shown, "has to match plugin args")


def _removed(name: str, path: Path, api_version: str) -> FieldError:
    version = f'(KubeSchedulerConfiguration is version "{api_version}")'
    return invalid(path, name, f'was invalid in version "v1" {version}')


def _queue_sort_errors(profiles: tuple[KubeSchedulerProfile, ...], path: Path) -> Errors:
    """All profiles feed one queue, and so must agree on its order, arguments included."""
    first = profiles[0].plugins.queue_sort
    name = first.enabled[0].name if first.enabled else ""
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid(path[0] / "plugins" / "queueSort" / "Enabled", len(first.enabled), detail)
    wanted = [entry.args for entry in profiles[0].plugin_config if name and entry.name == name]
    for i, profile in enumerate(profiles[1:], start=1):
        queue_sort = profile.plugins.queue_sort
        if queue_sort != first:
            where = path[i] / "plugins" / "queueSort"
            yield invalid(where, internal_json(queue_sort), "must be the same for all profiles")
        for entry in profile.plugin_config:
            if entry.name == name and entry.args != (wanted[-1] if wanted else None):
                detail = "queueSort must be the same for all profiles"
                where = path[i] / "pluginConfig" / "args"
                yield invalid(where, internal_json(entry.args), detail)


def _extenders_errors(extenders: tuple[Extender, ...], path: Path) -> Errors:
    seen: set[str] = set()
    for i, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            yield invalid(path[i] / "weight", extender.weight, detail)
        for j, resource in enumerate(extender.managed_resources):
            where = (path[i] / "managedResources")[j] / "name"
            complaints = label_key_errors(resource.name)
            yield from (invalid(where, Named(resource.name), detail) for detail in complaints)
            if not complaints and not is_extended(resource.name):
                yield invalid(where, resource.name, "is an invalid extended resource name")
            if resource.name in seen:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(bool(extender.bind_verb) for extender in extenders)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid(path, found, "only one extender can implement bind")
