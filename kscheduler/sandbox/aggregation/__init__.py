"""The aggregation layer: groups of the API that other servers have.

In flow APIServices and Services as they are stored, and requests about a group version that an
APIService names; out flow the answers of the server behind it, and whether there is one (condition
Available). Open `aggregator` first; `backend` talks to one such server.

A request is authenticated and authorized here first, then passed on with the user's name and groups
in headers, which the other server believes because the front proxy's certificate comes with them.
Nothing else depends on a server being there: without it, discovery has its groups as they were last
seen, and requests about them are answered with 503.

Mirrors staging/src/k8s.io/kube-aggregator. Differs: only Services of type ExternalName lead
anywhere, since the sandbox has no network of its own; connections are not upgraded.
"""
