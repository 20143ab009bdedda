"""Connections to the configured extenders, and the objects that are kept whole for their sake."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.client.extender import ExtenderHttp
from kscheduler.client.fence import Fence
from kscheduler.client.informers.decoding import Wanted
from kscheduler.client.tls import TlsConfig
from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.config.model import ExtenderTLSConfig


def connection_to(config: ExtenderConfig, fence: Fence | None) -> ExtenderHttp:
    """The way to one extender; nothing is connected before the first question."""
    return ExtenderHttp(
        config.url_prefix,
        tls_of(config),
        timeout_seconds=config.http_timeout.seconds,
        fence=fence,
    )


def tls_of(config: ExtenderConfig) -> TlsConfig:
    """With enableHTTPS and no authority to trust, any certificate is taken, as upstream does.

    A certificate without a key, or a key alone, is of no use and not used.
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


def objects_to_keep_whole(configs: Sequence[ExtenderConfig]) -> dict[type[ApiObject], Wanted]:
    """The kinds whose objects extenders are sent as the API server sent them, and which of them.

    Extenders are sent pods in full, and nodes unless they know them by themselves
    (nodeCacheCapable). Pods that have a node are sent only when they might be preempted.
    """
    keep: dict[type[ApiObject], Wanted] = {}
    if any(one.filter_verb or one.prioritize_verb or one.preempt_verb for one in configs):
        keep[Pod] = lambda pod: not pod.spec.node_name
    without_cache = [one for one in configs if not one.node_cache_capable]
    if any(one.preempt_verb for one in without_cache):
        keep[Pod] = lambda _pod: True
    if any(one.filter_verb or one.prioritize_verb for one in without_cache):
        keep[Node] = lambda _node: True
    return keep
