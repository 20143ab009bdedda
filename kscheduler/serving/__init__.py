"""What the daemon answers over HTTP: health, metrics, configuration.

In: probes and scrapes on the serving port. Out: texts computed on the spot from objects the app
hands over; nothing here changes scheduling state. The port speaks TLS with a certificate made at
start, and plain HTTP to those who ask for it. Authentication and authorization will sit in front
of `endpoints.build`; until they do, every path is open, which is why `docs/differences.md` says to
bind the port to loopback.
"""
