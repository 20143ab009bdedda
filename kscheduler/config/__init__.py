"""Configuration: bytes of a file in, a completed configuration and ordered plugins out.

A file passes through five steps and stops at the first that fails with
`kscheduler.errors.ConfigError`, whose text is kube-scheduler's, byte for byte:

    decode    text → typed values, strictly (`load`, on `gotext.document` and `gotext.unmarshal`)
    default   missing values are filled in, user plugins merge with default ones (`defaults`)
    validate  every rule is checked and all violations are reported at once (`validation`)
    complete  profiles are expanded into plugins per extension point (`profiles`, `extenders`)
    dump      the completed configuration is written down (`dump`, `annotate`)

Open `load` first. A model is declared once (`model`); what decoding and dumping need to know of it
is read off its annotations (`wire`). Pydantic's own error messages are never shown, because
upstream's are an interface; that is why decoding is ours and not `model_validate`. Violated rules
are `api.field_errors.FieldError`s; its `aggregate` makes one text of them.

Plugins are declared beside their classes, arguments included (`plugin_args` has what those have in
common). The registry makes a `catalog.Catalog` of the declarations, and every step takes it as an
argument, like the feature gates: nothing here imports a plugin, and nothing is a global. Models are
frozen: a later step that changes something (a flag, an extender) makes a copy with
`model_copy(update={...})`.

Public functions:

    load.load_config(text: bytes, catalog, *, gates: Gates) -> KubeSchedulerConfiguration
    load.load_config_file(path: str, catalog, *, gates: Gates) -> KubeSchedulerConfiguration
    defaults.default_config(catalog, gates: Gates) -> KubeSchedulerConfiguration
    validation.validate(config, catalog, gates: Gates) -> list[FieldError]   # empty = valid
    profiles.expand(profile, points_of) -> EffectivePlugins
    profiles.complete(config, catalog, *, gates: Gates) -> Completed         # profiles + extenders
    dump.to_yaml(config) -> str                                              # --write-config-to
    dump.to_json(config) -> str                                              # /configz
    annotate.annotated(text: bytes, catalog, *, gates: Gates) -> list[AnnotatedLine]

`Gates` is anything with `enabled(name: str) -> bool`. `Completed` carries `config` (as loaded, with
what building extenders changed: /configz below verbosity 2), `written` (profiles as built: what
--write-config-to and /configz from verbosity 2 on show) and `plugins` (scheduler name →
EffectivePlugins).

Flags are the other half: `options` has their values, `option_checks` and `metric_options` their
rules, `feature_gates` (with `gate_table` and `emulation`) what --feature-gates and
--emulated-version come to.
"""
