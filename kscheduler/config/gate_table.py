"""Every feature gate kube-scheduler 1.37 accepts, with its history; facts, not code.

A row is a gate and its stages: the release that began it, a letter for the stage
(a alpha, b beta, g general availability, d deprecated), + or - for the default, ! when that default
is locked, @ and the lowest --min-compatibility-version the stage holds from.
"""

HISTORY = """
APIResponseCompression                               1.8a- 1.16b+
APIServerIdentity                                    1.20a- 1.26b+
APIServerWebhookAuthenticationToken                  1.37a-
APIServingWithRoutine                                1.30a-
AggregatedDiscoveryRemoveBetaType                    1.0g- 1.33d+ 1.35d+!
AllAlpha                                             0.0a-
AllBeta                                              0.0b-
AllowDNSOnlyNodeCSR                                  1.0g+ 1.31d-
AllowInsecureKubeletCertificateSigningRequests       1.0g+ 1.31d-
AllowOverwriteTerminationGracePeriodSeconds          1.0g+ 1.32d- 1.35d-!
AllowParsingUserUIDFromCertAuth                      1.33b+
AllowServiceExternalIPs                              1.0g+
AllowUnsafeMalformedObjectDeletion                   1.32a- 1.37b+
AtomicFIFO                                           1.36b+
AtomicWriteVolumeUserFields                          1.37a-
AuthorizePodWebsocketUpgradeCreatePermission         1.35b+
CBORServingAndStorage                                1.32a-
CPUManagerPolicyAlphaOptions                         1.23a-
CPUManagerPolicyBetaOptions                          1.23b+
CPUManagerPolicyOptions                              1.22a- 1.23b+ 1.33g+!
CRDObservedGenerationTracking                        1.35b- 1.36b+
CRDValidationRatcheting                              1.28a- 1.30b+ 1.33g+!
CRIListStreaming                                     1.36a-
CSIServiceAccountTokenSecrets                        1.35b+ 1.36g+!
CSIVolumeHealth                                      1.21a-
ChangeContainerStatusOnKubeletRestart                1.0g+ 1.35d-
ClearingNominatedNodeNameAfterBinding                1.34a- 1.35b+
ClientsAllowCARotation                               1.36b+
ClientsAllowCBOR                                     1.32a-
ClientsAllowTLSCacheGC                               1.36b+
ClientsPreferCBOR                                    1.32a-
CloudControllerManagerWatchBasedRoutesReconciliation 1.35a-
CloudControllerManagerWebhook                        1.27a-
ClusterTrustBundle                                   1.27a- 1.33b- 1.37g+
ClusterTrustBundleProjection                         1.29a- 1.33b- 1.37g+
ComponentFlagz                                       1.32a- 1.36b+
ComponentStatusz                                     1.32a- 1.36b+
CompositePodGroup                                    1.37a-
ConcurrentWatchObjectDecode                          1.31b- 1.37b+
ConsistentListFromCacheSkipTimeoutFallback           1.37a-
ConstrainedImpersonation                             1.35a- 1.36b+
ContainerCheckpoint                                  1.25a- 1.30b+
ContainerRestartRules                                1.34a- 1.35b+
ContainerStopSignals                                 1.33a-
ContextualLogging                                    1.24a- 1.30b+
CoordinatedLeaderElection                            1.31a- 1.33b-
CrossNamespaceVolumeDataSource                       1.26a-
CustomCPUCFSQuotaPeriod                              1.12a- 1.36g+
CustomResourceFieldSelectors                         1.30a- 1.31b+ 1.32g+!
DRAAdminAccess                                       1.32a- 1.34b+ 1.36g+!
DRAConsumableCapacity                                1.34a- 1.36b+
DRADerivedAttributes                                 1.37a-
DRADeviceBindingConditions                           1.34a- 1.36b+
DRADeviceCompatibilityGroups                         1.37a-
DRADeviceTaintRules                                  1.35a- 1.36b- 1.37g+
DRADeviceTaints                                      1.33a- 1.36b+ 1.37g+
DRAExtendedResource                                  1.34a- 1.36b+ 1.37g+!
DRAFractionalCapacityRange                           1.37b- 1.37b+@1.37
DRAListTypeAttributes                                1.36a-
DRANodeAllocatableResources                          1.36a-
DRAOptionalNodeOperations                            1.37a-
DRAPartitionableDevices                              1.33a- 1.36b+
DRAPartitionableDevicesType                          1.37a-
DRAPrioritizedList                                   1.33a- 1.34b+ 1.36g+ 1.37g+!
DRAResourceClaimDeviceStatus                         1.32a- 1.33b+ 1.37g+!
DRAResourceClaimGranularStatusAuthorization          1.36b+
DRAResourcePoolStatus                                1.36a-
DRASchedulerFilterTimeout                            1.34b+
DRAWorkloadResourceClaims                            1.36a- 1.37b-
DeclarativeValidation                                1.33b+ 1.36g+!
DeclarativeValidationBeta                            1.36b+
DeclarativeValidationTakeover                        1.33b- 1.36d- 1.37d-!
DefaultPodSysctls                                    1.37a-
DeploymentReplicaSetTerminatingReplicas              1.33a- 1.35b+
DetectCacheInconsistency                             1.34b+
DisableAllocatorDualWrite                            1.31a- 1.33b- 1.34g+ 1.35g+!
DisableCPUQuotaWithExclusiveCPUs                     1.33b+ 1.36d+ 1.37d+!
DisableNodeKubeProxyVersion                          1.29a- 1.31d- 1.33d+ 1.36d+!
DynamicResourceAllocation                            1.26a- 1.32b- 1.34g+ 1.35g+!
EmptyDirVolumeMode                                   1.37a-
EnvFiles                                             1.34a- 1.35b+
EtcdRangeStream                                      1.37b+
EventedPLEG                                          1.26a-
EvictionRequestAPI                                   1.37a-
ExcludeAdmissionWebhookVirtualResources              1.37b+
ExecProbeTimeout                                     1.20g+ 1.35g+!
ExtendWebSocketsToKubelet                            1.36b+
ExternalServiceAccountTokenSigner                    1.32a- 1.34b+ 1.36g+!
GRPCContainerProbeTLS                                1.37a-
GenericWorkload                                      1.35a- 1.37b-
GitRepoVolumeDriver                                  1.0g+ 1.33d- 1.36d-!
GracefulNodeShutdown                                 1.20a- 1.21b+
GracefulNodeShutdownBasedOnPodPriority               1.23a- 1.24b+
H2CContainerProbe                                    1.37a-
HPAConfigurableTolerance                             1.33a- 1.35b+ 1.37g+!
HPAGeneration                                        1.37b+
HPAOptimizedSelectorStore                            1.37b+
HPAScaleToZero                                       1.16a- 1.37b+
HostnameOverride                                     1.34a- 1.35b+ 1.37g+!
HugepageAwareEviction                                1.37b+
ImageMaximumGCAge                                    1.29a- 1.30b+ 1.35g+!
ImageVolume                                          1.31a- 1.33b- 1.35b+ 1.36g+!
ImageVolumeWithDigest                                1.35a-
InOrderInformers                                     1.33b+ 1.36g+!
InOrderInformersBatchProcess                         1.35b+
InPlacePodLevelResourcesVerticalScaling              1.35a- 1.36b+
InPlacePodVerticalScaling                            1.27a- 1.33b+ 1.35g+!
InPlacePodVerticalScalingExclusiveCPUs               1.32a-
InPlacePodVerticalScalingExclusiveMemory             1.34a-
InPlacePodVerticalScalingInitContainers              1.36b+ 1.37g+!
InPlacePodVerticalScalingMemoryBackedVolumes         1.37a-
InPlacePodVerticalScalingSchedulerPreemption         1.37a-
InformerResourceVersion                              1.30a- 1.35g+
InterPodAffinityHostnameFastPath                     1.37a-
JobManagedBy                                         1.30a- 1.32b+ 1.35g+!
KMSv1                                                1.0g+ 1.28d+ 1.29d-
KubeProxyIPVS                                        1.0g+ 1.37d+
KubeProxyNFTablesLocalhostNodePorts                  1.37a-
KubeletAllocatedPodsEndpoint                         1.37a-
KubeletCgroupDriverFromCRI                           1.28a- 1.31b+ 1.34g+!
KubeletCrashLoopBackOffMax                           1.32a- 1.35b+
KubeletEnsureSecretPulledImages                      1.33a- 1.35b+
KubeletFineGrainedAuthz                              1.32a- 1.33b+ 1.36g+!
KubeletInUserNamespace                               1.22a- 1.37b+
KubeletPSI                                           1.33a- 1.34b+ 1.36g+!
KubeletPodResourcesDynamicResources                  1.27a- 1.34b+ 1.36g+!
KubeletPodResourcesGet                               1.27a- 1.34b+ 1.36g+!
KubeletPodResourcesListUseActivePods                 1.0g- 1.34d+
KubeletRegistrationGetOnExistsOnly                   1.0g+ 1.32d-
KubeletSeparateDiskGC                                1.29a- 1.31b+
KubeletServiceAccountTokenForCredentialProviders     1.33a- 1.34b+
KubeletTracing                                       1.25a- 1.27b+ 1.34g+!
ListFromCacheSnapshot                                1.33a- 1.34b+
LocalStorageCapacityIsolationFSQuotaMonitoring       1.15a- 1.31b-
LoggingAlphaOptions                                  1.24a-
LoggingBetaOptions                                   1.24b+
ManifestBasedAdmissionControlConfig                  1.36a- 1.37b+
MatchLabelKeysInPodAffinity                          1.29a- 1.31b+ 1.33g+!
MatchLabelKeysInPodTopologySpread                    1.25a- 1.27b+
MatchLabelKeysInPodTopologySpreadSelectorMerge       1.34b+
MaxUnavailableStatefulSet                            1.24a- 1.35b- 1.37b+
MemoryQoS                                            1.22a- 1.37b+
MultiCIDRServiceAllocator                            1.27a- 1.31b- 1.33g+ 1.34g+!
MutableCSINodeAllocatableCount                       1.33a- 1.34b- 1.35b+ 1.36g+!
MutablePVNodeAffinity                                1.35a-
MutablePodResourcesForSuspendedJobs                  1.35a- 1.36b+
MutableSchedulingDirectivesForSuspendedJobs          1.35a- 1.36b+
MutatingAdmissionPolicy                              1.32a- 1.34b- 1.36g+
NFTablesNetlink                                      1.37b+
NFTablesProxyMode                                    1.29a- 1.31b+ 1.33g+!
NativeHistograms                                     1.36a- 1.37b+
NodeControllerLeaseCircuitBreaker                    1.37b+
NodeDeclaredFeatures                                 1.35a- 1.36b+ 1.37g+!
NodeInclusionPolicyInPodTopologySpread               1.25a- 1.26b+ 1.33g+!
NodeLifecycleConditions                              1.37a-
NodeLogQuery                                         1.27a- 1.30b- 1.36g+!
NodeSwap                                             1.22a- 1.28b- 1.30b+ 1.34g+!
NominatedNodeNameForExpectation                      1.34a- 1.35b+
OpenAPIEnums                                         1.23a- 1.24b+
OpportunisticBatching                                1.35b+
PLEGOnDemandRelist                                   1.36b+ 1.37g+!
PersistentVolumeClaimUnusedSinceTime                 1.36a- 1.37b+
PodAndContainerStatsFromCRI                          1.23a- 1.37b-
PodCertificateRequest                                1.34a- 1.35b- 1.37g+
PodDeletionCost                                      1.21a- 1.22b+
PodGroupPreemptionPolicy                             1.37a-
PodLevelResourceManagers                             1.36a- 1.37b-
PodLevelResources                                    1.32a- 1.34b+
PodLevelResourcesFixDefaulting                       1.37b+
PodLevelResourcesFixKubeletQOSClass                  1.37b+
PodLogsQuerySplitStreams                             1.32a-
PodObservedGenerationTracking                        1.33a- 1.34b+ 1.35g+!
PodReadyToStartContainersCondition                   1.28a- 1.29b+ 1.37g+!
PodSchedulingReadiness                               1.26a- 1.27b+ 1.30g+!
PodTopologyLabelsAdmission                           1.33a- 1.35b+
PodsAPI                                              1.36a- 1.37b+
PortForwardWebsockets                                1.30a- 1.31b+
PreferSameTrafficDistribution                        1.33a- 1.34b+ 1.35g+!
ProcMountType                                        1.12a- 1.31b- 1.33b+ 1.36g+!
QOSReserved                                          1.11a-
RecoverVolumeExpansionFailure                        1.23a- 1.32b+ 1.34g+!
RecursiveReadOnlyMounts                              1.30a- 1.31b+ 1.33g+!
ReduceDefaultCrashLoopBackOffDecay                   1.33a-
RelaxedEnvironmentVariableValidation                 1.30a- 1.32b+ 1.34g+!
RelaxedServiceNameValidation                         1.34a- 1.36b+ 1.37g+!
ReloadKubeletClientCAFile                            1.36b+
ReloadKubeletServerCertificateFile                   1.31b+
RemoteRequestHeaderUID                               1.32a- 1.33b+
ResourceHealthStatus                                 1.31a- 1.36b+
ResourceHealthStatusMessage                          1.36b+
RestartAllContainersOnContainerExits                 1.35a- 1.36b+
RotateKubeletServerCertificate                       1.7a- 1.12b+
RuntimeClassInImageCriApi                            1.29a-
SELinuxChangePolicy                                  1.32a- 1.33b+ 1.36g+!
SELinuxMount                                         1.30a- 1.33b- 1.37g+
SELinuxMountReadWriteOncePod                         1.25a- 1.27b- 1.28b+ 1.36g+!
SchedulerAsyncAPICalls                               1.34b-
SchedulerAsyncPreemption                             1.32a- 1.33b+
SchedulerPopFromBackoffQ                             1.33b+
SchedulerPreQueueingHints                            1.37a-
SeparateCacheWatchRPC                                1.28b+ 1.33d- 1.36d-!
SeparateTaintEvictionController                      1.29b+ 1.34g+!
ServiceAccountNodeAudienceRestriction                1.32b- 1.33b+
ServiceAccountTokenJTI                               1.29a- 1.30b+ 1.32g+!
ServiceAccountTokenNodeBinding                       1.29a- 1.31b+ 1.33g+!
ServiceAccountTokenNodeBindingValidation             1.29a- 1.30b+ 1.32g+!
ServiceAccountTokenPodNodeInfo                       1.29a- 1.30b+ 1.32g+!
ServiceCIDRStatusFieldWiping                         1.0g- 1.36d+
ShardedListAndWatch                                  1.36a-
SizeBasedListCostEstimate                            1.34b+
StaleControllerConsistencyDaemonSet                  1.36b+
StaleControllerConsistencyHPA                        1.37b+
StaleControllerConsistencyJob                        1.36b+
StaleControllerConsistencyReplicaSet                 1.36b+
StaleControllerConsistencyStatefulSet                1.36b+
StatefulSetRecreateStrategy                          1.37a-
StatefulSetSemanticRevisionComparison                1.0b+
StorageCapacityScoring                               1.33a- 1.37b+
StorageNamespaceIndex                                1.30b+ 1.33d+
StorageVersionAPI                                    1.20a-
StorageVersionHash                                   1.14a- 1.15b+
StorageVersionMigrator                               1.30a- 1.35b- 1.37g+
StrictIPCIDRValidation                               1.33a- 1.36b+
StructuredAuthenticationConfigurationEgressSelector  1.34b+
StructuredAuthenticationConfigurationJWKSMetrics     1.35b+
SupplementalGroupsPolicy                             1.31a- 1.33b+ 1.35g+!
SystemdWatchdog                                      1.32b+ 1.35g+!
TaintTolerationComparisonOperators                   1.35a-
TokenRequestServiceAccountUIDValidation              1.34b+
TopologyAwareWorkloadScheduling                      1.36a-
TopologyManagerPolicyAlphaOptions                    1.26a-
TopologyManagerPolicyBetaOptions                     1.26b- 1.28b+
TopologyManagerPolicyOptions                         1.26a- 1.28b+ 1.32g+!
TranslateStreamCloseWebsocketRequests                1.29a- 1.30b+
UnauthenticatedHTTP2DOSMitigation                    1.25b- 1.29b+
UnknownVersionInteroperabilityProxy                  1.28a- 1.36b+
UnlockWhileProcessingFIFO                            1.36b+
UserNamespacesHostNetworkSupport                     1.35a-
UserNamespacesSupport                                1.25a- 1.30b- 1.33b+ 1.36g+!
VolumeAttributesClass                                1.29a- 1.31b- 1.34g+ 1.36g+!
VolumeBindMountOptions                               1.37a-
VolumeLimitScaling                                   1.35a- 1.37b+
WatchCacheInitializationPostStartHook                1.31b- 1.36b+ 1.37g+!
WatchList                                            1.27a- 1.32b+ 1.33b- 1.34b+
WatchListClient                                      1.30b- 1.35b+
WatchListCompression                                 1.37b+
WebhookRoundTripLoadBalancing                        1.37b+
WinDSR                                               1.14a- 1.33b+ 1.34g+!
WinOverlay                                           1.14a- 1.20b+ 1.34g+!
WindowsCPUAndMemoryAffinity                          1.32a-
WindowsGracefulNodeShutdown                          1.32a- 1.34b+
WindowsHostNetwork                                   1.26a- 1.33d-
WorkloadWithJob                                      1.36a-
"""

# A gate that is on needs these to be on too.
NEEDS: dict[str, tuple[str, ...]] = {
    "ClusterTrustBundleProjection": ("ClusterTrustBundle",),
    "CompositePodGroup": (
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
    ),
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADerivedAttributes": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": (
        "DRAResourceClaimDeviceStatus",
        "DynamicResourceAllocation",
    ),
    "DRADeviceCompatibilityGroups": (
        "DRAPartitionableDevices",
        "DynamicResourceAllocation",
    ),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAListTypeAttributes": ("DynamicResourceAllocation",),
    "DRANodeAllocatableResources": ("DynamicResourceAllocation",),
    "DRAOptionalNodeOperations": (
        "DynamicResourceAllocation",
        "NodeDeclaredFeatures",
    ),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPartitionableDevicesType": (
        "DRAPartitionableDevices",
        "DRAResourcePoolStatus",
        "DynamicResourceAllocation",
    ),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRAResourceClaimGranularStatusAuthorization": (
        "DRAResourceClaimDeviceStatus",
        "DynamicResourceAllocation",
    ),
    "DRAResourcePoolStatus": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "DRAWorkloadResourceClaims": (
        "DynamicResourceAllocation",
        "GenericWorkload",
    ),
    "DeclarativeValidationBeta": ("DeclarativeValidation",),
    "DeclarativeValidationTakeover": ("DeclarativeValidation",),
    "DisableAllocatorDualWrite": ("MultiCIDRServiceAllocator",),
    "EventedPLEG": ("PLEGOnDemandRelist",),
    "ExtendWebSocketsToKubelet": ("NodeDeclaredFeatures",),
    "GracefulNodeShutdownBasedOnPodPriority": ("GracefulNodeShutdown",),
    "H2CContainerProbe": ("NodeDeclaredFeatures",),
    "ImageVolumeWithDigest": ("ImageVolume",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
        "PodLevelResources",
    ),
    "InPlacePodVerticalScalingExclusiveCPUs": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingExclusiveMemory": ("InPlacePodVerticalScaling",),
    "InPlacePodVerticalScalingInitContainers": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
    ),
    "InPlacePodVerticalScalingMemoryBackedVolumes": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
    ),
    "InPlacePodVerticalScalingSchedulerPreemption": ("InPlacePodVerticalScaling",),
    "KubeletAllocatedPodsEndpoint": ("InPlacePodVerticalScaling",),
    "MatchLabelKeysInPodTopologySpreadSelectorMerge": ("MatchLabelKeysInPodTopologySpread",),
    "NodeControllerLeaseCircuitBreaker": ("AtomicFIFO",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "PodLevelResourceManagers": ("PodLevelResources",),
    "PodLevelResourcesFixDefaulting": ("PodLevelResources",),
    "PodLevelResourcesFixKubeletQOSClass": ("PodLevelResources",),
    "ProcMountType": ("UserNamespacesSupport",),
    "ResourceHealthStatus": ("DynamicResourceAllocation",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
    "RestartAllContainersOnContainerExits": (
        "ContainerRestartRules",
        "NodeDeclaredFeatures",
    ),
    "ServiceAccountTokenNodeBinding": ("ServiceAccountTokenNodeBindingValidation",),
    "StaleControllerConsistencyDaemonSet": ("AtomicFIFO",),
    "StaleControllerConsistencyHPA": ("AtomicFIFO",),
    "StaleControllerConsistencyJob": ("AtomicFIFO",),
    "StaleControllerConsistencyReplicaSet": ("AtomicFIFO",),
    "StaleControllerConsistencyStatefulSet": ("AtomicFIFO",),
    "StorageVersionAPI": ("APIServerIdentity",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "UnknownVersionInteroperabilityProxy": ("APIServerIdentity",),
    "UserNamespacesHostNetworkSupport": (
        "NodeDeclaredFeatures",
        "UserNamespacesSupport",
    ),
    "WindowsGracefulNodeShutdown": ("GracefulNodeShutdown",),
    "WorkloadWithJob": ("GenericWorkload",),
}
