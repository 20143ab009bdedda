"""The API server for the rest of the program: informers that mirror it, calls that change it.

Named after client-go. `clientcmd` reads the kubeconfig into a `RestConfig`; a `Transport` per
purpose (scheduling, events, leader election: each has its own connections and token bucket, so that
none delays another) sends requests over the connections of `http`, with `tls` and `credentials`;
`informers` keep stores equal to the server's collections; `KubeClient` (`kube_client`, bodies in
`bodies` and, where JSON does not do, `protobuf`) writes; `events` records. `extender` is the HTTP
client of scheduler extenders. Open `transport` first for how bytes move, `informers` for how
objects arrive.

Invariants: a store equals the server's state at some resourceVersion that never goes back; per
object a handler sees add, updates, delete, in that order; a write goes through the `fence`, which
closes with the lease; an error is made in one place (`errors`) and says in client-go's words what
failed; nothing is unbounded, each queue and cache names its cap.

The official client was the alternative, and aiohttp for HTTP; docs/dependencies.md has the numbers.
"""
