"""Events about objects, sent without ever delaying a binding.

`broadcaster` mirrors client-go's tools/events (events.k8s.io/v1); `series` decides there which
events repeat one another. `legacy` mirrors tools/record (core/v1), for leader election and for
servers without the newer API. Callers see only the `Recorder` protocol; open `broadcaster` first.
"""
