"""Go's texts: values, errors and documents as Go's standard library and YAML readers have them.

Operators compare what kscheduler prints and refuses with kube-scheduler's output byte for byte. In
flow texts of flags, configuration files, kubeconfigs and answers; out flow values, or errors in
Go's own words. Nothing here knows of Kubernetes objects.
"""
