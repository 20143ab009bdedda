"""Storage: volumes for claims, claims for ephemeral volumes, and volumes attached to nodes.

Changes of pods, claims, volumes and classes flow in from the store; bound claims, new volumes and
VolumeAttachments flow back through the registry. One task plays the volume controller, every
provisioner, the controller of ephemeral volumes, and the one that attaches.

A claim gets a volume at once, or when a scheduler has chosen one or selected a node, as its class
says. Every provisioner there is a class for can make volumes, save `kubernetes.io/no-provisioner`;
what it makes can be reached from where its driver's topology says.

Invariant: what is done to an object follows from what is stored, so a change may be looked at any
number of times, in any order.
"""

from kscheduler.sandbox.storage.play import Storage, default_class

__all__ = ["Storage", "default_class"]
