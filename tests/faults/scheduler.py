"""A scheduler as a process of its own, either of the two, that knows the API server as a proxy.

Its answers about itself (metrics) are authenticated past the proxy: they are evidence.
"""

import asyncio
import json
import os
import signal
import sysconfig
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp

from tests.bench.contestants import LIFTED, OURS, THEIRS, compiled, configuration
from tests.controlplane.binaries import program
from tests.kit.polling import until
from tests.kit.ports import free_port

END_SECONDS = 30.0
START_SECONDS = 60.0
JSON = "application/json"
CACHE_SIZE = "scheduler_cache_size"


class Scheduler:
    """One replica, which may be started many times."""

    def __init__(
        self,
        who: str,
        name: str,
        folder: Path,
        *,
        kubeconfig: Path,
        direct: Path,
        token: str,
        configured: Mapping[str, Any],
        flags: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        speaks_json: bool = False,
    ) -> None:
        """`kubeconfig` leads to the proxy, `direct` to the server; `configured` are fields of the
        configuration file, `token` is one that may read metrics.
        """
        self.who = who
        self.name = name
        self.log = folder / f"{name}.log"
        self.process: Process | None = None
        # Of processes that ended although nobody had asked them to.
        self.exits: list[int] = []
        self._token = token
        self.environment = {**os.environ, **(compiled() if who == OURS else {})}
        self.environment |= environment or {}
        document = configuration(who, kubeconfig, LIFTED)
        if speaks_json:
            document["clientConnection"]["contentType"] = JSON  # type: ignore[index]
            document["clientConnection"]["acceptContentTypes"] = JSON  # type: ignore[index]
        config = folder / f"{name}.yaml"
        config.write_text(json.dumps(document | configured))
        self._port = free_port()
        path = program(THEIRS) if who == THEIRS else Path(sysconfig.get_path("scripts")) / OURS
        self._command = [
            str(path),
            f"--config={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--authentication-kubeconfig={direct}",
            f"--authorization-kubeconfig={direct}",
            *flags,
        ]

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self, *, wrapper: Sequence[str] = (), **options: Any) -> None:
        """Does not wait until it is ready; `options` are those of the process, `wrapper` is a
        command that runs another one.
        """
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *wrapper,
                *self._command,
                **{"stdout": output, "stderr": output, "env": self.environment, **options},
            )

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Ends it; its exit code."""
        process, self.process = self.process, None
        assert process is not None
        # It may have ended of a signal that it was sent before.
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            async with asyncio.timeout(END_SECONDS):
                return await process.wait()
        except TimeoutError:
            process.kill()
            return await process.wait()

    def note_exit(self) -> bool:
        """Whether it has ended by itself, which is written down once."""
        if self.process is None or self.process.returncode is None:
            return False
        self.exits.append(self.process.returncode)
        self.process = None
        return True

    async def samples(self) -> dict[str, float]:
        """Its metrics, by name and labels as they are served."""
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"}) as session,
            session.get(f"https://127.0.0.1:{self._port}/metrics", ssl=False) as answer,
        ):
            answer.raise_for_status()
            text = await answer.text()
        pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    async def cached(self) -> dict[str, int]:
        """How many nodes, pods and assumed pods its cache holds."""
        samples = await self.samples()
        return {
            kind: int(samples.get(f'{CACHE_SIZE}{{type="{kind}"}}', 0))
            for kind in ("nodes", "pods", "assumed_pods")
        }

    async def ready(self) -> None:
        """Until it serves, which is before it schedules."""

        async def serves() -> bool:
            assert not self.note_exit(), f"{self.name} ended: {self.last_words()}"
            try:
                await self.samples()
            except aiohttp.ClientError:
                return False
            return True

        await until(serves, f"{self.name} serves", seconds=START_SECONDS, longest_pause=0.05)

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]
