"""REST: HTTP requests in, answers of the registry out.

A request passes `kscheduler.sandbox.server`: interceptors (tests), authentication and authorization
(`filters`), then `handlers` for objects or `discovery` for every other path. Open `handlers` first:
it has a method per verb. `negotiation` reads bodies (`protobuf` too), `representation` writes
answers, `watch` streams changes; `openapi` and `schemas` describe it all to clients.

Bytes are decoded once on the way in and, for stored objects, never encoded on the way out. Every
refusal is a Status object, as clients expect.
"""
