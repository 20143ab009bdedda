"""Access: authentication and authorization of requests.

In flow a bearer token or a client certificate, out flow a User and a decision. Users live in a
table (tokens) or in their certificate; rights live in the stored RBAC objects, so that
`kubectl create rolebinding` takes effect at once. TokenReview and SubjectAccessReview ask the same
two questions on behalf of others. Certificates and kubeconfigs for clients are made here too.
"""
