"""The daemon's flags described to click, which completes names and values from them."""

from typing import Any

import click

from kscheduler.cli.flags import Flag, all_flags
from kscheduler.cli.values import BOOL
from kscheduler.config.feature_gates import FeatureGates

FILES = (
    "config",
    "write-config-to",
    "kubeconfig",
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "tls-cert-file",
    "tls-private-key-file",
    "client-ca-file",
    "requestheader-client-ca-file",
    "allow-metric-labels-manifest",
)
CHOICES = {
    "logging-format": ["text", "json"],
    "tls-min-version": ["VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"],
    "leader-elect-resource-lock": ["leases"],
    "version": ["true", "raw"],
}


def parameters() -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for flag in all_flags():
        names = [f"--{flag.name}", flag.field]
        if flag.short:
            names.append(f"-{flag.short}")
        is_flag = flag.type is BOOL
        value_type = None if is_flag else completed_type(flag)
        options.append(click.Option(names, help=flag.help, is_flag=is_flag, type=value_type))
    return options


def completed_type(flag: Flag) -> "click.ParamType[Any]":
    """The click type whose values the shell should offer."""
    if flag.name in FILES:
        return click.Path()
    if flag.name == "cert-dir":
        return click.Path(file_okay=False)
    if flag.name == "feature-gates":
        return click.Choice([f"{name}=" for name in sorted(FeatureGates.defaults().states())])
    return click.Choice(CHOICES[flag.name]) if flag.name in CHOICES else click.STRING
