"""Runs the daemon and samples where its CPU time goes: python profiled.py FILE [its flags].

A timer that counts CPU time interrupts it every millisecond and notes the functions on the stack.
Unlike cProfile this does not make small functions look expensive, and a busy machine does not
matter. The report lists per function the share of samples in which it was on top, and anywhere.
"""

import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from kscheduler.cli import main

SECONDS = 0.001
LISTED = 150

path, *flags = sys.argv[1:]
on_top: Counter[str] = Counter()
anywhere: Counter[str] = Counter()


def sample(number: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        code = frame.f_code
        file = code.co_filename.rpartition("/")[2]
        stack.append(f"{file}:{code.co_firstlineno} {code.co_qualname}")
        frame = frame.f_back
    on_top.update(stack[:1])
    anywhere.update(set(stack))


def report() -> str:
    total = max(on_top.total(), 1)
    lines = [f"{total} samples", "", "anywhere   on top  function"]
    for name, count in anywhere.most_common(LISTED):
        lines.append(f"{count / total:8.1%} {on_top[name] / total:8.1%}  {name}")
    lines += ["", "on top"]
    lines += [f"{count / total:8.1%}  {name}" for name, count in on_top.most_common(60)]
    return "\n".join(lines)


signal.signal(signal.SIGPROF, sample)
signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)
try:
    main(flags)
finally:
    signal.setitimer(signal.ITIMER_PROF, 0)
    Path(path).write_text(report())
