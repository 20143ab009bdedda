"""Where the leading scheduler can be asked, as it says itself in annotations of its Lease."""

from collections.abc import Sequence

import msgspec

from kscheduler.api.decode import decoder_for
from kscheduler.api.explanation import (
    ADDRESS_ANNOTATION,
    CERTIFICATE_ANNOTATION,
    POD_ANNOTATION,
    PORT_ANNOTATION,
)
from kscheduler.api.meta import ApiStruct
from kscheduler.api.resources import LEASES
from kscheduler.api.small_groups import Lease
from kscheduler.client.errors import ApiError, Forbidden, NotFound
from kscheduler.client.kube_client import KubeClient, of_answers
from kscheduler.errors import KschedulerError

# Where schedulers keep their Leases, and the name to try where listing is forbidden: those of our
# own manifests, and of kube-scheduler.
PLACES = (("kscheduler", "kscheduler"), ("kube-system", "kube-scheduler"))
MAX_PORT = 65535


class UnreachableError(KschedulerError):
    """No scheduler could be asked; the text says what was tried and what would do."""


class AmbiguousError(UnreachableError):
    """Several schedulers could be asked, and nothing says which."""


class Location(msgspec.Struct, frozen=True):
    """Where the holder of a Lease can be asked; `address` is host:port, `pod` namespace/name."""

    lease: str
    pod: str = ""
    port: int = 0
    address: str = ""
    certificate_sha256: str = ""


class _Leases(ApiStruct):
    items: tuple[Lease, ...] = ()


_decode_lease = of_answers(decoder_for(Lease))
_decode_leases = of_answers(decoder_for(_Leases))


def location_of(lease: Lease) -> Location | None:
    """None if nobody holds the Lease, or its holder does not say where to ask."""
    said = lease.metadata.annotations
    pod, port = said.get(POD_ANNOTATION, ""), said.get(PORT_ANNOTATION, "")
    address = said.get(ADDRESS_ANNOTATION, "")
    by_pod = all(pod.partition("/")) and _is_port(port)
    if not lease.spec.holder_identity or not (address or by_pod):
        return None
    return Location(
        lease=f"{lease.metadata.namespace}/{lease.metadata.name}",
        pod=pod if by_pod else "",
        port=int(port) if by_pod else 0,
        address=address,
        certificate_sha256=said.get(CERTIFICATE_ANNOTATION, ""),
    )


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) <= MAX_PORT


async def find_scheduler(api: KubeClient, lease: str = "") -> Location:
    """The scheduler that holds this Lease (`namespace/name`), or the only one there is."""
    if lease:
        return await _holder_of(api, lease)
    found: list[Location] = []
    forbidden = False
    for namespace, name in PLACES:
        try:
            leases: Sequence[Lease] = _decode_leases(await api.list(LEASES, namespace)).items
        except Forbidden:
            try:
                leases = [_decode_lease(await api.get(LEASES, name, namespace))]
            except NotFound:
                continue
            except Forbidden:
                forbidden = True
                continue
        found += filter(None, map(location_of, leases))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(one.lease for one in found))
        raise AmbiguousError(
            f"Several schedulers can be asked, by these Leases: {names}. "
            "Choose one with --lease NAMESPACE/NAME."
        )
    places = " and ".join(namespace for namespace, _ in PLACES)
    if forbidden:
        raise UnreachableError(
            f"Leases of schedulers cannot be read: that takes the right to list leases in {places}."
        )
    raise UnreachableError(
        f"No Lease in {places} says where a kscheduler can be asked; "
        "if its Lease is elsewhere, say --lease NAMESPACE/NAME."
    )


async def _holder_of(api: KubeClient, lease: str) -> Location:
    namespace, slash, name = lease.partition("/")
    if not (namespace and slash and name):
        raise UnreachableError(f'--lease has to be NAMESPACE/NAME, not "{lease}".')
    try:
        found = _decode_lease(await api.get(LEASES, name, namespace))
    except ApiError as error:
        raise UnreachableError(f"Lease {lease} cannot be read: {error}") from error
    location = location_of(found)
    if location is None:
        held = "is held by nobody" if not found.spec.holder_identity else "does not say where"
        raise UnreachableError(
            f"Lease {lease} {held}: a kscheduler that leads by it would write {PORT_ANNOTATION} "
            "and the like to its annotations."
        )
    return location
