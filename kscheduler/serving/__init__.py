"""What the daemon answers over HTTP: health, metrics, configuration, profiles; and to whom.

In: connections to the secure port, and to plain listeners if flags ask for them. Out: texts made on
the spot from objects the app hands over (`endpoints.Sources`); nothing here changes scheduling
state. A request's way:

    server       accepts, shakes hands (tls_context, openssl), bounds how many and how slow
    connection   one client: header, idle and send limits around aiohttp
    gate         authentication (proxy, certificate, token: trust, reviews) and authorization
    pages        the page of a path: health, metrics_page, pod_resources, zpages, debug_flags,
                 profiling

Invariants: who cannot be identified or judged is refused, whatever the reason; nothing a client
sends or withholds holds up the loop or stays in memory; every cache is bounded.
"""
