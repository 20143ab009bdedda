"""Rules for options, checked before anything is started, in upstream's words and order."""

from collections.abc import Iterator, Sequence

from kscheduler import logs
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.metric_options import metrics_problems
from kscheduler.config.options import Options
from kscheduler.gotext.strconv import quote

log = logs.logger(__name__)

MAX_PORT = 65535


def logging_problems(options: Options, gates: FeatureGates) -> list[str]:
    """Violated rules of the logging flags, which are reported before logging works."""
    found: list[str] = []
    if options.log_flush_frequency <= 0:
        shown = quote(str(options.log_flush_frequency))
        found.append(f"flushFrequency: Invalid value: {shown}: Must be greater than zero")
    chosen = options.logging_format
    if chosen not in ("text", "json"):
        found.append(f"format: Invalid value: {quote(chosen)}: Unsupported log format")
    elif chosen == "json" and not gates.enabled("LoggingBetaOptions"):
        found.append(
            "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature"
        )
    if options.vmodule and chosen not in ("", "text"):
        found.append("vmodule: Forbidden: Only supported for text log format")
    used = {
        "text.splitStream": options.log_text_split_stream,
        "text.infoBufferSize": options.log_text_info_buffer_size.value != 0,
        "json.splitStream": options.log_json_split_stream,
        "json.infoBufferSize": options.log_json_info_buffer_size.value != 0,
    }
    if not gates.enabled("LoggingAlphaOptions"):
        found += (
            f"options.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"
            for name, is_used in used.items()
            if is_used
        )
    return found


def problems(
    options: Options, gates: FeatureGates, default_config: Sequence[str] = ()
) -> list[str]:
    """All that is wrong; `default_config` is what validation finds in the default configuration."""
    return [
        *gates.validate(),
        *default_config,
        *serving_problems(options),
        *request_header_problems(options, gates),
        *metrics_problems(options),
        *negative_numbers(options),
        *leader_service_problems(options),
    ]


def leader_service_problems(options: Options) -> Iterator[str]:
    service = options.leader_service
    namespace, slash, name = service.partition("/")
    if service and (not namespace or not slash or not name or "/" in name):
        yield f"--leader-service {service} must be namespace/name"
    elif service and options.secure_port == 0:
        yield "--leader-service needs the secure port, which --secure-port=0 turns off"


def negative_numbers(options: Options) -> Iterator[str]:
    for name in (
        "decision_log_bytes",
        "plugin_timeout",
        "plugin_wait_timeout",
        "plugin_max_failures",
    ):
        value = getattr(options, name)
        if value < 0:
            yield f"--{name.replace('_', '-')} {value} must not be negative"


def serving_problems(options: Options) -> Iterator[str]:
    port = options.secure_port
    if port > MAX_PORT:
        yield (
            f"--secure-port {port} must be between 1 and 65535, inclusive. "
            "It cannot be turned off with 0"
        )
    elif port < 0:
        yield (
            f"--secure-port {port} must be between 0 and 65535, inclusive. "
            "0 for turning off secure port"
        )


def request_header_problems(options: Options, gates: FeatureGates) -> Iterator[str]:
    users = options.requestheader_username_headers
    groups = options.requestheader_group_headers
    extras = options.requestheader_extra_headers_prefix
    uids = options.requestheader_uid_headers
    yield from _blank("requestheader-username-headers", users)
    yield from _blank("requestheader-group-headers", groups)
    yield from _blank("requestheader-extra-headers-prefix", extras)
    yield from _blank("requestheader-allowed-names", options.requestheader_allowed_names)
    for complaint in (
        _without("requestheader-username-headers", users, "X-Remote-User header"),
        _without("requestheader-group-headers", groups, "X-Remote-Group header"),
        _without("requestheader-extra-headers-prefix", extras, "X-Remote-Extra- header prefix"),
    ):
        if complaint:
            log.text_warning(complaint)
    if not gates.enabled("RemoteRequestHeaderUID"):
        if uids:
            yield (
                "--requestheader-uid-headers requires the "
                '"RemoteRequestHeaderUID" feature to be enabled'
            )
        return
    yield from _blank("requestheader-uid-headers", uids)
    if complaint := _without("requestheader-uid-headers", uids, "X-Remote-Uid header"):
        yield complaint


def _blank(flag: str, names: Sequence[str]) -> Iterator[str]:
    if any(not name.strip() for name in names):
        yield f"empty value in {quote(flag)}"


def _without(flag: str, names: Sequence[str], standard: str) -> str:
    name = standard.split()[0].lower()
    if not names or name in map(str.lower, names):
        return ""
    return (
        f"--{flag} is set without specifying the standard {standard} "
        "- API aggregation will not work"
    )
