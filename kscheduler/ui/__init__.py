"""The page: a cluster's scheduling, to look at and to ask, on loopback and with the user's rights.

    Source (the user's credentials) ──▶ Cluster, Feed ──▶ views (HTML) ──▶ Server ──▶ browser

Open `server` first. `source` says what may be asked of whom; `cluster` reads it and keeps it for a
moment; `feed` tells open pages what changes; `views` has a module per view, built of `html`,
`parts` and `grid`; `guard` lets in the one browser that was opened. `static` are the scripts and
the style: the page works without scripts, and they make it live.

Invariants: nothing is stored and nothing is written to the cluster; text of the cluster is never
markup; every address is relative; all that is read and kept has a bound. Nothing of the daemon
imports this package.
"""
