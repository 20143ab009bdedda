"""The catalog: what the server says about itself and how it shows things to people.

Discovery, OpenAPI documents, and tables for `kubectl get`. Everything is derived from the resource
table; the schemas come from the official Python client's models, read when first asked for.
"""
