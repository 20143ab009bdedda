"""The real kubectl, if there is one."""

import asyncio
import os
import shutil

import pytest
import yaml

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl on PATH")


class Kubectl:
    """Runs kubectl in the background of the loop that serves it."""

    def __init__(self, home, kubeconfig):
        self.home = home
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig),
        }

    async def start(self, *arguments):
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def attempt(self, *arguments, manifest=None):
        """(exit code, stdout, stderr)."""
        process = await self.start(*arguments)
        text = yaml.safe_dump(manifest).encode() if manifest else b""
        out, err = await asyncio.wait_for(process.communicate(text), 60)
        return process.returncode, out.decode(), err.decode()

    async def __call__(self, *arguments, manifest=None):
        code, out, err = await self.attempt(*arguments, manifest=manifest)
        assert (code, err) == (0, ""), f"kubectl {' '.join(arguments)}: {err}"
        return out.strip()


def lines(text):
    return [line.split() for line in text.splitlines()]
