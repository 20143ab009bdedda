"""Pods that say much about where they want to be: spread, affinity between pods, node affinity."""

from tests.adversary.inputs.table import (
    HIGH_PRIORITY,
    NAMESPACES,
    Ask,
    Json,
    Scene,
    expression,
    matching,
    named,
    pod,
    row,
)
from tests.bench.workloads import HOSTNAME, ZONE

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EVERY_POD: Json = {}
# Label keys that all nodes of the test clusters have, beside those of every cluster.
FEATURES = [f"feature.example.com/f{i:03d}" for i in range(256)]


def feature_labels(number: int) -> dict[str, str]:
    """Of the node of this number, as a feature discovery would set them: few values per key."""
    return {key: f"v{number % (2 + i % 5)}" for i, key in enumerate(FEATURES)}


def spread(key: str, unless: str, selector: Json | None = None, **more: object) -> Json:
    told = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": unless, **more}
    return told if selector is None else {**told, "labelSelector": selector}


def spreading(ask: Ask, *constraints: Json, **metadata: object) -> Scene:
    labels = {"app": ask.tag}
    more = {"labels": labels, **metadata}
    return Scene(pods=[pod(ask.tag, metadata=more, topologySpreadConstraints=[*constraints])])


@row(
    "spread-absent-keys",
    "PodTopologySpread: hard constraints over distinct keys that no node has",
    size=600,
    small=40,
)
def spread_absent(ask: Ask) -> Scene:
    own = {"matchLabels": {"app": ask.tag}}
    return spreading(ask, *(spread(key, "DoNotSchedule", own) for key in ask.label_keys()))


@row(
    "spread-absent-keys-soft",
    "PodTopologySpread: soft constraints over distinct keys that no node has",
    size=600,
    small=40,
)
def spread_absent_soft(ask: Ask) -> Scene:
    own = {"matchLabels": {"app": ask.tag}}
    return spreading(ask, *(spread(key, "ScheduleAnyway", own) for key in ask.label_keys()))


@row(
    "spread-present-keys",
    "PodTopologySpread: hard constraints over distinct keys that every node has",
    size=256,
    small=40,
)
def spread_present(ask: Ask) -> Scene:
    own = {"matchLabels": {"app": ask.tag}}
    constraints = (spread(key, "DoNotSchedule", own) for key in FEATURES[: ask.size])
    return spreading(ask, *constraints)


@row(
    "spread-present-keys-soft",
    "PodTopologySpread: soft constraints over distinct keys that every node has",
    size=256,
    small=40,
)
def spread_present_soft(ask: Ask) -> Scene:
    own = {"matchLabels": {"app": ask.tag}}
    constraints = (spread(key, "ScheduleAnyway", own) for key in FEATURES[: ask.size])
    return spreading(ask, *constraints)


@row(
    "spread-selector",
    "PodTopologySpread: one constraint whose selector has many requirements",
    size=8000,
    small=400,
)
def spread_selector(ask: Ask) -> Scene:
    selector = matching(*map(expression, ask.label_keys()))
    return spreading(ask, spread(ZONE, "DoNotSchedule", selector))


@row(
    "spread-match-label-keys",
    "PodTopologySpread: matchLabelKeys of many labels, which become requirements",
    size=6000,
    small=400,
)
def spread_match_label_keys(ask: Ask) -> Scene:
    labels = {"app": ask.tag} | dict.fromkeys(ask.label_keys(), "x")
    own = {"matchLabels": {"app": ask.tag}}
    constraint = spread(ZONE, "DoNotSchedule", own, matchLabelKeys=ask.label_keys())
    return spreading(ask, constraint, labels=labels)


def term(key: str, selector: Json, **more: object) -> Json:
    return {"topologyKey": key, "labelSelector": selector, **more}


def affine(kind: str, *terms: Json) -> Json:
    return {kind: {REQUIRED: [*terms]}}


def inclined(kind: str, *terms: Json) -> Json:
    weighted = [{"weight": 1 + i % 100, "podAffinityTerm": one} for i, one in enumerate(terms)]
    return {kind: {PREFERRED: weighted}}


def without(keys: list[str]) -> list[Json]:
    """Selectors that differ from each other and that all select every pod."""
    return [matching(expression(key)) for key in keys]


def apart(ask: Ask, names: list[str]) -> list[Json]:
    """Selectors that differ from each other and that all select no pod."""
    return [{"matchLabels": {"app": f"{ask.tag}-none-{name}"}} for name in names]


ANYWHERE: Json = {"namespaceSelector": {}}
PAYS_FOR_TERMS = "each term of a running pod that means the innocent one must be looked at"


@row(
    "running-anti-affinity-absent-keys",
    "InterPodAffinity: a running pod avoids all pods over keys that no node has",
    size=1000,
    small=80,
)
def running_anti_absent(ask: Ask) -> Scene:
    terms = (term(key, EVERY_POD, **ANYWHERE) for key in ask.label_keys())
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=affine("podAntiAffinity", *terms))])


@row(
    "running-anti-affinity-hostname",
    "InterPodAffinity: a running pod avoids all pods by many terms over one key",
    size=1000,
    small=80,
    innocent_pays=PAYS_FOR_TERMS,
)
def running_anti_hostname(ask: Ask) -> Scene:
    terms = (term(HOSTNAME, selector, **ANYWHERE) for selector in without(ask.label_keys()))
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=affine("podAntiAffinity", *terms))])


@row(
    "running-anti-affinity-nobody",
    "InterPodAffinity: a running pod avoids pods that do not exist, by many terms",
    size=2000,
    small=120,
)
def running_anti_nobody(ask: Ask) -> Scene:
    terms = (term(HOSTNAME, one, **ANYWHERE) for one in apart(ask, ask.names()))
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=affine("podAntiAffinity", *terms))])


@row(
    "running-preferred-affinity",
    "InterPodAffinity: a running pod would like to have all pods near, by many terms",
    size=1000,
    small=80,
    innocent_pays=PAYS_FOR_TERMS,
)
def running_preferred(ask: Ask) -> Scene:
    terms = (term(ZONE, selector, **ANYWHERE) for selector in without(ask.label_keys()))
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=inclined("podAffinity", *terms))])


@row(
    "running-preferred-affinity-absent-keys",
    "InterPodAffinity: a running pod would like to have all pods near, over absent keys",
    size=1000,
    small=80,
)
def running_preferred_absent(ask: Ask) -> Scene:
    terms = (term(key, EVERY_POD, **ANYWHERE) for key in ask.label_keys())
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=inclined("podAffinity", *terms))])


@row(
    "anti-affinity-terms",
    "InterPodAffinity: a pod avoids pods by many terms with distinct selectors",
    size=3000,
    small=80,
)
def anti_affinity(ask: Ask) -> Scene:
    terms = (term(HOSTNAME, selector) for selector in apart(ask, ask.names()))
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", *terms))])


@row(
    "anti-affinity-absent-keys",
    "InterPodAffinity: a pod avoids all pods over many keys that no node has",
    size=3000,
    small=80,
)
def anti_affinity_absent(ask: Ask) -> Scene:
    terms = (term(key, EVERY_POD, **ANYWHERE) for key in ask.label_keys())
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", *terms))])


@row(
    "affinity-terms",
    "InterPodAffinity: a pod wants to be near itself by many terms over many keys",
    size=256,
    small=40,
    innocent_pays="one look-up per label key that nodes have and terms of running pods name",
)
def affinity_terms(ask: Ask) -> Scene:
    own = {"matchLabels": {"app": ask.tag}}
    terms = (term(key, own) for key in FEATURES[: ask.size])
    labels = {"labels": {"app": ask.tag}}
    return Scene(pods=[pod(ask.tag, metadata=labels, affinity=affine("podAffinity", *terms))])


@row(
    "preferred-affinity-terms",
    "InterPodAffinity: a pod has many preferences with distinct selectors over absent keys",
    size=3000,
    small=60,
)
def preferred_affinity(ask: Ask) -> Scene:
    pairs = zip(ask.label_keys(), without(ask.label_keys()), strict=True)
    terms = (term(key, selector, **ANYWHERE) for key, selector in pairs)
    return Scene(pods=[pod(ask.tag, affinity=inclined("podAffinity", *terms))])


@row(
    "anti-affinity-namespaces",
    "InterPodAffinity: terms that name thousands of namespaces",
    size=10000,
    small=1600,
)
def anti_affinity_namespaces(ask: Ask) -> Scene:
    """Eight terms share the names, so that the object stays as large as its size says."""
    names = ask.names()
    terms = [
        term(HOSTNAME, selector, namespaces=names[i::8])
        for i, selector in enumerate(apart(ask, ask.names(8)))
    ]
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", *terms))])


@row(
    "anti-affinity-namespace-selectors",
    "InterPodAffinity: many distinct namespace selectors, each to be resolved",
    size=2000,
    small=50,
)
def anti_affinity_namespace_selectors(ask: Ask) -> Scene:
    terms = (
        term(HOSTNAME, {"matchLabels": {"app": ask.tag}}, namespaceSelector=selector)
        for selector in without(ask.label_keys())
    )
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", *terms))])


@row(
    "many-labelled-namespaces",
    "InterPodAffinity: thousands of namespaces to which a namespace selector is to be resolved",
    size=1000,
    small=60,
    by=NAMESPACES,
)
def many_namespaces(ask: Ask) -> Scene:
    labels = dict.fromkeys(ask.label_keys(20), "x")
    before = [
        named("Namespace", name, namespace="", metadata={"labels": labels}) for name in ask.names()
    ]
    selector = matching(*(expression(key, "Exists") for key in ask.label_keys(20)))
    one = term(HOSTNAME, {"matchLabels": {"app": ask.tag}}, namespaceSelector=selector)
    return Scene(before, [pod(ask.tag, affinity=affine("podAntiAffinity", one))])


@row(
    "anti-affinity-values",
    "InterPodAffinity: one selector with a list of thousands of values",
    size=20000,
    small=1000,
)
def anti_affinity_values(ask: Ask) -> Scene:
    selector = matching(expression("app", "NotIn", ask.names()))
    one = term(HOSTNAME, selector)
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", one))])


@row(
    "anti-affinity-selector",
    "InterPodAffinity: one term whose selector has thousands of requirements",
    size=8000,
    small=400,
)
def anti_affinity_selector(ask: Ask) -> Scene:
    one = term(HOSTNAME, matching(*map(expression, ask.label_keys())))
    return Scene(pods=[pod(ask.tag, affinity=affine("podAntiAffinity", one))])


@row(
    "running-anti-affinity-selector",
    "InterPodAffinity: a running pod avoids pods by a selector of thousands of requirements",
    size=8000,
    small=400,
    innocent_pays="the selector of a running pod must be held against the innocent one's labels",
)
def running_anti_affinity_selector(ask: Ask) -> Scene:
    keys = [*map(expression, ask.label_keys()), expression("app", "In", [ask.tag])]
    one = term(HOSTNAME, matching(*keys), **ANYWHERE)
    return Scene([pod(ask.tag, on=ask.nodes[0], affinity=affine("podAntiAffinity", one))])


@row(
    "anti-affinity-match-label-keys",
    "InterPodAffinity: matchLabelKeys of many labels, which become requirements",
    size=6000,
    small=400,
)
def anti_affinity_match_label_keys(ask: Ask) -> Scene:
    labels = {"app": ask.tag} | dict.fromkeys(ask.label_keys(), "x")
    one = term(HOSTNAME, {"matchLabels": {"app": ask.tag}}, matchLabelKeys=ask.label_keys())
    affinity = affine("podAntiAffinity", one)
    return Scene(pods=[pod(ask.tag, metadata={"labels": labels}, affinity=affinity)])


@row(
    "waiting-terms-and-running-terms",
    "queueing hints: a waiting pod with many terms, and one with as many that comes and goes",
    size=2000,
    small=60,
)
def waiting_and_running_terms(ask: Ask) -> Scene:
    nobody = (term(HOSTNAME, one) for one in apart(ask, ask.names()))
    everybody = term("kubernetes.io/os", EVERY_POD, **ANYWHERE)
    waiting = affine("podAntiAffinity", *nobody, everybody)
    terms = (term(HOSTNAME, one) for one in apart(ask, [f"b{name}" for name in ask.names()]))
    running = pod(f"{ask.tag}-r", on=ask.nodes[0], affinity=affine("podAntiAffinity", *terms))
    return Scene([running], [pod(ask.tag, affinity=waiting)])


def requiring(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}


@row(
    "node-affinity-keys",
    "NodeAffinity: one required term over tens of thousands of distinct keys",
    size=20000,
    small=400,
)
def node_affinity_keys(ask: Ask) -> Scene:
    expressions = map(expression, ask.label_keys())
    return Scene(pods=[pod(ask.tag, affinity=requiring(matching(*expressions)))])


@row(
    "node-affinity-terms",
    "NodeAffinity: thousands of required terms, none of which any node meets",
    size=14000,
    small=400,
)
def node_affinity_terms(ask: Ask) -> Scene:
    terms = (matching(expression(key, "Exists")) for key in ask.label_keys())
    return Scene(pods=[pod(ask.tag, affinity=requiring(*terms))])


@row(
    "node-affinity-preferred",
    "NodeAffinity: thousands of preferences over distinct keys",
    size=12000,
    small=400,
)
def node_affinity_preferred(ask: Ask) -> Scene:
    preferred = [
        {"weight": 1 + i % 100, "preference": matching(expression(key))}
        for i, key in enumerate(ask.label_keys())
    ]
    return Scene(pods=[pod(ask.tag, affinity={"nodeAffinity": {PREFERRED: preferred}})])


@row(
    "node-selector-keys",
    "NodeAffinity: a nodeSelector of tens of thousands of keys",
    size=25000,
    small=400,
)
def node_selector(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, nodeSelector=dict.fromkeys(ask.label_keys(), "x"))])


@row(
    "node-affinity-values",
    "NodeAffinity: one requirement with a list of tens of thousands of values",
    size=50000,
    small=1000,
)
def node_affinity_values(ask: Ask) -> Scene:
    one = expression(HOSTNAME, "NotIn", ask.names())
    return Scene(pods=[pod(ask.tag, affinity=requiring(matching(one)))])


@row(
    "node-affinity-numbers",
    "NodeAffinity: thousands of comparisons with numbers over distinct keys",
    size=14000,
    small=400,
)
def node_affinity_numbers(ask: Ask) -> Scene:
    terms = (matching(expression(key, "Gt", ["7"])) for key in ask.label_keys())
    return Scene(pods=[pod(ask.tag, affinity=requiring(*terms))])


@row(
    "node-affinity-fields",
    "NodeAffinity: thousands of terms that name nodes, which PreFilter collects",
    size=10000,
    small=200,
)
def node_affinity_fields(ask: Ask) -> Scene:
    terms = ({"matchFields": [expression("metadata.name", "In", [name])]} for name in ask.names())
    return Scene(pods=[pod(ask.tag, affinity=requiring(*terms))])


@row(
    "node-affinity-feature-values",
    "NodeAffinity: requirements over all keys that nodes have, asked for again and again",
    size=10000,
    small=200,
)
def node_affinity_features(ask: Ask) -> Scene:
    expressions = (
        expression(FEATURES[i % len(FEATURES)], "NotIn", [f"{name}"])
        for i, name in enumerate(ask.names())
    )
    return Scene(pods=[pod(ask.tag, affinity=requiring(matching(*expressions)))])


@row(
    "tolerations",
    "TaintToleration: thousands of tolerations, all to be held against every taint",
    size=8000,
    small=500,
)
def tolerations(ask: Ask) -> Scene:
    listed = [
        {"key": key, "operator": "Equal", "value": "x", "effect": "NoSchedule"}
        for key in ask.label_keys()
    ]
    return Scene(pods=[pod(ask.tag, tolerations=listed)])


# Nodes on which there are victims, and how many on each; the preemptor may only go there. Where
# work is counted, fewer do as well.
VICTIMS_ON, VICTIMS_PER_NODE = 100, 20
FEW_VICTIMS_ON, FEW_PER_NODE = 10, 4


def victims(ask: Ask, per_node: int, on: int) -> list[Json]:
    """Pods with a set of labels each, as a StatefulSet's have."""
    return [
        pod(
            f"{ask.tag}-v{at:04d}-{i}",
            on=node,
            metadata={"labels": {"app": ask.tag, "pod": f"{ask.tag}-{at}-{i}"}},
        )
        for at, node in enumerate(ask.nodes[:on])
        for i in range(per_node)
    ]


def preemptor(ask: Ask, on: int) -> Json:
    """Needs more than what is free beside the victims, and nothing but their room."""
    wanted = {"cpu": "3995m", "memory": "16Mi"}
    names = expression(HOSTNAME, "In", list(ask.nodes[:on]))
    return pod(
        ask.tag,
        container={"resources": {"requests": wanted, "limits": wanted}},
        affinity=requiring(matching(names)),
        priorityClassName=HIGH_PRIORITY,
        priority=2_000_000_000,
    )


@row(
    "budgets-and-label-sets",
    "DefaultPreemption: hundreds of budgets, and victims that have a set of labels each",
    size=300,
    small=40,
)
def budgets(ask: Ask) -> Scene:
    many = len(ask.nodes) >= VICTIMS_ON
    on, per_node = (VICTIMS_ON, VICTIMS_PER_NODE) if many else (FEW_VICTIMS_ON, FEW_PER_NODE)
    budgets = [
        named(
            "PodDisruptionBudget",
            name,
            api="policy/v1",
            spec={
                "minAvailable": 0,
                "selector": matching(expression(name), expression("app", "Exists")),
            },
        )
        for name in ask.names()
    ]
    return Scene([*budgets, *victims(ask, per_node, on)], [preemptor(ask, on)])


@row(
    "budget-selector",
    "DefaultPreemption: one budget whose selector has thousands of requirements",
    size=8000,
    small=150,
)
def budget_selector(ask: Ask) -> Scene:
    selector = matching(expression("app", "Exists"), *map(expression, ask.label_keys()))
    budget = named(
        "PodDisruptionBudget",
        ask.tag,
        api="policy/v1",
        spec={"minAvailable": 0, "selector": selector},
    )
    listed = victims(ask, FEW_PER_NODE, FEW_VICTIMS_ON)
    return Scene([budget, *listed], [preemptor(ask, FEW_VICTIMS_ON)])
