"""NodeAffinity: pods choose nodes by label or name.

`plugin` filters and scores; `args` is the affinity a profile may add, with its rules.
"""
