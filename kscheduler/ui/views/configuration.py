"""Configuration: profiles in force, health of out-of-tree plugins, two files compared."""

from __future__ import annotations

import json

from kscheduler.api.explanation import ProfileStatus, SchedulerStatus
from kscheduler.errors import ConfigError
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster
from kscheduler.ui.html import TIMES, Child, Html, e
from kscheduler.ui.page import Page

MAX_CHARACTERS = 200_000
# In the order of a pod's way.
WAY = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)


async def configuration(cluster: Cluster, page: Page, old: str, new: str) -> Html:
    statuses = await cluster.statuses()
    leader = next((one for one in statuses if one.leader), None)
    content: list[Child] = []
    if leader is None:
        content.append(
            parts.empty("No instance leads at present: there is no configuration in force.")
        )
    else:
        profiles = parts.counted(len(leader.configuration), "profile")
        generation = leader.configuration_generation
        text = f"Configuration {leader.configuration_hash}, generation {generation}: {profiles}."
        content.append(e("p.lead", text))
        content += [_profile(profile) for profile in leader.configuration]
        content.append(_health(leader))
    return e("div", e("h1", "Configuration"), content, _compare(page, old, new))


def _profile(profile: ProfileStatus) -> Html:
    order = {point: index for index, point in enumerate(WAY)}
    rows: list[list[Child]] = []
    for one in sorted(profile.points, key=lambda point: order.get(point.point, len(order))):
        plugins: list[Child] = []
        for number, plugin in enumerate(one.plugins):
            plugins.append(
                [
                    ", " if number else None,
                    e("span", plugin.name),
                    e("small", f" {TIMES}{plugin.weight}") if plugin.weight else None,
                ]
            )
        rows.append([e("code", one.point), f"{len(one.plugins)}", plugins])
    arguments = [
        e(
            "details",
            e("summary", name),
            e("pre", e("code", _pretty(bytes(text))), tabindex=0),
        )
        for name, text in sorted(profile.arguments.items())
    ]
    return parts.section(
        f"Profile {profile.scheduler_name}",
        parts.table(
            f"Plugins of {profile.scheduler_name} in the order of their calls",
            ("Extension point", "Plugins", "In call order, with weights"),
            rows,
            (1,),
        ),
        e("h3", "Arguments") if arguments else None,
        arguments,
        name=f"profile-{profile.scheduler_name}",
    )


def _pretty(text: bytes) -> str:
    found = json.loads(text)
    found.pop("kind", None)
    found.pop("apiVersion", None)
    return json.dumps(found, indent=2, ensure_ascii=False)


def _health(leader: SchedulerStatus) -> Html:
    if not leader.plugins:
        text = "No out-of-tree plugin runs."
        return parts.section("Out-of-tree plugins", parts.empty(text), name="health", live="status")
    rows: list[list[Child]] = [
        [
            one.name,
            one.profile,
            "● healthy" if one.healthy else "▲ failing",
            f"{one.faults:,}",
            one.message,
        ]
        for one in leader.plugins
    ]
    heads = ("Plugin", "Profile", "Health", "Faults", "Message")
    return parts.section(
        "Out-of-tree plugins",
        parts.table("Health of out-of-tree plugins", heads, rows, (3,)),
        name="health",
        live="status",
    )


def _compare(page: Page, old: str, new: str) -> Html:
    answer: Child = None
    if old.strip() or new.strip():
        answer = _differences(old, new)

    def text(name: str, label: str, value: str) -> Html:
        area = e(f"textarea#{name}", value, name=name, rows=12, spellcheck="false")
        return e("div.field", e("label", label, for_=name), area)

    return parts.section(
        "Two files compared",
        answer,
        e(
            "form",
            e(
                "div.halves",
                text("old", "One KubeSchedulerConfiguration (empty: the defaults)", old),
                text("new", "The other", new),
            ),
            e("p", e("button.primary", "Compare")),
            method="post",
            action=page.to("configuration") + "#compared",
        ),
        name="compared",
        note="Compared is what they do: defaults are filled in first.",
    )


def _differences(old: str, new: str) -> Html:
    """Differences of two files in words; they are read here, by this program's own rules."""
    from kscheduler.config.difference import differences
    from kscheduler.config.feature_gates import FeatureGates
    from kscheduler.config.load import load_config
    from kscheduler.plugins import catalog

    if max(len(old), len(new)) > MAX_CHARACTERS:
        return e("p.state.declined", f"A file is too long: {MAX_CHARACTERS:,} characters are read.")
    default = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    known, gates = catalog(), FeatureGates.defaults()
    loaded = []
    for name, text in (("The first file", old), ("The second file", new)):
        try:
            loaded.append(
                load_config((text if text.strip() else default).encode(), known, gates=gates)
            )
        except ConfigError as error:
            return e("p.state.declined", e("strong", f"{name} cannot be read. "), str(error))
    try:
        lines = list(differences(loaded[0], loaded[1], known))
    except ConfigError as error:
        return e("p.state.declined", str(error))
    if not lines:
        return e("p.state", "They do the same.")
    return e("pre", e("code", "\n".join(lines)), tabindex=0)
