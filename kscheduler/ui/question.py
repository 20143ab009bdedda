"""The question of a what-if: read from a form, made a PlacementReview, written as an address, as a
command and as YAML.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
import yaml
from multidict import MultiMapping

from kscheduler.api.explanation import (
    PLACEMENT_REVIEWS,
    NodesToAdd,
    PlacementReview,
    PlacementReviewSpec,
)
from kscheduler.api.pod_questions import Manifest, fresh
from kscheduler.api.resource_names import CPU, MEMORY
from kscheduler.ui.cluster import Cluster
from kscheduler.ui.pod_changes import changed_pod
from kscheduler.ui.source import Declined

MAX_REPLICAS = 10_000
# Longer questions are not put into an address.
MAX_ADDRESS = 4_000
MAX_YAML_CHARACTERS = 200_000
MAX_CHANGES = 500
# A field of the form that holds a request: `request:CONTAINER:RESOURCE`.
REQUEST = "request"


class Question(msgspec.Struct):
    """The form, read: nothing of it is trusted before the scheduler has checked it."""

    pod: str = ""
    manifest: str = ""
    replicas: int = 1
    # Requests of each container.
    cpu: str = ""
    memory: str = ""
    # Requests by container and resource.
    requests: dict[tuple[str, str], str] = {}
    # JSON pointers into the spec (see `pod_changes`).
    without: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    cordon: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    add: int = 0
    like: str = ""
    configuration: str = ""
    preempt: bool = False
    asked: bool = False

    @property
    def changes_pod(self) -> bool:
        return bool(self.cpu or self.memory or self.requests or self.without)

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to compare with."""
        return bool(
            self.changes_pod
            or self.drain
            or self.cordon
            or self.remove
            or self.add
            or self.configuration.strip()
            or self.preempt
        )


def read(form: MultiMapping[str]) -> Question:
    """Declined for what is not a number or too long."""
    manifest = form.get("manifest", "")
    if (
        len(manifest) > MAX_YAML_CHARACTERS
        or len(form.get("configuration", "")) > MAX_YAML_CHARACTERS
    ):
        raise Declined(f"The text is too long: {MAX_YAML_CHARACTERS:,} characters are read.")
    requests: dict[tuple[str, str], str] = {}
    for field, value in form.items():
        kind, _, rest = field.partition(":")
        container, colon, resource = rest.partition(":")
        if kind == REQUEST and colon and resource and value.strip():
            requests[container, resource] = value.strip()
    without = tuple(dict.fromkeys(one for one in form.getall("without", ()) if one[:1] == "/"))
    if len(requests) + len(without) > MAX_CHANGES:
        raise Declined(f"At most {MAX_CHANGES} changes of a pod can be asked about together.")
    return Question(
        pod=form.get("pod", "").strip(),
        manifest=manifest.replace("\r\n", "\n"),
        replicas=_number(form, "replicas", 1, MAX_REPLICAS),
        cpu=form.get("cpu", "").strip(),
        memory=form.get("memory", "").strip(),
        requests=requests,
        without=without,
        drain=_names(form.get("drain", "")),
        cordon=_names(form.get("cordon", "")),
        remove=_names(form.get("remove", "")),
        add=_number(form, "add", 0, MAX_REPLICAS),
        like=form.get("like", "").strip(),
        configuration=form.get("configuration", "").replace("\r\n", "\n"),
        preempt=form.get("preempt", "") == "yes",
        asked="ask" in form,
    )


def _number(form: Mapping[str, str], name: str, otherwise: int, most: int) -> int:
    text = form.get(name, "").strip()
    if not text:
        return otherwise
    if not text.isdecimal() or len(text) > 9 or int(text) > most:
        raise Declined(f"{name} has to be a number up to {most:,}, not {text[:40]!r}.")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.replace(",", " ").split()))


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for more than memory holds."""

    def compose_node(self, parent: Any, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


async def pod_of(cluster: Cluster, question: Question) -> Manifest | None:
    if question.manifest.strip():
        try:
            found = yaml.load(question.manifest, _PlainLoader)
        except (yaml.YAMLError, RecursionError) as error:
            where = getattr(error, "problem_mark", None)
            line = f" (line {where.line + 1})" if where else ""
            raise Declined(f"The manifest cannot be read{line}.") from error
        if not isinstance(found, dict) or found.get("kind") != "Pod":
            raise Declined("The manifest has to be one Pod.")
        try:
            return fresh(msgspec.json.decode(msgspec.json.encode(found)))
        except (TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Declined("The manifest has values that a Pod does not have.") from error
    if not question.pod:
        return None
    namespace, slash, name = question.pod.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise Declined("Name the pod by namespace/name.")
    return fresh(await cluster.pod(namespace, name))


def asked_pod(pod: Manifest, question: Question) -> Manifest:
    """The pod with the changes that the question makes to it."""
    each = {name: text for name, text in ((CPU, question.cpu), (MEMORY, question.memory)) if text}
    return changed_pod(pod, question.without, each, question.requests)


def review_for(question: Question, pod: Manifest | None) -> PlacementReview:
    added = (NodesToAdd(count=question.add, like=question.like),) if question.add else ()
    return PlacementReview(
        spec=PlacementReviewSpec(
            pods=() if pod is None else (msgspec.Raw(msgspec.json.encode(pod)),),
            replicas=max(question.replicas, 1),
            add_nodes=added,
            remove_nodes=question.remove,
            cordon_nodes=question.cordon,
            drain_nodes=question.drain,
            configuration=question.configuration if question.configuration.strip() else "",
            allow_preemption=question.preempt,
        )
    )


def fields_of(question: Question) -> list[tuple[str, str]]:
    """The form as it would be sent, without what is as by default."""
    found = [
        ("pod", question.pod),
        ("manifest", question.manifest),
        ("replicas", str(question.replicas) if question.replicas != 1 else ""),
        ("cpu", question.cpu),
        ("memory", question.memory),
        *(
            (f"{REQUEST}:{container}:{resource}", quantity)
            for (container, resource), quantity in question.requests.items()
        ),
        *(("without", one) for one in question.without),
        ("drain", " ".join(question.drain)),
        ("cordon", " ".join(question.cordon)),
        ("remove", " ".join(question.remove)),
        ("add", str(question.add) if question.add else ""),
        ("like", question.like),
        ("configuration", question.configuration),
        ("preempt", "yes" if question.preempt else ""),
    ]
    return [(name, value) for name, value in found if value.strip()] + [("ask", "1")]


def node_fields(question: Question) -> dict[str, str]:
    """The part of the form that is about nodes."""
    names = ("drain", "cordon", "remove", "add", "like")
    return {name: value for name, value in fields_of(question) if name in names}


def address_of(question: Question) -> str:
    """The question as an address; empty if it is too long for one."""
    text = f"what-if?{urlencode(fields_of(question))}"
    return text if len(text) <= MAX_ADDRESS else ""


def command_of(question: Question, flags: str) -> str:
    """Command line that asks the question, as far as flags can say it."""
    key = question.pod if not question.manifest.strip() else ""
    words = ["kscheduler", "what-if"]
    lead = ""
    if key and not question.changes_pod:
        namespace, _, name = key.partition("/")
        lead = f"kubectl get pod -n {shlex.quote(namespace)} {shlex.quote(name)} -o yaml | "
        words += ["-f", "-"]
    elif key or question.manifest.strip():
        # The changed pod is in the YAML below.
        words += ["-f", "review.yaml"]
        return shlex.join(words) + (f" {flags}" if flags else "")
    if question.replicas != 1:
        words += ["--replicas", str(question.replicas)]
    for flag, names in (
        ("--drain", question.drain),
        ("--cordon", question.cordon),
        ("--remove-nodes", question.remove),
    ):
        if names:
            words += [flag, ",".join(names)]
    if question.add:
        words += [
            "--add-nodes",
            f"{question.add}={question.like}" if question.like else str(question.add),
        ]
    if question.configuration.strip():
        words += ["--config", "configuration.yaml"]
    if question.preempt:
        words.append("--preempt")
    return lead + shlex.join(words) + (f" {flags}" if flags else "")


def yaml_of(review: PlacementReview, namespace: str) -> str:
    """The review as a manifest for `kubectl create -f - -o yaml`."""
    told = msgspec.json.decode(PLACEMENT_REVIEWS.encode(review))
    told.pop("status", None)
    told["metadata"] = {"namespace": namespace}
    ordered = {
        name: told[name] for name in ("apiVersion", "kind", "metadata", "spec") if name in told
    }
    return yaml.safe_dump(ordered, sort_keys=False, allow_unicode=True, width=100)
