"""Pages over HTTP: health, metrics, configuration, profiles; and access control for them.

In: connections to the secure port, and to plain listeners if flags ask for them. Out: texts made on
the spot from objects the app hands over (`endpoints.Sources`); nothing here changes scheduling
state. Open `endpoints` first: it lists the pages. Before anything is served, `listeners` binds the
sockets and `delegation` finds the API servers that review callers. A request's way from there:

    server       accepts, shakes hands (tls_context), bounds how many and how slow
    connection   one client: header, idle and send limits around aiohttp
    gate         logs, authenticates and authorizes (access, trust, reviews), finds the page
    pages        health, metrics_page (exposition), pod_resources, zpages, profiling

Invariants: a caller that cannot be identified or authorized is refused, whatever the reason;
nothing a client sends or withholds holds up the loop or stays in memory; every cache is bounded.
`listeners`, `delegation` and `health` are imported at start, everything else once scheduling has
begun: it takes 0.2 s.
"""
