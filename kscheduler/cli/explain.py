"""`kscheduler explain` and `why-not`: why a pod is where it is, or is not anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
import msgspec

from kscheduler.api.explanation import (
    DECISIONS,
    PENDING_PODS,
    PLACEMENT_REVIEWS,
    SCHEDULED,
    AttemptRecord,
    Decision,
    PendingPod,
    PlacementReview,
    PlacementReviewSpec,
    PlacementReviewStatus,
)
from kscheduler.api.pod_questions import fresh, limited_to
from kscheduler.api.resources import Resource
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
from kscheduler.cli.decision_view import explained
from kscheduler.cli.node_view import about_node, fits, narrowed, node_explained, node_now
from kscheduler.cli.page import answer_about, show, tamed
from kscheduler.client.errors import ApiError, NotFound

attempt_option = click.option(
    "--attempt",
    "number",
    type=click.IntRange(min=1),
    default=None,
    metavar="K",
    help="Tell of this attempt instead of the last; the first and the last are kept.",
)


@click.command(cls=AskingCommand)
@click.argument("pod")
@click.option("--node", default="", help="Tell of this node only, as why-not does.")
@attempt_option
@click.option("--all", "every_node", is_flag=True, help="List every node.")
@asking
def explain(*, asker: Asker, pod: str, node: str, number: int | None, every_node: bool) -> None:
    """Why POD is where it is, or why it waits and what would help.

    POD is NAME, pod/NAME or NAMESPACE/NAME.

    \b
        {me} web-0                     one sentence, and the best candidates
        {me} web-0 -o wide             scores of all plugins, reasons with counts
        {me} web-0 --all               every node
        {me} web-0 --node node-7       this node only
        {me} web-0 -o json             the Decision, as the API has it

    Exit code 0: it is placed; 1: it is not; 2: an error.
    """
    if node:
        answer(asker, lambda question: about_one_node(question, pod, node, number))
    answer(asker, lambda question: about_pod(question, pod, number, every_node=every_node))


@click.command(cls=AskingCommand)
@click.argument("pod")
@click.argument("node")
@attempt_option
@asking
def why_not(*, asker: Asker, pod: str, node: str, number: int | None) -> None:
    """Why POD is not on NODE: which plugin rejected it, or by how much it scored lower.

    \b
        {me} web-0 node-7
        {me} shop/web-0 node-7 -o yaml

    If the record has no numbers of this node, or the node was never looked at, the scheduler is
    asked what it would say now. Exit code 0: the node can take it; 1: it cannot; 2: an error.
    """
    answer(asker, lambda question: about_one_node(question, pod, node, number))


class Explanation(msgspec.Struct, frozen=True):
    """The answer about a pod: as the API has it, and in blocks of text for people."""

    resource: Resource
    item: Decision | PendingPod
    is_placed: bool = False
    blocks: Sequence[str] = ()


async def about_pod(question: Question, text: str, number: int | None, *, every_node: bool) -> int:
    namespace, name = question.pod(text)
    found = await explanation_of(question, namespace, name, number, every_node=every_node)
    if question.is_for_programs:
        print_object(question.output, found.resource, found.item)
    else:
        show(found.blocks)
    return YES if found.is_placed else NO


def _complain(sentence: str) -> None:
    click.echo(sentence, err=True)


async def explanation_of(
    question: Question,
    namespace: str,
    name: str,
    number: int | None = None,
    *,
    every_node: bool = False,
    complain: Callable[[str], None] = _complain,
) -> Explanation:
    """Why a pod is where it is, or waits; `complain` gets what could not be asked besides."""
    try:
        decision = await question.client.decision(namespace, name)
    except NotFound as missing:
        waiting = await _waiting_without_decision(question, namespace, name, missing)
        sentence = answer_about(f"{namespace}/{name}", waiting.summary)
        return Explanation(PENDING_PODS, waiting, blocks=(sentence,))
    attempt = _attempt(decision, number)
    is_placed = attempt.outcome == SCHEDULED
    if question.is_for_programs:
        return Explanation(DECISIONS, decision, is_placed)
    pending, review = None, None
    if not is_placed:
        pending = await _pending(question, namespace, name)
        review = await review_now(question, namespace, name, complain=complain)
    wide = question.output == WIDE
    blocks = explained(decision, attempt, pending, review, wide=wide, every_node=every_node)
    return Explanation(DECISIONS, decision, is_placed, tuple(blocks))


async def about_one_node(question: Question, text: str, node: str, number: int | None) -> int:
    namespace, name = question.pod(text)
    try:
        decision = await question.client.decision(namespace, name)
    except NotFound:
        now = await review_now(question, namespace, name, node)
        if now is None:
            return await about_pod(question, text, number, every_node=False)
        await _need_node(question, node)
        if question.is_for_programs:
            print_object(question.output, PLACEMENT_REVIEWS, PlacementReview(status=now))
        else:
            show(node_now(f"{namespace}/{name}", node, now))
        return YES if now.fits else NO
    attempt = _attempt(decision, number)
    about = about_node(attempt, node)
    if not about.was_looked_at:
        await _need_node(question, node)
    now = None
    if not about.is_chosen and about.score is None and number is None:
        # The record may lack the numbers of this very node, and the cluster goes on.
        now = await review_now(question, namespace, name, node)
    if question.is_for_programs:
        print_object(question.output, DECISIONS, narrowed(decision, attempt, node))
    else:
        show(node_explained(decision, attempt, node, now))
    return YES if fits(about, attempt, now) else NO


async def _need_node(question: Question, node: str) -> None:
    if not await question.client.has_node(node):
        raise Failure(f'There is no node "{node}"; `kubectl get nodes` lists those that there are.')


async def review_now(
    question: Question,
    namespace: str,
    name: str,
    node: str = "",
    *,
    complain: Callable[[str], None] = _complain,
) -> PlacementReviewStatus | None:
    """Review of a pod like this one now, on this node or anywhere.

    None if the pod or the answer cannot be had, which is told beside the answer: whoever asks may
    have fewer rights than that.
    """
    try:
        manifest = await question.client.pod(namespace, name)
        if manifest is None:
            return None
        pod = fresh(msgspec.json.decode(manifest))
        if node:
            pod = limited_to(pod, node)
        spec = PlacementReviewSpec(
            pods=(msgspec.Raw(msgspec.json.encode(pod)),), detail="All" if node else "Summary"
        )
        return (await question.client.review(PlacementReview(spec=spec), namespace)).status
    except ApiError as error:
        complain(tamed(f"Not asked what would be now: {error}"))
        return None


async def _pending(question: Question, namespace: str, name: str) -> PendingPod | None:
    try:
        return await question.client.pending_pod(namespace, name)
    except ApiError:
        return None


async def _waiting_without_decision(
    question: Question, namespace: str, name: str, missing: NotFound
) -> PendingPod:
    """A pod without a record: not tried yet; Failure if it was decided elsewhere or long ago, or is
    not there at all.
    """
    subject = f"{namespace}/{name}"
    pending = await _pending(question, namespace, name)
    if pending is not None:
        return pending
    stored = await question.client.pod(namespace, name)
    if stored is None:
        raise Failure(
            f"{missing}. Say -n NAMESPACE, or NAMESPACE/NAME, for a pod of another namespace."
        ) from missing
    node = (msgspec.json.decode(stored).get("spec") or {}).get("nodeName")
    where = f"is on {node}" if node else "is on no node"
    raise Failure(
        f"{subject} {where}, and {question.client.way} has no record of that: {missing}."
    ) from missing


def _attempt(decision: Decision, number: int | None) -> AttemptRecord:
    """The attempt that is asked for; only the first and the last are kept whole."""
    last = decision.last or AttemptRecord()
    first = decision.first or last
    if number is None or number == last.number:
        return last
    if number == first.number:
        return first
    kept = f"{first.number} and {last.number}" if first is not last else f"{last.number}"
    raise Failure(
        f"Attempt {number} is not kept: of {decision.attempts}, {kept} can be told of; the others "
        "are counted by how they ended (-o wide)."
    )
