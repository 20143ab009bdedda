"""Names of resources: their kinds, and whether the scheduler counts them."""

from kscheduler.api.validation import LONGEST_LABEL_KEY, label_key_errors
from kscheduler.caches import ForShortTexts

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
STORAGE = "storage"
PODS = "pods"

HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
DEFAULT_NAMESPACE_PREFIX = "kubernetes.io/"
REQUESTS_PREFIX = "requests."

_remember = ForShortTexts("resource_names", entries=2048, longest=LONGEST_LABEL_KEY)
CACHES = (_remember,)


def is_hugepages(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def is_attachable_volumes(name: str) -> bool:
    return name.startswith(ATTACHABLE_VOLUMES_PREFIX)


def is_prefixed_native(name: str) -> bool:
    """Anywhere in the name: `sub.kubernetes.io/x` is native as well."""
    return DEFAULT_NAMESPACE_PREFIX in name


def is_native(name: str) -> bool:
    """Whether a name is in the kubernetes.io namespace, as unprefixed names are by implication."""
    return "/" not in name or is_prefixed_native(name)


@_remember
def is_extended(name: str) -> bool:
    """`vendor.com/gpu`: outside the default namespace and well-formed."""
    if is_native(name) or name.startswith(REQUESTS_PREFIX):
        return False
    return not label_key_errors(REQUESTS_PREFIX + name)


@_remember
def is_scalar(name: str) -> bool:
    """Counted in whole units beside cpu, memory and ephemeral-storage; others are ignored."""
    return (
        is_hugepages(name)
        or is_prefixed_native(name)
        or is_attachable_volumes(name)
        or is_extended(name)
    )


@_remember
def is_counted(name: str) -> bool:
    """Whether a node's or pod's amount of this resource matters to scheduling at all."""
    return name in (CPU, MEMORY, EPHEMERAL_STORAGE, PODS) or is_scalar(name)


def is_pod_level(name: str) -> bool:
    """Whether a pod may ask for it as a whole (`spec.resources`)."""
    return name in (CPU, MEMORY) or is_hugepages(name)
