"""The runner over explanations finds those that are not true."""

import pytest
from msgspec.structs import replace

from tests.parity import records, run


def _other_reason(told):
    first, *rest = told.rejections or (None,)
    if first is None:
        return told
    return replace(told, rejections=(replace(first, reason="no reason"), *rest))


def _lost_node(told):
    kept = tuple(replace(one, nodes=one.nodes[1:], count=one.count - 1) for one in told.rejections)
    return replace(told, rejections=kept)


def _in_table(change):
    def changed(told):
        table = told.scores
        return told if table is None else replace(told, scores=change(table))

    return changed


def _of_best(**fields):
    def change(table):
        best, *others = table.nodes
        values = {name: value(getattr(best, name)) for name, value in fields.items()}
        return replace(table, nodes=(replace(best, **values), *others))

    return _in_table(change)


FALSE = {
    "another reason": ("taints", _other_reason),
    "a node that was rejected": ("resources", _lost_node),
    "a total": ("scoring", _of_best(total=lambda total: total + 1)),
    "a raw score": ("scoring", _of_best(raw=lambda raw: (raw[0] + 1, *raw[1:]))),
    "a normalized score": ("scoring", _of_best(normalized=lambda some: (some[0] + 1, *some[1:]))),
    "ties": ("scoring", _in_table(lambda table: replace(table, ties=table.ties + 1))),
    "the margin": ("scoring", _in_table(lambda table: replace(table, margin=table.margin + 1))),
}


@pytest.mark.parametrize(("family", "falsify"), FALSE.values(), ids=FALSE.keys())
def test_a_false_explanation_is_found(monkeypatch, family, falsify):
    true = records.attempt_of
    monkeypatch.setattr(records, "attempt_of", lambda record: falsify(true(record)))
    (path,) = run.VECTORS.glob(f"{family}.jsonl.*")
    _, found = records.differences(path, every=10)
    assert found


def test_a_victim_that_is_left_out_is_found(monkeypatch):
    true = records.decision_of

    def without_victims(entry):
        decision = true(entry)
        return replace(decision, last=replace(decision.last, victims=()))

    monkeypatch.setattr(records, "decision_of", without_victims)
    (path,) = run.VECTORS.glob("preemption.jsonl.*")
    _, found = records.differences(path, every=10)
    assert found
