"""Extenders as the configuration names them, and what of the cluster is kept for their sake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.client.extender import ExtenderHttp
from kscheduler.client.fence import Fence
from kscheduler.client.informers.decoding import Wanted
from kscheduler.client.tls import TlsConfig
from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.config.model import ExtenderTLSConfig
from kscheduler.runtime.extenders.extender import Extender
from kscheduler.runtime.extenders.extenders import Extenders, World


class Extending:
    """The extenders of one scheduler, and the connections to them."""

    def __init__(
        self, configs: Sequence[ExtenderConfig], world: World, fence: Fence | None
    ) -> None:
        self._wires = [_wire(config, fence) for config in configs]
        pairs = zip(configs, self._wires, strict=True)
        self.extenders = Extenders([Extender(config, wire) for config, wire in pairs], world)

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()


def kept_for(configs: Sequence[ExtenderConfig]) -> dict[type[ApiObject], Wanted]:
    """Extenders are told of pods in full, and of nodes unless they know them by themselves. Pods
    that have a node are told of only when they might be preempted.
    """
    keep: dict[type[ApiObject], Wanted] = {}
    if any(one.filter_verb or one.prioritize_verb or one.preempt_verb for one in configs):
        keep[Pod] = _is_pending
    without_cache = [one for one in configs if not one.node_cache_capable]
    if any(one.preempt_verb for one in without_cache):
        keep[Pod] = _is_any
    if any(one.filter_verb or one.prioritize_verb for one in without_cache):
        keep[Node] = _is_any
    return keep


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name


def _is_any(item: object) -> bool:
    return True


def _wire(config: ExtenderConfig, fence: Fence | None) -> ExtenderHttp:
    seconds = config.http_timeout.seconds
    return ExtenderHttp(config.url_prefix, _tls(config), timeout_seconds=seconds, fence=fence)


def _tls(config: ExtenderConfig) -> TlsConfig:
    """Without an authority to trust, HTTPS that was asked for is taken as it comes. A certificate
    without a key, or a key alone, is of no use and not used.
    """
    tls = config.tls_config or ExtenderTLSConfig()
    has_authority = bool(tls.ca_file or tls.ca_data)
    trusting = TlsConfig(
        ca_file=tls.ca_file,
        ca_data=tls.ca_data,
        insecure=tls.insecure or (config.enable_https and not has_authority),
        server_name=tls.server_name,
    )
    if not ((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)):
        return trusting
    return replace(
        trusting,
        cert_file=tls.cert_file,
        cert_data=tls.cert_data,
        key_file=tls.key_file,
        key_data=tls.key_data,
    )
