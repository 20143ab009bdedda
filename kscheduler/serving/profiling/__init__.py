"""Profiles in place of Go's /debug/pprof: CPU time, objects in memory, waiting tasks.

In: requests that have passed the gate, and only if enableProfiling is set. Out: profiles in pprof's
own format (`go tool pprof https://…/debug/pprof/profile`), a timeline for speedscope, and plain
text with ?debug=1. No request, no cost; sampling takes a signal every
hundredth second of CPU, and long lists are made a few milliseconds at a time.
"""
