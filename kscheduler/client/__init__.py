"""The API server as the rest of the program sees it: stores that follow it, calls that change it.

Bytes come in through one `Transport` per purpose (scheduling, events, leader election: each has its
own connections and token bucket, so that none delays another). Below it, `dialling` opens
connections, `connections` keeps them, `http_connection` and `http_response` speak HTTP/1.1. A
`Reflector` keeps one list and watch alive, an `Informer` turns it into a store and ordered handler
calls, `KubeClient` writes, a recorder tells. `kubeconfig` says where the server is and who we are.

Invariants: a store equals the server's state at some resourceVersion that never goes back; per
object a handler sees add, updates, delete, in that order; an error is made in one place (`errors`)
and says in client-go's words what failed; nothing is unbounded, each queue and cache names its cap.

The official client was the alternative. Its models cost 2 ms per pod, its informer has a fixed
retry, its exec credentials know no certificates, and importing it costs 20 MB and 0.2 s.
For HTTP it was aiohttp, with which a request took twice the CPU.
"""
