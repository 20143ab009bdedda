"""`kscheduler pending`: the pods that wait, what wakes them, and what would help most of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import click
import msgspec

from kscheduler.api.explanation import PENDING_PODS, PendingPod, Remedy
from kscheduler.api.pod_questions import reasons_in
from kscheduler.cli.asking import (
    NO,
    WIDE,
    YES,
    Asker,
    AskingCommand,
    Failure,
    Question,
    answer,
    asking,
    print_list,
    print_object,
)
from kscheduler.cli.explain import review_now
from kscheduler.cli.page import age, answer_about, counted, joined, show, table, wrapped
from kscheduler.client.errors import NotFound

# Queues in the order in which a pod is nearer to its node, with what pods there are called.
QUEUES = {
    "Binding": "being bound",
    "InFlight": "being tried",
    "Active": "next in turn",
    "BackingOff": "backing off",
    "Unschedulable": "unschedulable",
    "Gated": "gated",
}
# Groups of a summary that are shown, and those for which the scheduler is asked what would help:
# each takes a review.
MAX_GROUPS = 20
MAX_REVIEWS = 5


class Alike(msgspec.Struct):
    """Pods that wait for the same reasons, and what would help the one that waits longest."""

    reasons: str
    pods: list[PendingPod]
    remedy: Remedy | None = None

    @property
    def oldest(self) -> PendingPod:
        return min(self.pods, key=_longest_first)


@click.command(cls=AskingCommand)
@click.argument("pod", default="")
@click.option("--summary", is_flag=True, help="Count pods by reason, and say what would help.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", help="Of pods with these labels only.")
@click.option("--field-selector", default="", help="Like queue=Unschedulable.")
@asking
def pending(
    *,
    asker: Asker,
    pod: str,
    summary: bool,
    everywhere: bool,
    selector: str,
    field_selector: str,
) -> None:
    """Pods that wait for a node: where, since when, why, and what wakes them.

    \b
        {me}                           pods of this namespace
        {me} -A --summary              all pods by reason, and what would free most of them
        {me} web-0                     one pod, and the events that wake it
        {me} --field-selector queue=Gated

    Exit code 0: no pod waits; 1: some do; 2: an error.
    """
    if pod:
        if summary or everywhere or selector or field_selector:
            raise click.UsageError("POD stands alone: leave out -A, -l and --summary")
        answer(asker, lambda question: about_pod(question, pod))

    async def about_all(question: Question) -> int:
        namespace = "" if everywhere else question.namespace
        pods = await question.client.pending_pods(
            namespace, field_selector=field_selector, label_selector=selector
        )
        if question.is_for_programs:
            print_list(question.output, PENDING_PODS, pods)
        elif summary and pods:
            show(summarised(pods, await groups_of(question, pods), where(namespace)))
        else:
            show(overview(pods, where(namespace), wide=question.output == WIDE))
        return NO if pods else YES

    answer(asker, about_all)


async def about_pod(question: Question, text: str) -> int:
    namespace, name = question.pod(text)
    subject = f"{namespace}/{name}"
    try:
        pod = await question.client.pending_pod(namespace, name)
    except NotFound:
        stored = await question.client.pod(namespace, name)
        if stored is None:
            raise Failure(f"{subject}: no such pod waits, and none is known.") from None
        node = (msgspec.json.decode(stored).get("spec") or {}).get("nodeName")
        if not node:
            raise Failure(
                f"{subject} is on no node, and {question.client.way} does not know it: another "
                "scheduler is responsible for it, or it has just been created."
            ) from None
        show([wrapped(f"{subject} does not wait: it is on {node}.")])
        return YES
    if question.is_for_programs:
        print_object(question.output, PENDING_PODS, pod)
        return NO
    show(one_pod(pod))
    return NO


def one_pod(pod: PendingPod) -> Iterator[str]:
    yield answer_about(f"{pod.metadata.namespace}/{pod.metadata.name}", pod.summary)
    if pod.message:
        yield wrapped(f"The last attempt said: {pod.message}")
    if pod.wakes_on:
        plugins: dict[tuple[str, str], list[str]] = defaultdict(list)
        for one in pod.wakes_on:
            plugins[one.description, one.event].append(one.plugin)
        rows = [(*event, ", ".join(filter(None, names))) for event, names in plugins.items()]
        yield table(("IT IS TRIED AGAIN WHEN", "EVENT", "FOR"), rows)


def where(namespace: str) -> str:
    return f"in {namespace}" if namespace else "in the cluster"


def overview(pods: Sequence[PendingPod], place: str, *, wide: bool) -> Iterator[str]:
    yield wrapped(counts_of(pods, place))
    if not pods:
        return
    spaces = {pod.metadata.namespace for pod in pods}
    rows = [
        (
            pod.metadata.namespace if len(spaces) > 1 else "",
            pod.metadata.name,
            pod.queue,
            str(pod.attempts),
            age(pod.metadata.creation_timestamp) or age(pod.since),
            str(pod.priority) if wide else "",
            pod.scheduler_name if wide else "",
            pod.nominated_node if wide else "",
            (pod.message or pod.summary) if wide else short_reason(pod),
        )
        for pod in sorted(pods, key=_longest_first)
    ]
    header = (
        *("NAMESPACE", "NAME", "QUEUE", "ATTEMPTS", "AGE"),
        *("PRIORITY", "SCHEDULER", "NOMINATED", "REASON"),
    )
    yield table(header, rows, numbers=("ATTEMPTS", "PRIORITY"))


def counts_of(pods: Sequence[PendingPod], place: str) -> str:
    if not pods:
        return f"No pod waits {place}."
    by_queue = {name: sum(pod.queue == name for pod in pods) for name in QUEUES}
    parts = [f"{count:,} {QUEUES[name]}" for name, count in by_queue.items() if count]
    wait = "waits" if len(pods) == 1 else "wait"
    return f"{counted(len(pods), 'pod')} {wait} {place}: {joined(parts)}."


def short_reason(pod: PendingPod) -> str:
    """Why it waits, in a few words."""
    if pod.queue == "Gated":
        return ", ".join(pod.scheduling_gates) or pod.gating_plugin
    return ", ".join(reasons_in(pod.message)) or ", ".join(
        (*pod.unschedulable_plugins, *pod.pending_plugins)
    )


def grouped(pods: Sequence[PendingPod]) -> list[Alike]:
    """Pods by their reasons, most first."""
    by_reasons: dict[str, list[PendingPod]] = defaultdict(list)
    for pod in pods:
        if pod.queue == "Gated":
            gates = ", ".join(pod.scheduling_gates)
            text = f"scheduling gates: {gates}" if gates else f"held by {pod.gating_plugin}"
        else:
            text = ", ".join(reasons_in(pod.message)) or QUEUES.get(pod.queue, pod.queue)
        by_reasons[text].append(pod)
    found = [Alike(text, alike) for text, alike in by_reasons.items()]
    return sorted(found, key=lambda one: -len(one.pods))


async def groups_of(question: Question, pods: Sequence[PendingPod]) -> list[Alike]:
    """Pods by their reasons, the largest groups with the change that would help one of them."""
    groups = grouped(pods)
    rejected = [one for one in groups if one.oldest.unschedulable_plugins]
    for group in rejected[:MAX_REVIEWS]:
        metadata = group.oldest.metadata
        status = await review_now(question, metadata.namespace, metadata.name)
        if status is not None and status.remedies:
            group.remedy = status.remedies[0]
    return groups


def summarised(pods: Sequence[PendingPod], groups: Sequence[Alike], place: str) -> Iterator[str]:
    sentence = counts_of(pods, place)
    best = next((one for one in groups if one.remedy is not None), None)
    if best is not None and best.remedy is not None:
        metadata, count = best.oldest.metadata, len(best.pods)
        nodes = counted(best.remedy.more_nodes, "node")
        alike = f"; {count:,} wait for the same reasons" if count > 1 else ""
        sentence += (
            f" The change that would free most: {best.remedy.change}, {nodes} could take "
            f"{metadata.namespace}/{metadata.name}{alike}."
        )
    yield wrapped(sentence)
    rows = []
    for one in groups[:MAX_GROUPS]:
        metadata = one.oldest.metadata
        rows.append(
            (
                str(len(one.pods)),
                age(metadata.creation_timestamp) or age(one.oldest.since),
                f"{metadata.namespace}/{metadata.name}",
                one.reasons,
                f"{one.remedy.change} (+{counted(one.remedy.more_nodes, 'node')})"
                if one.remedy
                else "",
            )
        )
    header = ("PODS", "LONGEST", "LIKE", "REASONS", "WOULD HELP IT")
    text = table(header, rows, numbers=("PODS",))
    if len(groups) > MAX_GROUPS:
        text += f"\nand {counted(len(groups) - MAX_GROUPS, 'more group')}"
    yield text


def _longest_first(pod: PendingPod) -> tuple[str, str, str]:
    metadata = pod.metadata
    return metadata.creation_timestamp or pod.since or "~", metadata.namespace, metadata.name
