"""Preemption: which pods of lower priority to evict so that a pod fits, and their eviction.

`evaluator` tells the story: candidate nodes, a dry run on each, the best candidate, its victims.
"""
