"""REST: HTTP requests in, answers of the registry out.

A request passes: interceptors (tests), authentication, authorization, then `resource_api` for
objects or `other_paths` for discovery and health. Bytes are decoded once on the way in and, for
stored objects, never encoded on the way out. Every refusal is a Status object, as clients expect.
"""
