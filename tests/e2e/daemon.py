"""The scheduler as its users run it: a process of its own, started by its console script."""

import asyncio
import os
import re
import signal
import sysconfig
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from tests.controlplane.plane import free_port
from tests.e2e.api import PATIENCE_SECONDS, until
from tests.e2e.identity import PROGRAM_VARIABLE

END_SECONDS = 30.0
# Information, warnings, and the further lines of a value that takes several.
HARMLESS = re.compile(r"[IW]\d{4} |\s|$")
KNOWN_VERSION = "informer_store_resource_version"
FLAGS = ("--bind-address=127.0.0.1", "-v=3")


def ours() -> Path:
    named = os.environ.get(PROGRAM_VARIABLE)
    return Path(named) if named else Path(sysconfig.get_path("scripts")) / "kscheduler"


class Daemon:
    """One run of the scheduler; its log stays when it ends."""

    def __init__(self, process: Process, log: Path, url: str, token: str) -> None:
        self.process = process
        self._log = log
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"}

    @classmethod
    async def start(
        cls,
        log: Path,
        token: str,
        *flags: str,
        program: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Daemon":
        port = free_port()
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                program or ours(),
                *FLAGS,
                f"--secure-port={port}",
                *flags,
                stdout=output,
                stderr=output,
                env=os.environ | (environment or {}),
            )
        return cls(process, log, f"https://127.0.0.1:{port}", token)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    def errors(self) -> list[str]:
        """Lines of its log that tell of trouble: errors, refusals, and what is no log line at all,
        as an interpreter's last words are not.
        """
        return [
            line
            for line in self.log.splitlines()
            if not HARMLESS.match(line) or "Traceback" in line or "forbidden" in line
        ]

    async def says(self, text: str, within: float = PATIENCE_SECONDS) -> None:
        async def said() -> bool:
            assert self.running, f"the daemon has ended:\n{self.log}"
            return text in self.log

        await until(said, f"the daemon says {text!r}", seconds=within)

    async def in_sync(self) -> None:
        await self.says('"Handlers synced"')

    async def metric(self, line: str) -> float | None:
        """The value of `name{label="value"}` as served now; None while there is no such line."""
        return (await self._samples()).get(line)

    async def _samples(self) -> dict[str, float]:
        async with (
            aiohttp.ClientSession(headers=self._headers) as session,
            session.get(f"{self.url}/metrics", ssl=False) as answer,
        ):
            answer.raise_for_status()
            text = await answer.text()
        pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    async def shows(self, line: str, value: float) -> None:
        """Wait until a metric has this value; one that is absent counts as zero."""

        async def shown() -> bool:
            return (await self.metric(line) or 0) == value

        await until(shown, f"{line} is {value}")

    async def knows(self, resource: str, version: str) -> None:
        """Wait until it has seen a collection up to this version. What happens in one collection it
        sees in order; of two, either may come first.
        """

        async def seen() -> bool:
            return any(
                value >= int(version)
                for name, value in (await self._samples()).items()
                if name.startswith(f"{KNOWN_VERSION}{{") and f'resource="{resource}"' in name
            )

        await until(seen, f"{resource} are known up to {version}")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """Ask it to end; its exit code."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_SECONDS):
            return await self.process.wait()
