"""Configuration: bytes of a file in, a completed configuration and ordered plugins out.

A file passes through five steps, each a module of its own, and stops at the first that fails with
`kscheduler.errors.ConfigError`, whose text is kube-scheduler's, byte for byte:

    decode    text → typed values, strictly (`load`, `strict`, on `gotext.document`)
    default   what was left out is filled in, user plugins merge with default ones (`defaults`)
    validate  every rule is checked and all violations are told at once (`validation`)
    complete  profiles are expanded into plugins per extension point (`profiles`, `extenders`)
    dump      the completed configuration is written down (`dump`, `annotate`)

A model is declared once (`model`, `plugin_args`); what decoding and dumping need to know of it is
read off its annotations (`wire`). Pydantic's own error messages are never shown, because upstream's
are an interface; that is why decoding is ours and not `model_validate`.

Feature gates are an argument of each step, never a global. Models are frozen: a later step that
changes something (a flag, an extender) makes a copy with `model_copy(update={...})`.

Public functions:

    load.load_config(text: bytes, *, gates: Gates) -> KubeSchedulerConfiguration
    load.load_config_file(path: str, *, gates: Gates) -> KubeSchedulerConfiguration
    defaults.default_config(gates: Gates) -> KubeSchedulerConfiguration
    validation.validate(config, gates: Gates) -> list[FieldError]        # empty = valid
    validation.validate_fit_args(args: NodeResourcesFitArgs) -> list[FieldError]
    field_errors.aggregate(errors: Iterable[FieldError]) -> str          # "e1" or "[e1, e2]"
    catalog.IN_TREE: Mapping[str, frozenset[Point]]                      # what can run where
    profiles.expand(profile, points_of: Mapping[str, frozenset[str]]) -> EffectivePlugins
    profiles.complete(config, points_of, *, gates: Gates) -> Completed   # all profiles + extenders
    dump.to_yaml(config) -> str                                          # --write-config-to
    dump.to_json(config) -> str                                          # /configz
    annotate.annotated(text: bytes, *, gates: Gates) -> list[AnnotatedLine]
    duration.parse_duration(text: str) -> Duration                       # Go syntax, Go's errors

`Gates` is anything with `enabled(name: str) -> bool`. `Duration` is an int of nanoseconds that
prints like Go (`str(d) == "10m0s"`) and has `.seconds` as a float. `Completed` carries `config` (as
loaded, with what building extenders changed: /configz below verbosity 2), `written` (profiles as
built: what --write-config-to and /configz from verbosity 2 on show) and `plugins` (scheduler name →
EffectivePlugins).
"""
