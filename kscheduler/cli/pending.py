"""`kscheduler pending`: the pods that wait, what wakes them, and what would help most of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import click
import msgspec

from kscheduler.api.explanation import PENDING_PODS, PendingPod, Remedy
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
# Reasons of a summary for which the scheduler is asked what would help: each takes a review.
MAX_REVIEWS = 5

_REASONS = re.compile(r"^0/\d+ nodes are available: (.*?)\.?(?: preemption: .*)?$", re.DOTALL)
_NEXT_REASON = re.compile(r", (?=\d+ )")


class Reason(msgspec.Struct):
    """Pods that wait for one reason; a pod may wait for several."""

    text: str
    pods: list[PendingPod]
    remedy: Remedy | None = None


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
            show(summarised(pods, await reasons_of(question, pods), where(namespace)))
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
        rows = [(one.description, one.event, one.plugin) for one in pod.wakes_on]
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


def reasons_in(message: str) -> list[str]:
    """Reasons of a condition's message, without the numbers of nodes; or the message itself."""
    found = _REASONS.match(message)
    if found is None:
        return [message] if message else []
    texts = [one.strip().rstrip(".") for one in _NEXT_REASON.split(found[1])]
    return [text.partition(" ")[2] if text[:1].isdigit() else text for text in texts]


def grouped(pods: Sequence[PendingPod]) -> list[Reason]:
    """Reasons by the number of pods that wait for them, most first."""
    by_text: dict[str, list[PendingPod]] = defaultdict(list)
    for pod in pods:
        if pod.queue == "Gated":
            gates = pod.scheduling_gates
            texts = [f"scheduling gate {gate}" for gate in gates] or [
                f"held by {pod.gating_plugin}"
            ]
        else:
            texts = reasons_in(pod.message) or [f"{QUEUES.get(pod.queue, pod.queue)}"]
        for text in dict.fromkeys(texts):
            by_text[text].append(pod)
    return sorted(
        (Reason(text, found) for text, found in by_text.items()), key=lambda one: -len(one.pods)
    )


async def reasons_of(question: Question, pods: Sequence[PendingPod]) -> list[Reason]:
    """Reasons, the first few with the change that would help a pod that waits for it."""
    reasons = grouped(pods)
    asked: set[str] = set()
    for reason in reasons:
        rejected = [pod for pod in reason.pods if pod.unschedulable_plugins]
        example = next((pod for pod in rejected if pod.metadata.uid not in asked), None)
        if example is None or len(asked) == MAX_REVIEWS:
            continue
        asked.add(example.metadata.uid)
        metadata = example.metadata
        status = await review_now(question, metadata.namespace, metadata.name)
        if status is not None and status.remedies:
            reason.remedy = status.remedies[0]
    return reasons


def summarised(pods: Sequence[PendingPod], reasons: Sequence[Reason], place: str) -> Iterator[str]:
    yield wrapped(counts_of(pods, place))
    best = next((one for one in reasons if one.remedy is not None), None)
    if best is not None and best.remedy is not None:
        wait = "1 pod waits" if len(best.pods) == 1 else f"{len(best.pods):,} pods wait"
        nodes = counted(best.remedy.more_nodes, "more node")
        yield wrapped(
            f"Most would be freed by this: {wait} for “{best.text}”; {best.remedy.change}, {nodes} "
            f"could take a pod like {best.pods[0].metadata.name}."
        )
    rows = []
    for one in reasons:
        oldest = min(one.pods, key=_longest_first)
        remedy = f"{one.remedy.change} (+{one.remedy.more_nodes})" if one.remedy else ""
        rows.append(
            (
                str(len(one.pods)),
                one.text,
                age(oldest.metadata.creation_timestamp) or age(oldest.since),
                f"{oldest.metadata.namespace}/{oldest.metadata.name}",
                remedy,
            )
        )
    header = ("PODS", "REASON", "LONGEST", "EXAMPLE", "WOULD HELP (NODES)")
    yield table(header, rows, numbers=("PODS",))


def _longest_first(pod: PendingPod) -> tuple[str, str, str]:
    metadata = pod.metadata
    return metadata.creation_timestamp or pod.since or "~", metadata.namespace, metadata.name
