"""Helpers that several in-tree plugins share; none of them is a plugin.

normalize_score, shape_score   raw numbers into scores
signers                        pieces of a pod's signature
row_memo, lister_memo          answers kept between attempts: by row, by what is listed
"""
