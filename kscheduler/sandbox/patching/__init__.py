"""Patches: four content types, one question — what should this object look like now?

In flow the stored object and the patch body, out flows a new object; nothing is written here and
the originals are not touched. `shapes` knows which lists are keyed, sets or atomic; strategic
merge and server-side apply both follow it.
"""
