"""The forms of the Kubernetes API: what any server of it says, whatever it serves.

Two servers speak it: the sandbox's API server, and the explanation API on the secure port
(`serving.explanation`). Here is what both need: Status errors and field errors, discovery
documents, options of lists and watches, tables as kubectl prints them, OpenAPI documents.

In: declarations of resources (`resources.ServedResource`), queries, objects. Out: documents as
plain values or bytes. Nothing here waits, stores anything, or knows who asks.
"""
