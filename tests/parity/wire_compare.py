"""Requests that were recorded against requests that were seen."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from tests.parity.wire_match import Matcher
from tests.parity.wire_scenario import (
    EVENTS,
    EXTENDER,
    FOLLOW,
    LEASE,
    OTHER,
    Request,
    Scenario,
    Thread,
)

COMPARED_HEADERS = ("accept", "content-type")


def compare(
    scenario: Scenario,
    recorded: Iterable[Request],
    seen: Iterable[Request],
    literals: Mapping[str, str],
) -> Iterator[str]:
    """Every difference, one line each."""
    matcher = Matcher(literals)
    wanted, got = _threads(recorded), _threads(filter(scenario.belongs, seen))
    for thread in sorted(wanted | got):
        yield from _in_thread(matcher, wanted.get(thread, []), got.get(thread, []))
    if scenario.shows_start_up:
        yield from _out_of_turn(got)


def _threads(requests: Iterable[Request]) -> dict[Thread, list[Request]]:
    threads: dict[Thread, list[Request]] = {}
    for request in requests:
        threads.setdefault(request.thread, []).append(request)
    return {
        thread: _told_twice_at_most(requests) if thread[0] == LEASE else requests
        for thread, requests in threads.items()
    }


def _told_twice_at_most(requests: list[Request]) -> list[Request]:
    """How many polls and renewals fall into a waiting time is chance; that some do is not."""
    kept: list[Request] = []
    for request in requests:
        if len(kept) < 2 or not (_sort(kept[-1]) == _sort(kept[-2]) == _sort(request)):
            kept.append(request)
    return kept


def _sort(request: Request) -> object:
    spec = (request.body or {}).get("spec", {})
    holder, transitions = spec.get("holderIdentity"), spec.get("leaseTransitions")
    return (request.method, request.path, request.status, holder, transitions)


def _in_thread(matcher: Matcher, wanted: list[Request], got: list[Request]) -> Iterator[str]:
    for one, other in zip(wanted, got, strict=False):
        for difference in _in_request(matcher, one, other):
            yield f"{other}: {difference}"
    for request in wanted[len(got) :]:
        yield f"{request}: not sent ({request.body})"
    for request in got[len(wanted) :]:
        yield f"{request}: sent, but not recorded ({request.body})"
    yield from _strange_series(got)


def _in_request(matcher: Matcher, wanted: Request, got: Request) -> Iterator[str]:
    target = [*matcher.differences(wanted.path, got.path, "path")]
    if target or wanted.method != got.method:
        yield f"sent instead of {wanted}"
        return
    if wanted.client != got.client:
        yield f"client: {got.client} instead of {wanted.client}"
    yield from matcher.differences(_with_duration(wanted.query, got.query), got.query, "query")
    for header in COMPARED_HEADERS:
        if header in wanted.headers:
            yield from matcher.differences(
                wanted.headers[header], got.headers.get(header, ""), header
            )
    # What is written back is as it was read, in whatever order the server keeps its fields.
    echoed = wanted.method == "PUT" or wanted.thread[0] == EXTENDER
    yield from matcher.differences(wanted.body, got.body, "body", ordered=not echoed)
    if isinstance(wanted.status, int) and got.status is not None and wanted.status != got.status:
        yield f"answered {got.status} instead of {wanted.status}"
    if not _about_lease(wanted) and wanted.after_step != got.after_step:
        yield f"sent after step {got.after_step} instead of {wanted.after_step}"


def _about_lease(request: Request) -> bool:
    """Renewals go on whatever else happens."""
    kind, _, name = request.thread
    return kind == LEASE or (kind == EVENTS and name == "kube-scheduler")


def _with_duration(wanted: Mapping[str, str], got: Mapping[str, str]) -> Mapping[str, str]:
    """The same number of seconds stands twice in a watch's query, once as Go writes durations."""
    if wanted.get("timeout") != "@SAME_AS_TIMEOUTSECONDS@" or "timeoutSeconds" not in got:
        return wanted
    minutes, seconds = divmod(int(got["timeoutSeconds"]), 60)
    return {**wanted, "timeout": f"{minutes}m{seconds}s"}


def _strange_series(events: list[Request]) -> Iterator[str]:
    """A series goes on where an event that was told began it."""
    told = {request.body["metadata"]["name"] for request in events if _tells(request)}
    for request in events:
        name = request.path.rpartition("/")[2]
        if request.thread[0] == EVENTS and request.method == "PATCH" and name not in told:
            yield f"{request}: goes on with an event that was never told"


def _tells(request: Request) -> bool:
    return request.thread[0] == EVENTS and request.method == "POST"


def _out_of_turn(threads: Mapping[Thread, list[Request]]) -> Iterator[str]:
    """Start-up has three acts: discovery, all collections, and only then the lease."""
    acts = (OTHER, FOLLOW, LEASE)
    arrivals: dict[str, list[int]] = {}
    for (kind, _, _), requests in threads.items():
        arrivals.setdefault(kind, []).extend(request.arrival for request in requests)
    for before, after in pairwise(acts):
        if after in arrivals and max(arrivals[before]) > min(arrivals[after]):
            yield f"a {after} request came before the last {before} request"
