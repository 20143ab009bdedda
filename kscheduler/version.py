"""Which kscheduler this is, and which kube-scheduler it stands in for."""

__version__ = "0.1.0"

# The release whose flags, configuration, decisions and texts we reproduce.
KUBERNETES_VERSION = "v1.37.0-rc.1"
