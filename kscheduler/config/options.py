"""Everything the command line can say, as one frozen value.

A field is a flag (`--kube-api-qps` is `kube_api_qps`), its default the flag's. Some flags act only
when they were given, so `given` remembers which were. Checking is in `option_checks`; here is what
options turn into: logging settings, feature gates, and changes to the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kscheduler import logs
from kscheduler.api.quantity import Amount
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.gotext.duration import Duration
from kscheduler.version import KUBERNETES_VERSION

if TYPE_CHECKING:  # building these models costs --help a tenth of a second
    from kscheduler.config.model import KubeSchedulerConfiguration

ANY_ADDRESS = "0.0.0.0"
NO_BUFFER = Amount(0)
TWO_SECONDS = Duration.of(2)
FIVE_SECONDS = Duration.of(5)
TEN_SECONDS = Duration.of(10)
FIFTEEN_SECONDS = Duration.of(15)
FIVE_MINUTES = Duration.of(300)
TEN_MINUTES = Duration.of(600)


class CertKey(msgspec.Struct, frozen=True):
    """A certificate and key file, and the host names they are for (those in it, if none)."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        names = f":{','.join(self.names)}" if self.names else ""
        return f"{self.cert_file},{self.key_file}{names}"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    config: str = ""
    write_config_to: str = ""
    master: str = ""

    bind_address: str = ANY_ADDRESS
    secure_port: int = 10259
    cert_dir: str = ""
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    tls_sni_cert_key: tuple[CertKey, ...] = ()
    http2_max_streams_per_connection: int = 0
    disable_http2_serving: bool = False
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False

    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_token_webhook_cache_ttl: Duration = TEN_SECONDS
    authentication_tolerate_lookup_failure: bool = True
    client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_client_ca_file: str = ""
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)

    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_kubeconfig: str = ""
    authorization_webhook_cache_authorized_ttl: Duration = TEN_SECONDS
    authorization_webhook_cache_unauthorized_ttl: Duration = TEN_SECONDS

    contention_profiling: bool = True
    kube_api_burst: int = 100
    kube_api_content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: float = 50.0
    kubeconfig: str = ""
    pod_max_in_unschedulable_pods_duration: Duration = FIVE_MINUTES
    profiling: bool = True

    leader_elect: bool = True
    leader_elect_lease_duration: Duration = FIFTEEN_SECONDS
    leader_elect_renew_deadline: Duration = TEN_SECONDS
    leader_elect_resource_lock: str = "leases"
    leader_elect_resource_name: str = "kube-scheduler"
    leader_elect_resource_namespace: str = "kube-system"
    leader_elect_retry_period: Duration = TWO_SECONDS
    leader_elect_rejoin: bool = False
    leader_service: str = ""
    health_listen: str = ""
    metrics_listen: str = ""

    decision_log_bytes: int = 64 << 20
    plugin: tuple[str, ...] = ()
    plugin_max_failures: int = 0
    plugin_timeout: Duration = FIVE_SECONDS
    plugin_wait_timeout: Duration = TEN_MINUTES

    emulated_version: tuple[str, ...] = ()
    feature_gates: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    min_compatibility_version: tuple[str, ...] = ()

    allow_metric_labels: Mapping[str, str] | None = None
    allow_metric_labels_manifest: str = ""
    disabled_metrics: tuple[str, ...] = ()
    show_hidden_metrics_for_version: str = ""

    log_flush_frequency: Duration = FIVE_SECONDS
    log_json_info_buffer_size: Amount = NO_BUFFER
    log_json_split_stream: bool = False
    log_text_info_buffer_size: Amount = NO_BUFFER
    log_text_split_stream: bool = False
    logging_format: str = "text"
    v: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()

    help: bool = False
    version: str = "false"

    given: frozenset[str] = frozenset()
    # Each flag's value as the flag prints it: FLAG lines and /flagz.
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def reported_version(self) -> str:
        """The version we say we are; --version=v… may choose another build of the same release."""
        return self.version if self.version.startswith("v") else KUBERNETES_VERSION

    def gates(self) -> FeatureGates:
        return FeatureGates.from_flags(
            self.feature_gates, self.emulated_version, self.min_compatibility_version
        )

    def logging(self) -> logs.Logging:
        json = self.logging_format == "json"
        size = self.log_json_info_buffer_size if json else self.log_text_info_buffer_size
        return logs.Logging(
            format=self.logging_format,
            verbosity=self.v,
            vmodule=self.vmodule,
            flush_frequency_seconds=self.log_flush_frequency.seconds,
            split_stream=self.log_json_split_stream if json else self.log_text_split_stream,
            info_buffer_bytes=size.value,
        )

    def with_leader_election(
        self, config: KubeSchedulerConfiguration
    ) -> KubeSchedulerConfiguration:
        """The configuration with every --leader-elect… flag that was given."""
        changed = config.leader_election.model_copy(update=self._given_values(_LEADER_ELECTION))
        return config.model_copy(update={"leader_election": changed})

    def with_deprecated(self, config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        """The configuration with the flags that a configuration file makes void."""
        connection = config.client_connection.model_copy(update=self._given_values(_CONNECTION))
        update = {"client_connection": connection, **self._given_values(_DEBUGGING)}
        return config.model_copy(update=update)

    def _given_values(self, fields: Mapping[str, str]) -> dict[str, Any]:
        return {
            target: getattr(self, source)
            for source, target in fields.items()
            if source in self.given
        }


_LEADER_ELECTION = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube_api_content_type": "content_type",
    "kube_api_qps": "qps",
    "kube_api_burst": "burst",
}
_DEBUGGING = {
    "profiling": "enable_profiling",
    "contention_profiling": "enable_contention_profiling",
}
