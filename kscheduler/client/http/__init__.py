"""HTTP/1.1 to one server, as little of it as talking to an API server or an extender takes.

Requests go in as bytes, responses come out piece by piece. Open `pool` first: a `ConnectionPool`
lends a connection per exchange and keeps it for the next one. `dial` opens connections (a `Route`
knows the server, and the proxy that `proxies` finds in the environment), `connection` is the
asyncio protocol, `response` parses bytes and knows nothing of sockets.
"""
