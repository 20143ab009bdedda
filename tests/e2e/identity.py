"""Who the daemon is on a server, and what it may do there: the one place that decides.

It is the service account of `deploy/`, with the rules that are deployed for it and no others. To
see what needs a rule:

    python -m tests.e2e.identity                                       # the rules, numbered
    KSCHEDULER_E2E_WITHOUT_RULE=5 pytest tests/e2e -k preemption       # all but the fifth
    KSCHEDULER_E2E_PATIENCE=10                                         # and fail sooner
    KSCHEDULER_E2E_RULES=other.yaml pytest tests/e2e                   # other rules altogether
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.e2e.api import Api, Json, RefusedError, until

RULES_VARIABLE = "KSCHEDULER_E2E_RULES"
WITHOUT_VARIABLE = "KSCHEDULER_E2E_WITHOUT_RULE"
# Another scheduler under the same flags, to see whether the tests are right about it.
PROGRAM_VARIABLE = "KSCHEDULER_E2E_PROGRAM"
DEPLOY = Path(__file__).parents[2] / "deploy"
DEPLOYED = DEPLOY / "base" / "rbac.yaml"
# Further rules, of a component that is opt-in.
AGGREGATED = DEPLOY / "components" / "aggregated-api" / "rbac.yaml"
NAMESPACE = ACCOUNT = LEASE = "kscheduler"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
# Written by a server that cannot issue tokens for service accounts.
STATIC = "service-account.kubeconfig"
TOKEN_SECONDS = 6 * 3600
_RBAC = "rbac.authorization.k8s.io"


async def establish(api: Api, server: Path, folder: Path) -> Path:
    """A kubeconfig for the daemon on the server whose files are in `server`; who asked before has
    what is there already.
    """
    await _create_once(api, "namespaces", {"metadata": {"name": NAMESPACE}})
    await _create_once(api, "serviceaccounts", {"metadata": {"name": ACCOUNT}}, NAMESPACE)
    await _grant(api)
    if (server / STATIC).exists():
        return server / STATIC
    return write_kubeconfig(server, folder / "daemon.kubeconfig", {"token": await new_token(api)})


async def _grant(api: Api) -> None:
    """Returns when the server goes by the rules."""
    documents = granted_rules()
    roles = {document["metadata"]["name"]: document for document in documents if _rules(document)}
    bound = [one for one in documents if one.get("roleRef", {}).get("name") in roles]
    # Those that can be asked about come last, so that the others are known as well.
    others = (one for one in documents if one not in bound)
    for document in (*_foreign_needs(), *others, *bound):
        resource = document["kind"].lower() + "s"
        await _create_once(api, resource, document, document["metadata"].get("namespace", ""))
    for binding in bound:
        await becomes_allowed(api, _question(roles[binding["roleRef"]["name"]]))


async def becomes_allowed(api: Api, question: Json) -> None:
    """A server learns of rules as everybody does, some time after they were written."""

    async def allowed() -> bool:
        where = "apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool((await api.send("POST", where, {"spec": question}))["status"]["allowed"])

    await until(allowed, f"it is allowed: {question}")


def _question(role: Json) -> Json:
    """Whether the daemon may do something that this role is for."""
    rule = _rules(role)[0]
    resource, _, subresource = rule["resources"][0].partition("/")
    asked = {
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "namespace": role["metadata"].get("namespace", ""),
        "name": next(iter(rule.get("resourceNames", ())), ""),
    }
    return {"user": USER, "groups": list(GROUPS), "resourceAttributes": asked}


def _rules(document: Json) -> list[Json]:
    rules: list[Json] = document.get("rules", [])
    return rules


async def new_token(api: Api, namespace: str = NAMESPACE, account: str = ACCOUNT) -> str:
    """As a kubelet asks for one on behalf of a pod."""
    wish = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    where = f"api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = (await api.send("POST", where, wish))["status"]["token"]
    return token


def write_kubeconfig(server: Path, path: Path, user: Json) -> Path:
    """The administrator's, with another user in it."""
    config = yaml.safe_load((server / "kubeconfig").read_text())
    config["users"][0]["user"] = user
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


def granted_rules() -> list[Json]:
    """The documents of the file of rules; without one of them if that was asked for."""
    documents = documents_of(Path(os.environ.get(RULES_VARIABLE) or DEPLOYED))
    return _without(int(os.environ.get(WITHOUT_VARIABLE) or 0), documents)


def aggregated_rules() -> list[Json]:
    """Those of the component, whose numbers follow those of the base."""
    before = len(list(places(documents_of(DEPLOYED))))
    left_out = int(os.environ.get(WITHOUT_VARIABLE) or 0) - before
    return _without(left_out, documents_of(AGGREGATED))


def documents_of(path: Path) -> list[Json]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def _without(number: int, documents: list[Json]) -> list[Json]:
    found = list(places(documents))
    if 0 < number <= len(found):
        role, place = found[number - 1]
        del role["rules"][place]
    return documents


def places(documents: list[Json]) -> Iterator[tuple[Json, int]]:
    for document in documents:
        for place in range(len(document.get("rules", ()))):
            yield document, place


def _foreign_needs() -> list[Json]:
    """Another program needs what it needs."""
    if not os.environ.get(PROGRAM_VARIABLE):
        return []
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    return [
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"e2e:{role}"},
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": _RBAC},
            "subjects": [subject],
        }
        for role in ("system:kube-scheduler", "system:volume-scheduler")
    ]


async def _create_once(api: Api, resource: str, body: Json, namespace: str = "") -> None:
    try:
        await api.create(resource, body, namespace)
    except RefusedError as error:
        if error.code != 409:
            raise


def main() -> None:
    documents = [*documents_of(DEPLOYED), *documents_of(AGGREGATED)]
    for number, (role, place) in enumerate(places(documents), 1):
        print(f"{number:3} {role['metadata']['name']}: {json.dumps(role['rules'][place])}")


if __name__ == "__main__":
    main()
