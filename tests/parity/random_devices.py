"""Random clusters with devices, and pods that ask for them: JSON for an API server.

A case is drawn from its seed alone. All its names begin with the seed's, so that what an earlier
case has left behind does not matter to it, except nodes and slices, which are to be removed.
Devices of a node, and what pods ask for, are few: what one pod takes the next does not find.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.kit.manifests import HOSTNAME, ZONE, node_manifest, pod_manifest

Json = dict[str, Any]

GPU, NIC = "gpu.example.com", "nic.example.com"
NAMESPACE, ADMIN_NAMESPACE = "devices", "devices-admin"
FINALIZER = "resource.kubernetes.io/delete-protection"
ABOUT_GPUS = f'device.attributes["{GPU}"]'
EXPRESSIONS = (
    f'{ABOUT_GPUS}.model == "A100"',
    f'{ABOUT_GPUS}.model in ["A100", "H100"]',
    f"{ABOUT_GPUS}.numa == 0",
    f"{ABOUT_GPUS}.?numa.orValue(1) == 1",
    f"has({ABOUT_GPUS}.healthy) && {ABOUT_GPUS}.healthy",
    f'{ABOUT_GPUS}.driverVersion.isGreaterThan(semver("1.0.0"))',
    f'device.capacity["{GPU}"].memory.compareTo(quantity("40Gi")) >= 0',
    f'device.capacity["{GPU}"].memory.isLessThan(quantity("80Gi")) || {ABOUT_GPUS}.numa > 0',
    'device.attributes["example.com"].rack == "a"',
    'device.attributes["example.com"].?rack.orValue("") != "b"',
    f'"model" in {ABOUT_GPUS}',
    f'device.driver == "{GPU}"',
    f'device.driver != "{NIC}"',
    'device.driver.startsWith("gpu")',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    f"{ABOUT_GPUS}.exists(k, k == 'numa')",
    "true",
)
ATTRIBUTES = (
    ("model", "string", ("A100", "H100", "T4")),
    ("numa", "int", (0, 1)),
    ("numa", "string", ("0", "1")),
    ("healthy", "bool", (True, False)),
    ("driverVersion", "version", ("1.0.0", "1.6.2", "2.0.0-rc.1")),
    ("example.com/rack", "string", ("a", "b")),
    (f"{GPU}/slot", "int", (0, 1)),
)
MATCHED = (f"{GPU}/model", f"{GPU}/numa", f"{GPU}/driverVersion", f"{GPU}/slot", "example.com/rack")
TAINT_KEYS, TAINT_VALUES = ("example.com/a", "b"), ("", "v1", "v2")
CAPACITIES = ("memory", "cores", "share")
AMOUNTS = ("0", "1", "2", "3", "4", "500m", "2500m", "1Gi", "1024Mi", "10", "1e1", "16")


TRAITS = (
    "counters",
    "shared",
    "taints",
    "rules",
    "binding",
    "network",
    "pools",
    "broken",
    "per-device",
    "held",
    "extended",
    "admin",
    "expressions",
    "config",
)
TRAIT_PROBABILITY = 0.35


@dataclass
class Case:
    """What is there before the pods, and the pods in the order of their making."""

    seed: int
    objects: list[tuple[str, str, Json]] = field(default_factory=list)
    pods: list[tuple[str, Json]] = field(default_factory=list)

    def add(self, resource: str, body: Json, namespace: str = "") -> None:
        self.objects.append((resource, namespace, body))


class Drawer:
    """Draws one case."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.case = Case(seed)
        self.prefix = f"k{seed}"
        self.nodes = [f"{self.prefix}-n{i}" for i in range(self.random.choice((1, 2, 3)))]
        self.classes: list[str] = []
        self.resources: list[str] = []
        # Driver, pool, device and node of each device, as far as a node is known.
        self.devices: list[tuple[str, str, Json, str]] = []
        # Few traits occur in one case, so that those that do meet each other often.
        self.traits = {one for one in TRAITS if self.chance(TRAIT_PROBABILITY)}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def draw(self) -> Case:
        for place, name in enumerate(self.nodes):
            node = node_manifest(name, labels={ZONE: f"z{place % 2}", "case": self.prefix})
            if "extended" in self.traits and self.chance(0.2):
                for room in (node["status"]["capacity"], node["status"]["allocatable"]):
                    room[f"example.com/{self.prefix}-x0"] = self.random.choice(("0", "1", "2"))
            self.case.add("nodes", node)
        self._draw_classes()
        for name in self.nodes:
            self._draw_pool(f"{name}", GPU, {"nodeName": name}, name)
            if "pools" in self.traits:
                for number in range(self.random.choice((1, 2))):
                    driver = self.random.choice((GPU, NIC))
                    self._draw_pool(f"{name}-{number}", driver, {"nodeName": name}, name)
        if "network" in self.traits:
            for number in range(self.random.choice((1, 2))):
                self._draw_pool(
                    f"{self.prefix}-net{number}", self.random.choice((GPU, NIC)), self._place(), ""
                )
        if "rules" in self.traits:
            self._draw_rules()
        if "held" in self.traits:
            self._draw_held_claims()
        count = self.random.randint(3, 9)
        for number in range(count):
            self._draw_pod(f"{self.prefix}-p{number}", anywhere=number == count - 1)
        return self.case

    def _place(self) -> Json:
        """Nodes of the case: all, by label, or one by name."""
        labels = [("case", [self.prefix]), (ZONE, ["z0"]), (HOSTNAME, self.nodes[:2])]
        key, values = self.random.choice(labels)
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
        return self.random.choice(
            ({"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [term]}})
        )

    def _draw_classes(self) -> None:
        kinds = [(GPU,), (GPU,), (NIC,), (GPU, NIC)]
        if not self.traits & {"pools", "network"}:
            kinds = [(GPU,), (GPU,), (GPU, NIC)]
        # Of two that give one extended resource the first by name is meant; the other is meant by
        # its own name, too, if kube-scheduler hears of it before.
        for number, drivers in reversed(list(enumerate(kinds[: self.random.choice((2, 3, 4))]))):
            name = f"{self.prefix}-c{number}"
            self.classes.append(name)
            some = " || ".join(f'device.driver == "{one}"' for one in drivers)
            expressions = [some, *self._expressions(0.08)]
            spec: Json = {"selectors": [{"cel": {"expression": one}} for one in expressions]}
            if "config" in self.traits and self.chance(0.6):
                spec["config"] = [self._config() for _ in range(self.random.choice((1, 2)))]
            if "extended" in self.traits:
                self.resources.append(f"deviceclass.resource.kubernetes.io/{name}")
                if self.chance(0.7):
                    resource = f"example.com/{self.prefix}-x{number // 2}"
                    spec["extendedResourceName"] = resource
                    self.resources.append(resource)
            self.case.add("deviceclasses", {"metadata": {"name": name}, "spec": spec})

    def _config(self) -> Json:
        parameters = {
            "kind": "Setup",
            "n": self.random.choice((1, 1.5, "x<y", None)),
            "b": {"z": 1, "a": [1, {"q": "é"}]},
        }
        return {"opaque": {"driver": self.random.choice((GPU, NIC)), "parameters": parameters}}

    def _expressions(self, probability: float) -> list[str]:
        if "expressions" not in self.traits:
            probability /= 3
        return [self.random.choice(EXPRESSIONS) for _ in range(2) if self.chance(probability)]

    def _taint(self) -> Json:
        value = self.random.choice(TAINT_VALUES)
        return {
            "key": self.random.choice(TAINT_KEYS),
            **({"value": value} if value else {}),
            "effect": self.random.choice(("NoSchedule", "NoExecute", "None")),
        }

    def _policy(self, whole: str) -> Json:
        if whole not in ("10", "16"):
            return {}
        return self.random.choice(
            (
                {},
                {"requestPolicy": {"default": "2"}},
                {"requestPolicy": {"default": "0"}},
                {"requestPolicy": {"default": "2", "validValues": ["1", "2", "4"]}},
                {"requestPolicy": {"default": "2", "validRange": {"min": "1", "max": "6"}}},
                {"requestPolicy": {"default": "3", "validRange": {"min": "1", "step": "2"}}},
                {
                    "requestPolicy": {
                        "default": "4",
                        "validRange": {"min": "2", "max": "8", "step": "2"},
                    }
                },
            )
        )

    def _draw_device(self, name: str, sets: list[Json]) -> Json:
        device: Json = {"name": name}
        attributes = {}
        for attribute, kind, values in ATTRIBUTES[: 2 if self.chance(0.3) else None]:
            if self.chance(0.75 if kind != "string" or attribute == "model" else 0.15):
                attributes[attribute] = {kind: self.random.choice(values)}
        if attributes:
            device["attributes"] = attributes
        shared = "shared" in self.traits and self.chance(0.7)
        if shared:
            device["allowMultipleAllocations"] = True
        capacity = {}
        for one in CAPACITIES:
            if self.chance(0.5):
                whole = self.random.choice(("10", "16", "40Gi", "80Gi", "4"))
                capacity[one] = {"value": whole, **(self._policy(whole) if shared else {})}
        if capacity:
            device["capacity"] = capacity
        if "taints" in self.traits and self.chance(0.4):
            device["taints"] = [self._taint() for _ in range(self.random.choice((1, 2)))]
        if "binding" in self.traits and self.chance(0.4):
            device["bindingConditions"] = self.random.choice((["ready"], ["ready", "up"]))
            device["bindingFailureConditions"] = ["failed"]
            device["bindsToNode"] = self.chance(0.5)
        if sets and self.chance(0.85):
            device["consumesCounters"] = [
                {
                    "counterSet": one["name"],
                    "counters": {
                        counter: {"value": self.random.choice(("0", "1", "2", "3", "500m"))}
                        for counter in one["counters"]
                        if self.chance(0.8)
                    }
                    or {next(iter(one["counters"])): {"value": "1"}},
                }
                for one in self.random.sample(sets, self.random.randint(1, min(2, len(sets))))
            ]
        return device

    def _draw_pool(self, pool: str, driver: str, place: Json, node: str) -> None:
        broken = (
            self.random.choice(("incomplete", "twice", "no-set", "outdated", "newer", "no-counter"))
            if "broken" in self.traits and self.chance(0.4)
            else ""
        )
        sets: list[Json] = []
        if "counters" in self.traits and self.chance(0.7):
            sets = [
                {
                    "name": f"set-{number}",
                    "counters": {
                        counter: {"value": self.random.choice(("2", "4", "5", "3500m"))}
                        for counter in ("slices", "engines")[: self.random.choice((1, 2))]
                    },
                }
                for number in range(self.random.choice((1, 2)))
            ]
        chunks = self.random.choice((1, 1, 2))
        count = self.random.randint(2, 6)
        known = (
            sets if broken != "no-set" else [*sets, {"name": "gone", "counters": {"slices": {}}}]
        )
        if broken == "no-counter" and sets:
            known = [{**sets[0], "counters": {**sets[0]["counters"], "odd": {}}}]
        devices = [self._draw_device(f"d{number}", known) for number in range(count)]
        if broken == "twice":
            devices.append({**devices[0], "name": devices[0]["name"]})
            chunks = 2
        per_device = "per-device" in self.traits and not node and self.chance(0.7)
        if per_device:
            place = {"perDeviceNodeSelection": True}
            for device in devices:
                device |= self.random.choice((self._place(), {"nodeName": self.nodes[0]}))
        self.devices += [(driver, pool, device, node) for device in devices]
        number_of_slices = chunks + bool(sets)
        about = {
            "name": pool,
            "generation": self.random.choice((1, 7)),
            "resourceSliceCount": number_of_slices + (broken == "incomplete"),
        }
        size = -(-len(devices) // chunks)
        parts = [{"devices": devices[i * size : (i + 1) * size]} for i in range(chunks)]
        if sets:
            parts.insert(self.random.choice((0, len(parts))), {"sharedCounters": sets})
        for number, part in enumerate(parts):
            where = (
                place if "devices" in part or not per_device else {"perDeviceNodeSelection": True}
            )
            body = {
                "metadata": {"name": f"{pool}-{driver[:3]}-{number}"},
                "spec": {"driver": driver, "pool": dict(about), **where, **part},
            }
            self.case.add("resourceslices", body)
        if broken in ("outdated", "newer"):
            step = -1 if broken == "outdated" else 1
            other = {**about, "generation": about["generation"] + step}
            odd = [self._draw_device(f"o{number}", []) for number in range(2)]
            if not per_device:
                body = {"driver": driver, "pool": other, **place, "devices": odd}
                self.case.add(
                    "resourceslices", {"metadata": {"name": f"{pool}-{driver[:3]}-o"}, "spec": body}
                )

    def _draw_rules(self) -> None:
        for number in range(self.random.choice((1, 2))):
            driver, pool, device, _ = self.random.choice(self.devices)
            chosen: Json = {"driver": driver}
            if self.chance(0.7):
                chosen["pool"] = pool
            if self.chance(0.5):
                chosen["device"] = device["name"]
            spec = {"deviceSelector": chosen, "taint": self._taint()}
            self.case.add(
                "devicetaintrules", {"metadata": {"name": f"{self.prefix}-r{number}"}, "spec": spec}
            )

    def _draw_held_claims(self) -> None:
        """Claims that have a device already, of which nobody else is to have it."""
        taken = self.random.sample(self.devices, min(2, len(self.devices)))
        for number, (driver, pool, device, node) in enumerate(taken):
            if device.get("allowMultipleAllocations"):
                continue
            result = {"request": "r", "driver": driver, "pool": pool, "device": device["name"]}
            term = {"key": "metadata.name", "operator": "In", "values": [node]}
            allocation: Json = {"devices": {"results": [result]}}
            if node:
                allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [term]}]}
            user = {"resource": "pods", "name": "other", "uid": f"{self.prefix}-{number}"}
            status: Json = {"allocation": allocation}
            if number or self.chance(0.6):
                status["reservedFor"] = [user]
            body = {
                "metadata": {"name": f"{self.prefix}-h{number}", "finalizers": [FINALIZER]},
                "spec": {
                    "devices": {
                        "requests": [{"name": "r", "exactly": {"deviceClassName": self.classes[0]}}]
                    }
                },
                "status": status,
            }
            self.case.add("resourceclaims", body, NAMESPACE)

    def _ask(self, *, alternative: bool = False, admin: bool = False) -> Json:
        """What a request, or one of its alternatives, asks for."""
        asked: Json = {"deviceClassName": self.random.choice(self.classes)}
        if self.chance(0.08):
            asked["allocationMode"] = "All"
        elif self.chance(0.25):
            asked["count"] = self.random.choice((2, 2, 3, 4))
        if selectors := self._expressions(0.2):
            asked["selectors"] = [{"cel": {"expression": one}} for one in selectors]
        if self.traits & {"taints", "rules"} and self.chance(0.5):
            asked["tolerations"] = [self._toleration() for _ in range(self.random.choice((1, 2)))]
        if "shared" in self.traits and self.chance(0.6):
            names = self.random.sample(CAPACITIES, self.random.choice((1, 1, 2)))
            asked["capacity"] = {"requests": {one: self.random.choice(AMOUNTS) for one in names}}
        if admin and not alternative and self.chance(0.5):
            asked["adminAccess"] = True
        return asked

    def _toleration(self) -> Json:
        key, value = self.random.choice(TAINT_KEYS), self.random.choice(TAINT_VALUES)
        effect = self.random.choice(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
        return {
            **self.random.choice(
                (
                    {"operator": "Exists"},
                    {"key": key, "operator": "Exists"},
                    {"key": key, "operator": "Equal", "value": value},
                    {"key": key, "value": value},
                )
            ),
            **effect,
        }

    def _draw_claim(self, name: str, namespace: str) -> None:
        admin = namespace == ADMIN_NAMESPACE
        requests: list[Json] = []
        names: list[str] = []
        for number in range(self.random.choice((1, 1, 1, 2, 2, 3))):
            one = f"r{number}"
            names.append(one)
            if self.chance(0.3):
                several = [
                    {"name": letter, **self._ask(alternative=True)}
                    for letter in "abc"[: self.random.choice((1, 2, 3))]
                ]
                requests.append({"name": one, "firstAvailable": several})
                names += [f"{one}/{each['name']}" for each in several]
            else:
                requests.append({"name": one, "exactly": self._ask(admin=admin)})
        devices: Json = {"requests": requests}
        constraints = []
        while self.chance(0.2) and len(constraints) < 2:
            kind = self.random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
            constraint: Json = {kind: self.random.choice(MATCHED)}
            if self.chance(0.5):
                constraint["requests"] = self._some(names)
            constraints.append(constraint)
        if constraints:
            devices["constraints"] = constraints
        if "config" in self.traits and self.chance(0.6):
            devices["config"] = [
                self._config() | ({"requests": self._some(names)} if self.chance(0.6) else {})
                for _ in range(self.random.choice((1, 2)))
            ]
        self.case.add(
            "resourceclaims", {"metadata": {"name": name}, "spec": {"devices": devices}}, namespace
        )

    def _some(self, names: list[str]) -> list[str]:
        return self.random.sample(names, self.random.randint(1, min(2, len(names))))

    def _draw_pod(self, name: str, *, anywhere: bool) -> None:
        """A pod for one node, or for any of those that there are."""
        admin = "admin" in self.traits and self.chance(0.5)
        namespace = ADMIN_NAMESPACE if admin else NAMESPACE
        claims = []
        for number in range(self.random.choice((1, 1, 1, 2, 3))):
            claims.append(f"{name}-{number}")
            self._draw_claim(claims[-1], namespace)
        before = [one for _, pod in self.case.pods for one in pod["spec"].get("resourceClaims", ())]
        if (
            before
            and self.chance(0.15)
            and not anywhere
            and not admin
            and "admin" not in self.traits
        ):
            claims.append(self.random.choice(before)["resourceClaimName"])
        held = [
            b["metadata"]["name"]
            for r, _, b in self.case.objects
            if r == "resourceclaims" and "status" in b
        ]
        if held and not anywhere and not admin and self.chance(0.1):
            claims.append(self.random.choice(held))
        if self.resources and self.chance(0.6):
            claims = claims[: self.random.choice((0, 0, 1))]
        spec: Json = {
            "resourceClaims": [
                {"name": f"ref{i}", "resourceClaimName": one}
                for i, one in enumerate(dict.fromkeys(claims))
            ]
        }
        if not anywhere:
            node = self.random.choice(self.nodes)
            if self.chance(0.5):
                spec["nodeSelector"] = {HOSTNAME: node}
            else:
                field_is = {"key": "metadata.name", "operator": "In", "values": [node]}
                spec["affinity"] = {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchFields": [field_is]}]
                        }
                    }
                }
        pod = pod_manifest(name, **spec)
        if self.resources:
            self._draw_containers(pod["spec"])
        self.case.pods.append((namespace, pod))

    def _draw_containers(self, spec: Json) -> None:
        def container(name: str, **fields: Any) -> Json:
            asked = {
                self.random.choice(self.resources): self.random.choice(("1", "1", "2", "3"))
                for _ in range(self.random.choice((0, 1, 1, 2)))
            }
            return {
                "name": name,
                "image": "i",
                "resources": {"requests": dict(asked), "limits": asked},
                **fields,
            }

        spec["containers"] = [container(f"m{i}") for i in range(self.random.choice((1, 2)))]
        first = [
            container(f"i{i}", **({"restartPolicy": "Always"} if self.chance(0.4) else {}))
            for i in range(self.random.choice((0, 0, 1, 2, 3)))
        ]
        if first:
            spec["initContainers"] = first


def draw(seed: int) -> Case:
    return Drawer(seed).draw()
