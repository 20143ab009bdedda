"""Decisions are kept: why a pod is where it is, or is not anywhere, for whoever asks afterwards.

In flows every attempt when it is decided, and again when it has ended: `DecisionLog` is the
`DecisionRecorder` of the cycle. What it keeps of an attempt is what the cycle had in hand, as
columns and bitmaps (`record`), within a number of bytes; attempts of a pending pod that ended alike
are one entry with a count, so that a week of waiting takes no more room than a minute. Out flow the
objects of `api.explanation` (`explain`), which cost something only when they are asked for.

Invariant: a record refers to no array of the living state, so it stays true when nodes change.
"""
