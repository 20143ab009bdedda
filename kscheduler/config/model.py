"""KubeSchedulerConfiguration, as kubescheduler.config.k8s.io/v1 has it.

Defaults that are plain constants stand here; those that depend on feature gates, on other fields or
on a zero being as good as nothing are applied by `defaults`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, InstanceOf

from kscheduler.config.plugin_args import PluginArgs, RawArgs
from kscheduler.config.wire import (
    NOT_WIRED,
    OMIT_EMPTY,
    V1,
    Embedded,
    Float32,
    Int32,
    Int64,
    Model,
)
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.unmarshal import Raw

DEFAULT_SCHEDULER_NAME = "default-scheduler"
# Arguments stay text until it is known which plugin they are for.
RAW_ARGS = Raw(lambda node: RawArgs(text=node.raw))


class ComponentBaseModel(Model):
    """A type that kube-scheduler shares with the other components."""

    go_package: ClassVar[str] = "v1alpha1"


class LeaderElectionConfiguration(ComponentBaseModel):
    leader_elect: bool = True
    lease_duration: Duration = Duration.of(15)
    renew_deadline: Duration = Duration.of(10)
    retry_period: Duration = Duration.of(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(ComponentBaseModel):
    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: Float32 = 50.0
    burst: Int32 = 100


class Plugin(Model):
    """A plugin by name; the weight matters for score and placementScore only, 0 means 1 there."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(Model):
    enabled: Annotated[tuple[Plugin, ...], OMIT_EMPTY] = ()
    disabled: Annotated[tuple[Plugin, ...], OMIT_EMPTY] = ()


class Plugins(Model):
    """Plugins enabled and disabled at each extension point, and at all of them (`multi_point`)."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class PluginConfig(Model):
    """Arguments for one plugin: typed where it has a kind of its own, raw otherwise."""

    name: str = ""
    args: Annotated[InstanceOf[PluginArgs] | InstanceOf[RawArgs] | None, RAW_ARGS] = None


class KubeSchedulerProfile(Model):
    scheduler_name: str = ""
    percentage_of_nodes_to_score: Annotated[Int32 | None, OMIT_EMPTY] = None
    plugins: Plugins = Plugins()
    plugin_config: Annotated[tuple[PluginConfig, ...], OMIT_EMPTY] = ()


class ExtenderManagedResource(Model):
    name: str = ""
    ignored_by_scheduler: Annotated[bool, OMIT_EMPTY] = False


class ExtenderTLSConfig(Model):
    insecure: Annotated[bool, OMIT_EMPTY] = False
    server_name: Annotated[str, OMIT_EMPTY] = ""
    cert_file: Annotated[str, OMIT_EMPTY] = ""
    key_file: Annotated[str, OMIT_EMPTY] = ""
    ca_file: Annotated[str, OMIT_EMPTY] = ""
    cert_data: Annotated[bytes, OMIT_EMPTY] = b""
    key_data: Annotated[bytes, OMIT_EMPTY] = b""
    ca_data: Annotated[bytes, OMIT_EMPTY] = b""


class Extender(Model):
    """An HTTP service that filters, ranks, preempts or binds; an empty verb is not offered."""

    url_prefix: str = ""
    filter_verb: Annotated[str, OMIT_EMPTY] = ""
    preempt_verb: Annotated[str, OMIT_EMPTY] = ""
    prioritize_verb: Annotated[str, OMIT_EMPTY] = ""
    weight: Annotated[Int64, OMIT_EMPTY] = 0
    bind_verb: Annotated[str, OMIT_EMPTY] = ""
    enable_https: Annotated[bool, OMIT_EMPTY, Field(alias="enableHTTPS")] = False
    tls_config: Annotated[ExtenderTLSConfig | None, OMIT_EMPTY] = None
    http_timeout: Duration = Duration(0)
    node_cache_capable: Annotated[bool, OMIT_EMPTY] = False
    managed_resources: Annotated[tuple[ExtenderManagedResource, ...], OMIT_EMPTY] = ()
    ignorable: Annotated[bool, OMIT_EMPTY] = False


class KubeSchedulerConfiguration(Model):
    has_type_meta: ClassVar[bool] = True

    api_version: Annotated[str, NOT_WIRED] = V1
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: Annotated[bool, Embedded("DebuggingConfiguration")] = True
    enable_contention_profiling: Annotated[bool, Embedded("DebuggingConfiguration")] = True
    percentage_of_nodes_to_score: Annotated[Int32 | None, OMIT_EMPTY] = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: Annotated[tuple[KubeSchedulerProfile, ...], OMIT_EMPTY] = ()
    extenders: Annotated[tuple[Extender, ...], OMIT_EMPTY] = ()
    delay_cache_until_active: Annotated[bool, OMIT_EMPTY] = False
