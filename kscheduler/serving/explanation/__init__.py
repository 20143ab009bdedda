"""The explanation API: kscheduler.dev/v1alpha1 on the secure port, in the Kubernetes API's form.

In: requests below /apis/kscheduler.dev that the gate has authenticated and authorized by resource
attributes, and the parts of the running scheduler (`api.Sources`). Out: objects of
`kscheduler.api.explanation`, lists, tables, watches and Status errors. Open `api` first.

    resources    the four resources: verbs, columns, fields to select by
    api          dispatch by verb; discovery and OpenAPI beside it
    rights       what the asker may see of an object that it may get
    lists        what a query selects, pages and their pieces
    reads        one object, or a list in slices
    followed     versions of pods, nodes and the status, which are looked through while watched
    watch        changes, as they happen; `subjects` says of what
    placement_reviews    what if: questions that are answered and not stored
    absence      why there is no decision, in a sentence
    responses    objects as JSON, tables or metadata, streamed
    limits       how much one asker, and all of them, may have going on

There are two gates. The first is the request itself: get, list or watch decisions, create
placementreviews. The second is the content: the pod's own part needs `get pods` in its namespace,
names of nodes need `list nodes`, names of other pods `get pods` where they are. What is left out
for want of a right is counted, and `partial` says so.

Only the instance that schedules has decisions and pending pods: a standby answers 503 and names the
leader. Invariants: nothing is stored, no answer holds up the loop for more than a slice, and what
one asker can take of time and memory is bounded.
"""
