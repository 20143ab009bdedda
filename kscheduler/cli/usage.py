"""Help and usage, laid out as kube-scheduler prints them."""

import shutil
import sys
import textwrap

from kscheduler.cli.flags import GROUPS, Flag
from kscheduler.config.feature_gates import FeatureGates

PROGRAM = "kube-scheduler"

ABOUT = """\
kscheduler is kube-scheduler in Python. It watches for pods that have no node, filters the nodes
each of them could run on, scores those that are left and binds the pod to the best one. Flags,
configuration file, decisions, events and metrics are those of kube-scheduler 1.37, so it can
stand in for the cluster's scheduler or run beside it under a name of its own."""

COMMANDS = """
Commands (each has its own --help):

  kscheduler config print-defaults   the configuration that an empty file stands for
  kscheduler config validate FILE    every mistake in a configuration file
  kscheduler config show FILE        the file completed, with what was defaulted told apart
  kscheduler config plugins          all plugins there are, out-of-tree ones included
  kscheduler sandbox                 an embedded cluster to try the scheduler on

  kscheduler ui                      a page that shows a cluster's scheduling, and answers
  kscheduler explain POD             why a pod is where it is, or why it waits
  kscheduler why-not POD NODE        why a pod is not on a node
  kscheduler pending                 pods that wait, why, and what wakes them
  kscheduler what-if -f FILE         would these pods fit, and where

Shell completion:

  eval "$(_KSCHEDULER_COMPLETE=bash_source kscheduler)"   in bash; zsh_source in zsh
  _KSCHEDULER_COMPLETE=fish_source kscheduler | source    in fish
"""

_NARROWEST = 24
_BLOCK_INDENT = 16


def help_text(columns: int) -> str:
    return f"{ABOUT}\n\n{usage_text(columns)}{COMMANDS}"


def usage_text(columns: int) -> str:
    """The usage line and all groups of flags; 0 columns means not to wrap."""
    groups = (f"\n{group} flags:\n\n{_table(flags, columns)}" for group, flags in GROUPS.items())
    return f"Usage:\n  {PROGRAM} [flags]\n{''.join(groups)}"


def terminal_columns() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _table(flags: tuple[Flag, ...], columns: int) -> str:
    """One row per flag: its dashes, name and type, and beside them its help."""
    heads = []
    for flag in flags:
        dashes = f"  -{flag.short}, --" if flag.short else "      --"
        heads.append(f"{dashes}{flag.name} {flag.type.word}".rstrip())
    indent = max(map(len, heads)) + 3
    rows = []
    for head, flag in zip(heads, flags, strict=True):
        text = flag.help
        if flag.name == "feature-gates":
            gates = FeatureGates.defaults().descriptions()
            text = "\n".join([text, *(f"kube:{gate}" for gate in gates)])
        if default := flag.type.shown_default(flag.default):
            text = f"{text} (default {default})"
        rows.append(f"{head.ljust(indent)}{_wrapped(text, indent, columns)}\n")
    return "".join(rows)


def _wrapped(text: str, indent: int, columns: int) -> str:
    """The text with its further lines indented; as a block below when there is little room."""
    if not columns:
        return text.replace("\n", "\n" + " " * indent)
    start = ""
    if columns - indent < _NARROWEST:
        indent, start = _BLOCK_INDENT, "\n" + " " * _BLOCK_INDENT
    width = max(columns - indent, _NARROWEST)
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines: list[str] = []
    for line in text.splitlines():
        lines += wrapper.wrap(line) or [""]
    return start + ("\n" + " " * indent).join(lines)
