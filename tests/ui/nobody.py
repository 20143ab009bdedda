"""A source without a scheduler: nobody answers. Enough for what does not depend on answers."""

from kscheduler.ui.source import Lost


class Nobody:
    way = "nobody"
    namespace = "default"
    flags = ""

    async def get(self, resource, name, namespace=""):
        raise Lost("Nobody is there.")

    async def list(self, resource, namespace="", query=None):
        raise Lost("Nobody is there.")

    async def watch(self, resource, namespace="", query=None):
        raise Lost("Nobody is there.")
        yield

    async def review(self, review, namespace):
        raise Lost("Nobody is there.")
