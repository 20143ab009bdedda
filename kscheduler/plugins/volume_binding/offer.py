"""What a volume offers, and what a claim asks for."""

from __future__ import annotations

from typing import NamedTuple

from kscheduler.api import quantity
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.csi_translation import TranslationError, migration_of, translated
from kscheduler.api.labels import EVERYTHING, Selector, SelectorError, compile_selector
from kscheduler.api.volume_claims import STORAGE, requested_storage
from kscheduler.errors import KschedulerError
from kscheduler.plugins.volume_binding.reach import Reach, reach_of

FILESYSTEM = "Filesystem"


class ClaimError(KschedulerError):
    """Raised for a claim that cannot be understood."""


class Offer(NamedTuple):
    """What a volume is, as far as claims ask; whom it is bound to is not part of it."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    reach: Reach | None
    # The plugin it came from, the name of which nodes list once they use its driver instead; the
    # demands of that driver; and what is wrong with them.
    migrated_from: str = ""
    migrated_reach: Reach | None = None
    migration_problem: str = ""

    @property
    def size_bytes(self) -> int:
        return quantity.whole(self.size_nanos)


class Demand(NamedTuple):
    """What a claim asks of its volume."""

    size_nanos: int
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    selector: Selector

    def is_kept_by(self, offer: Offer) -> bool:
        """Whether a volume that was kept for the claim will do; then less is asked of it."""
        return (
            offer.size_nanos >= self.size_nanos
            and offer.mode == self.mode
            and offer.attributes_class == self.attributes_class
        )


def offer_of(volume: PersistentVolume) -> Offer:
    spec = volume.spec
    offer = Offer(
        size_nanos=quantity.nano_value(spec.capacity.get(STORAGE, 0)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        reach=reach_of(volume),
    )
    migration = migration_of(volume)
    if migration is None:
        return offer
    try:
        moved = translated(volume, migration)
    except TranslationError as error:
        return offer._replace(migrated_from=migration.plugin, migration_problem=str(error))
    return offer._replace(migrated_from=migration.plugin, migrated_reach=reach_of(moved))


def demand_of(claim: PersistentVolumeClaim) -> Demand:
    spec = claim.spec
    try:
        selector = EVERYTHING if spec.selector is None else compile_selector(spec.selector)
    except SelectorError as error:
        raise ClaimError(
            f"error creating internal label selector for claim: {claim.key}: {error}"
        ) from error
    return Demand(
        size_nanos=quantity.nano_value(requested_storage(claim)),
        mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        selector=selector,
    )
