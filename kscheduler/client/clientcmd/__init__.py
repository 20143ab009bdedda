"""The kubeconfig and what it comes to: mirrors client-go's tools/clientcmd for one explicit file.

In flow --kubeconfig, --master and the pod's environment; out flows a `RestConfig`. Open
`rest_config` first: it reads a file with `kubeconfig`, has the current context checked by
`validation`, and turns it into addresses, TLS and credentials.
"""
