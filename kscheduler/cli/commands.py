"""The commands there are, as `kscheduler --help` lists them; it imports nothing else."""

ABOUT = """\
kscheduler is kube-scheduler in Python. It watches for pods that have no node, filters the nodes
each of them could run on, scores those that are left and binds the pod to the best one. Flags,
configuration file, decisions, events and metrics are those of kube-scheduler 1.37, so it can
stand in for the cluster's scheduler or run beside it under a name of its own."""

# Commands as they are typed, and what each is for.
COMMANDS = {
    "sandbox": "an embedded cluster to try the scheduler on",
    "run": "the scheduler itself; its flags are those of kube-scheduler",
    "ui": "a page that shows a cluster's scheduling, and answers",
    "explain POD": "why a pod is where it is, or why it waits",
    "why-not POD NODE": "why a pod is not on a node",
    "pending": "pods that wait, why, and what wakes them",
    "what-if -f FILE": "would these pods fit, and where",
    "config print-defaults": "the configuration that an empty file stands for",
    "config validate FILE…": "every mistake in configuration files, with line and column",
    "config show FILE": "a file completed, with what was defaulted told apart",
    "config diff FILE FILE": "what one configuration does and another does not",
    "plugin list": "all plugins there are, and which of them cannot run",
    "plugin new NAME": "a package with a plugin of your own to begin with, and its tests",
}

COMPLETION = """\
Shell completion:

  eval "$(_KSCHEDULER_COMPLETE=bash_source kscheduler)"   in bash; zsh_source in zsh
  _KSCHEDULER_COMPLETE=fish_source kscheduler | source    in fish
"""


def about(command: str) -> str:
    """Purpose of a command, as `kscheduler --help` says it: `about("config diff")`."""
    return next(text for typed, text in COMMANDS.items() if f"{typed} ".startswith(f"{command} "))


def commands_help() -> str:
    """The answer to `kscheduler --help`: commands first, and where the daemon's flags are."""
    width = max(map(len, COMMANDS)) + 3
    rows = "".join(f"  {typed.ljust(width)}{text}\n" for typed, text in COMMANDS.items())
    return (
        f"{ABOUT}\n\n"
        "Usage:\n  kscheduler COMMAND [options]\n  kscheduler [flags]\n\n"
        f"Commands:\n\n{rows}\n"
        "`kscheduler COMMAND --help` tells more of each. Without a command kscheduler is the\n"
        "scheduler, as a manifest written for kube-scheduler needs it: `kscheduler run --help`\n"
        f"lists the flags, --version tells the version.\n\n{COMPLETION}"
    )
