"""`kscheduler what-if`: would these pods fit, and what if nodes came, went or were emptied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from kscheduler.api.decode import DecodeError, convert
from kscheduler.api.explanation import (
    PLACEMENT_REVIEWS,
    SCHEDULED,
    NodesToAdd,
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
    ReviewedPlacement,
)
from kscheduler.api.resources import NODES
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
    print_object,
)
from kscheduler.cli.decision_view import ALL, FEW, MANY, candidates, rejections, remedy_text
from kscheduler.cli.manifests import Manifest, read_manifests, title
from kscheduler.cli.page import counted, listed, show, table, wrapped
from kscheduler.cli.reviewed_pods import ReviewedPod, pods_of
from kscheduler.client.errors import Invalid
from kscheduler.errors import KschedulerError
from kscheduler.gotext import files

# More pods than these are shown by node.
MAX_LISTED = 10
UNNAMED = f'{PLACEMENT_REVIEWS.kind}.{PLACEMENT_REVIEWS.group} "" is invalid: '


class Changes(msgspec.Struct, frozen=True):
    """Flags that say what is otherwise than it is."""

    drain: tuple[str, ...] = ()
    cordon: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    add: tuple[tuple[int, str], ...] = ()
    config: str = ""
    preempt: bool = False

    @property
    def any(self) -> bool:
        return self != Changes()


def _names(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Names by several flags, or with commas in one."""
    return tuple(name for text in texts for name in text.split(",") if name)


def _added(
    ctx: click.Context, param: click.Parameter, texts: Sequence[str]
) -> tuple[tuple[int, str], ...]:
    found = []
    for text in texts:
        count, _, like = text.partition("=")
        if not re.fullmatch("[1-9][0-9]{0,6}", count):
            raise click.BadParameter(
                f'"{text}" is not COUNT or COUNT=NODE, like 3=node-7', ctx, param
            )
        found.append((int(count), like))
    return tuple(found)


@click.command(cls=AskingCommand)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE",
    help="Pods, workloads or a PlacementReview: files, folders, or - for standard input; "
    "repeatable.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Place each so many times, instead of as often as a workload says.",
)
@click.option(
    "--drain", multiple=True, callback=_names, metavar="NODE", help="Empty these nodes first."
)
@click.option(
    "--cordon", multiple=True, callback=_names, metavar="NODE", help="Cordon these nodes first."
)
@click.option(
    "--remove-nodes",
    "remove",
    multiple=True,
    callback=_names,
    metavar="NODE",
    help="As if these nodes and their pods were gone.",
)
@click.option(
    "--add-nodes",
    "add",
    multiple=True,
    callback=_added,
    metavar="COUNT[=NODE]",
    help="As if so many more nodes were there, like NODE, or like most nodes.",
)
@click.option(
    "--config", default="", metavar="FILE", help="Decide by this KubeSchedulerConfiguration."
)
@click.option("--preempt", is_flag=True, help="Pods of lower priority may be evicted.")
@click.option("--all", "everything", is_flag=True, help="List every pod, and every node for it.")
@asking
def what_if(
    *,
    asker: Asker,
    filenames: tuple[str, ...],
    replicas: int | None,
    drain: tuple[str, ...],
    cordon: tuple[str, ...],
    remove: tuple[str, ...],
    add: tuple[tuple[int, str], ...],
    config: str,
    preempt: bool,
    everything: bool,
) -> None:
    """Would these pods fit, and where? Nothing is changed: a copy of the cluster decides.

    \b
        {me} -f pod.yaml --replicas 50            how many fit, and what stops the rest
        {me} --drain node-7                       where its pods would go
        {me} -f web.yaml --add-nodes 3=node-7     with three more nodes like node-7
        {me} -f web.yaml --config new.yaml        by another configuration
        {me} -f web.yaml --preempt                whom it would evict

    Exit code 0: all fit; 1: some do not; 2: an error.
    """
    if not filenames and not drain:
        raise click.UsageError("say what is to be placed: -f FILE, or --drain NODE")
    changes = Changes(drain, cordon, remove, add, _text_of(config), preempt)
    try:
        manifests = read_manifests(filenames)
    except click.ClickException as error:
        raise Failure(error.message) from error
    whole = [one for one in manifests if one["kind"] == PLACEMENT_REVIEWS.kind]
    if whole and (len(manifests) > 1 or changes.any or replicas):
        raise click.UsageError(
            f"{title(whole[0])} is a whole question: leave out other files and flags that change it"
        )
    if filenames and not manifests:
        raise Failure(f"{', '.join(filenames)}: there is no object in it.")
    pods, left_out = ([], []) if whole else pods_of(manifests, replicas)
    notes = [*(one.note for one in pods if one.note), *left_out]

    async def ask(question: Question) -> int:
        if whole:
            review = _read_review(whole[0])
        else:
            detail = "All" if everything else "Candidates" if question.output == WIDE else "Summary"
            review = PlacementReview(spec=await _spec(question, pods, changes, detail))
        namespace = review.metadata.namespace or question.namespace
        try:
            reviewed = await question.client.review(review, namespace)
        except Invalid as error:
            # The review is ours, and has no name: what is wrong is a field of it.
            raise Failure(str(error).removeprefix(UNNAMED)) from error
        status = reviewed.status
        if question.is_for_programs:
            print_object(question.output, PLACEMENT_REVIEWS, reviewed)
        else:
            wide = question.output == WIDE
            show(answered(status, notes, wide=wide, everything=everything))
        return YES if status.fits else NO

    answer(asker, ask)


def _text_of(path: str) -> str:
    if not path:
        return ""
    try:
        return files.read(path).decode()
    except (KschedulerError, UnicodeDecodeError) as error:
        raise Failure(f"--config {path}: {error}") from error


def _read_review(manifest: Manifest) -> PlacementReview:
    try:
        return convert(manifest, PlacementReview)
    except DecodeError as error:
        raise Failure(f"{title(manifest)}: {error}") from error


async def _spec(
    question: Question, pods: Sequence[ReviewedPod], changes: Changes, detail: str
) -> PlacementReviewSpec:
    counts = {one.replicas for one in pods}
    # One number for all is said once; different ones are written out, pod by pod.
    replicas = counts.pop() if len(counts) == 1 else 0
    wanted = [
        _named(one.manifest, number if not replicas and one.replicas > 1 else None)
        for one in pods
        for number in range(1 if replicas else one.replicas)
    ]
    if pods and (replicas == 0 and not wanted):
        raise Failure("There is no pod to place: all replicas are 0; say --replicas N.")
    added = []
    for count, like in changes.add:
        added.append(NodesToAdd(count=count, like=like or await _usual_node(question)))
    return PlacementReviewSpec(
        pods=tuple(msgspec.Raw(msgspec.json.encode(one)) for one in wanted),
        replicas=max(replicas, 1),
        add_nodes=tuple(added),
        remove_nodes=changes.remove,
        cordon_nodes=changes.cordon,
        drain_nodes=changes.drain,
        configuration=changes.config,
        allow_preemption=changes.preempt,
        detail=detail,
    )


def _named(pod: Manifest, number: int | None) -> Manifest:
    if number is None:
        return pod
    metadata = pod["metadata"]
    name = f"{metadata.get('name', 'pod')}-{number}"
    return pod | {"metadata": metadata | {"name": name}}


class _Nodes(msgspec.Struct):
    class Node(msgspec.Struct):
        metadata: dict[str, Any]
        status: dict[str, Any] = {}

    items: list[Node] = []


async def _usual_node(question: Question) -> str:
    """A node of the shape that most nodes have."""
    if question.client.api is None:
        raise Failure("--add-nodes: say which node the new ones are like: COUNT=NODE.")
    found = msgspec.json.decode(await question.client.api.list(NODES), type=_Nodes).items
    if not found:
        raise Failure("--add-nodes: there is no node that new ones could be like.")
    shapes = [msgspec.json.encode(one.status.get("capacity"), order="sorted") for one in found]
    ((usual, _),) = Counter(shapes).most_common(1)
    return str(found[shapes.index(usual)].metadata["name"])


def answered(
    status: PlacementReviewStatus,
    notes: Sequence[str],
    *,
    wide: bool,
    everything: bool,
) -> Iterator[str]:
    """The answer in blocks: the sentence, what would help, where the pods go."""
    yield wrapped(status.summary)
    if status.remedies:
        yield listed("What would help:", map(remedy_text, status.remedies))
    placements, message = status.placements, status.message
    if len(placements) <= MAX_LISTED or everything:
        yield by_pod(placements)
        message = _beside_the_table(message, placements)
    else:
        yield by_node(placements, MANY if wide else FEW)
    yield evicted(placements)
    if wide or everything:
        rows = ALL if everything else FEW
        for one in placements if everything else placements[:MAX_LISTED]:
            yield from _explained(one, rows)
    if message:
        yield wrapped(message)
    yield from map(wrapped, notes)
    if status.partial:
        yield wrapped("This is a partial view: node names take the right to list nodes.")


def _beside_the_table(message: str, placements: Sequence[ReviewedPlacement]) -> str:
    """The message without the refusal of a pod, with which a note in the table ends."""
    for one in placements:
        said = one.message.rstrip(".").split("; ")
        for start in range(len(said)):
            refusal = f"{one.namespace}/{one.name}: {'; '.join(said[start:])}."
            if message.startswith(refusal):
                return message[len(refusal) :].lstrip()
    return message


def by_pod(placements: Sequence[ReviewedPlacement]) -> str:
    if not placements:
        return ""
    rows = [
        (f"{one.namespace}/{one.name}", one.node, one.outcome, one.message) for one in placements
    ]
    return table(("POD", "NODE", "OUTCOME", "NOTE"), rows)


def by_node(placements: Sequence[ReviewedPlacement], most: int) -> str:
    """How many pods each node would get; the fullest first."""
    counts = Counter(one.node for one in placements if one.outcome == SCHEDULED)
    shown = counts.most_common(most)
    if not shown:
        return ""
    text = table(("NODE", "PODS"), [(node, str(count)) for node, count in shown], numbers=("PODS",))
    if len(counts) > len(shown):
        text += f"\nand {counted(len(counts) - len(shown), 'more node')} (--all lists every pod)"
    return text


def evicted(placements: Sequence[ReviewedPlacement]) -> str:
    rows = [
        (
            f"{victim.namespace}/{victim.name}" if victim.name else "(not to be named)",
            str(victim.priority),
            one.node,
            f"{one.namespace}/{one.name}",
            "violated" if victim.violates_budget else "",
        )
        for one in placements
        for victim in one.victims
    ]
    if not rows:
        return ""
    return table(("EVICTED", "PRIORITY", "NODE", "FOR", "BUDGET"), rows, numbers=("PRIORITY",))


def _explained(placement: ReviewedPlacement, rows: int) -> Iterator[str]:
    attempt = placement.explanation
    if attempt is None:
        return
    texts = []
    if attempt.scores is not None:
        texts.append(candidates(attempt.scores, placement.node, rows, wide=True))
    texts.append(rejections(attempt.rejections))
    found = "\n".join(filter(None, texts))
    if found:
        yield f"{placement.namespace}/{placement.name}:\n{found}"
