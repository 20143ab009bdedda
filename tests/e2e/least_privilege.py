"""Shows that no rule of deploy/base/rbac.yaml, nor of the component for the aggregated API, is one
too many: without it, a named test fails.

    KSCHEDULER_BUILD_CONTROLPLANE=1 python -m tests.e2e.least_privilege [NUMBER…]

Each rule is left out in turn and the test that needs it is run; first all of these tests are run
with all the rules. Exit code 1 if a test fails that should pass, or passes that should fail.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.identity import (
    AGGREGATED,
    DEPLOYED,
    WITHOUT_VARIABLE,
    documents_of,
    places,
)

HERE = Path(__file__).parent
BINDS = "test_binding.py::test_a_pod_is_bound_and_its_event_says_where"
SERVES = "test_serving.py::test_who_may_see_what"
CLAIMS = "test_devices.py::test_pods_that_share_a_claim_share_its_node"
VOLUMES = "test_volumes.py::test_volumes_are_made_for_the_node_that_was_selected"
LEADS = "test_election.py::test_a_leader_that_ends_in_order_gives_its_lease_back"

SUCCEEDS = (
    "test_explanation_ha.py::"
    "test_the_next_leader_is_asked_when_one_is_killed_while_somebody_watches"
)

NOT_SHOWN = ""

# The test that needs each rule, in the order of the rules.
NEEDED_BY = (
    BINDS,  # pods
    BINDS,  # nodes
    BINDS,  # pods/binding
    "test_unschedulable.py::test_condition_and_event_say_why",
    "test_preemption.py::test_a_less_important_pod_makes_room",
    "test_preemption.py::test_budgets_turn_the_choice",
    BINDS,  # events
    BINDS,  # namespaces
    BINDS,  # services, replicationcontrollers
    BINDS,  # replicasets, statefulsets
    BINDS,  # volumes and claims, read
    BINDS,  # storage.k8s.io
    "test_volumes.py::test_a_daemon_killed_between_two_writes_leaves_nothing_behind",
    VOLUMES,  # claims, written
    BINDS,  # slices, classes and taint rules
    BINDS,  # claims of devices, read
    CLAIMS,  # their finalizers
    CLAIMS,  # their status
    CLAIMS,  # the virtual subresource for allocations
    "test_devices.py::test_an_extended_resource_is_served_by_the_devices_of_a_class",
    NOT_SHOWN,  # pods/finalizers, for an admission plugin that test servers do not have
    "test_explanation.py::test_a_review_knows_the_priority_classes_of_the_cluster",
    "test_explanation.py::test_a_review_makes_claims_from_templates",
    SERVES,  # tokenreviews
    SERVES,  # subjectaccessreviews
    LEADS,  # leases, created
    LEADS,  # the lease, read and renewed
    LEADS,  # events about the lease
    "test_deploy.py::test_whoever_is_bound_to_the_readers_role_may_see_metrics",
    SUCCEEDS,  # endpointslices, created by the first leader
    SUCCEEDS,  # the one of the Service, updated by the next
)


def passes(tests: set[str], without: int = 0) -> bool:
    environment = os.environ | {WITHOUT_VARIABLE: str(without), "KSCHEDULER_E2E_PATIENCE": "10"}
    if not without:
        del environment["KSCHEDULER_E2E_PATIENCE"]
    server = [] if "sandbox" in sys.argv else ["-k", "kube-apiserver or explanation_ha"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *server]
    paths = [str(HERE / test) for test in sorted(tests)]
    done = subprocess.run([*command, *paths], env=environment, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout.decode() + done.stderr.decode())
    return done.returncode == 0


def main() -> None:
    rules = list(places([*documents_of(DEPLOYED), *documents_of(AGGREGATED)]))
    assert len(rules) == len(NEEDED_BY), "one test per rule"
    wanted = [int(one) for one in sys.argv[1:] if one.isdecimal()] or range(1, len(rules) + 1)
    wanted = [number for number in wanted if NEEDED_BY[number - 1] != NOT_SHOWN]
    good = passes({NEEDED_BY[number - 1] for number in wanted})
    print("with all rules:", "all pass" if good else "FAILED", flush=True)
    for number in wanted:
        role, place = rules[number - 1]
        rule = role["rules"][place]
        what = ", ".join(rule.get("resources") or rule["nonResourceURLs"])
        superfluous = passes({NEEDED_BY[number - 1]}, number)
        good &= not superfluous
        told = "NOT NEEDED BY" if superfluous else "needed by"
        verbs = ", ".join(rule["verbs"])
        print(f"{number:3} {what} ({verbs}): {told} {NEEDED_BY[number - 1]}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
