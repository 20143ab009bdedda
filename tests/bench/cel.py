"""Time per evaluation of CEL selectors: `python -m tests.bench.cel`.

The expressions and cel-go's times are those of the oracle's CEL.md. Each evaluation is given a new
device, so building its maps is part of the time, as it is of cel-go's; the second column keeps the
device, as the allocator does for several selectors.
"""

import time
from collections.abc import Callable

from kscheduler.api import resource
from kscheduler.api.resource import DeviceAttribute, DeviceCapacity
from kscheduler.cel import CelError, Device, Program, compile, device_of

DOMAIN = "gpu.example.com"
A = f'device.attributes["{DOMAIN}"]'
C = f'device.capacity["{DOMAIN}"]'
# Expression, cel-go's microseconds per evaluation (minimum of 14 runs).
TIMED = (
    (f'device.driver == "{DOMAIN}"', 4.4),
    (f'{A}.model == "A100-SXM4-80GB"', 4.8),
    (
        f'device.driver == "{DOMAIN}" && {A}.model.matches("A100.*") && '
        f'{C}.memory.compareTo(quantity("40Gi")) >= 0',
        7.6,
    ),
    (f'has({A}.driverVersion) && {A}.driverVersion.isGreaterThan(semver("535.0.0"))', 7.3),
    (
        f'cel.bind(a, {A}, a.?model.orValue("") in ["A100-SXM4-80GB", "H100"] && a.cores > 100 '
        "&& a.ecc)",
        6.7,
    ),
    (f'{A}.exists(k, k.startsWith("drv")) || {A}.numa == 0', 14.6),
    (f"{A}.missing == 1", 5.6),
)
# Eight attributes, one of them a version, and two capacities.
GPU = resource.Device(
    "gpu-0",
    attributes={
        "model": DeviceAttribute(string_value="A100-SXM4-80GB"),
        "uuid": DeviceAttribute(string_value="GPU-7b2f5a10-3c6e-4c6b-9d1b-0e8f1a2b3c4d"),
        "driverVersion": DeviceAttribute(version_value="535.104.5"),
        "cores": DeviceAttribute(int_value=108),
        "numa": DeviceAttribute(int_value=0),
        "ecc": DeviceAttribute(bool_value=True),
        "zone": DeviceAttribute(string_value="z1"),
        "index": DeviceAttribute(int_value=3),
    },
    capacity={"memory": DeviceCapacity("80Gi"), "slots": DeviceCapacity("7")},
)


def device() -> Device:
    """The device as a slice brings it, before anything was evaluated on it."""
    return device_of(DOMAIN, GPU)


def microseconds(run: Callable[[], object], rounds: int = 14, size: int = 1000) -> float:
    """The least time per call over several rounds."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(size):
            run()
        best = min(best, time.perf_counter() - started)
    return best / size * 1e6


def outcome(program: Program, target: Device) -> object:
    """What the program says of the device, errors as their text."""
    try:
        return program.matches(target)
    except CelError as error:
        return str(error)


def main() -> None:
    print(f"{'new device':>10} {'kept':>6} {'cel-go':>6} {'ratio':>5} {'compile':>7}  expression")
    news, references = [], []
    for expression, reference in TIMED:
        program = compile(expression)
        kept = device()
        new = microseconds(lambda program=program: outcome(program, device()))
        old = microseconds(lambda program=program, kept=kept: outcome(program, kept))
        compiling = microseconds(lambda text=expression: compile(text), rounds=3, size=20)
        news.append(new)
        references.append(reference)
        ratio = new / reference
        print(
            f"{new:10.2f} {old:6.2f} {reference:6.1f} {ratio:5.2f} {compiling:7.0f}  {expression}"
        )
    mean, reference_mean = sum(news) / len(news), sum(references) / len(references)
    print(f"mean {mean:.2f} µs, cel-go {reference_mean:.2f} µs, ratio {mean / reference_mean:.2f}")


if __name__ == "__main__":
    main()
