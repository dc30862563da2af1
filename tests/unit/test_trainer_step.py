"""One update of a real small encoder: what is encoded, scored, opposed and learnt, against a slow reading."""

import json

import numpy as np
import pytest
import torch

from dance.corpus.teacher import TeacherScores
from dance.learning import checkpoint
from dance.rules import COLDEST
from dance.world import joined
from tests.running import small_corpus
from tests.tiny import tiny_bert
from tests.training import CHUNKED, bench, examples_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("step")


@pytest.fixture
def world():
    with joined(60.0) as world:
        yield world


def softmax_loss(own, others):
    return float(np.log(np.exp(np.array([own, *others]) - own).sum()))


def test_maxp_and_the_dual_loss_agree_with_scoring_every_chunk_alone(folder, world):
    made = bench(
        folder, world, model=CHUNKED, loss={"temperature": 0.5, "dual_weight": 0.3, "in_batch": False},
        negatives={"per_example": 2},
    )  # fmt: skip
    lengths = np.diff(made.prepared.chunk_offsets)
    assert {1, 2, 3} <= set(lengths.tolist())
    examples = examples_of([0, 1, 2], [[10, 11], [12, -1], [0, 13]], [[5], [6], [-1]])
    q2d = [
        softmax_loss(made.score(q, q) / 0.5, [made.score(q, d) / 0.5 for d in negatives if d >= 0])
        for q, negatives in zip((0, 1, 2), examples.negatives.tolist())
    ]
    d2q = [softmax_loss(made.score(d, d) / 0.5, [made.score(q, d) / 0.5]) for d, q in ((0, 5), (1, 6))] + [0.0]
    found = made.update(0, examples)
    assert found["loss_q2d"] == pytest.approx(np.mean(q2d), abs=1e-5)
    assert found["loss_d2q"] == pytest.approx(np.mean(d2q), abs=1e-5)
    assert found["loss"] == pytest.approx(np.mean(q2d) + 0.3 * np.mean(d2q), abs=1e-5)
    assert (found["idle"], found["idle_d2q"]) == (0, 1)


def test_with_in_batch_the_other_queries_oppose_a_document_too(folder, world):
    made = bench(folder, world, model={"head": 8}, loss={"dual_weight": 1.0, "in_batch": True})
    examples = examples_of([0, 1, 2], [[10], [11], [12]], [[5], [6], [7]])
    pool = [0, 1, 2, 5, 6, 7]
    expected = [softmax_loss(made.score(d, d), [made.score(q, d) for q in pool if q != d]) for d in (0, 1, 2)]
    assert made.update(0, examples)["loss_d2q"] == pytest.approx(np.mean(expected), abs=1e-5)


def test_e07_a_copy_of_a_query_does_not_oppose_its_document(tmp_path, world):
    tiny_bert(tmp_path / "model")
    path = small_corpus(tmp_path / "corpus") / "queries.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records[1]["text"] = f"{records[0]['text'].upper()}?"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    made = bench(tmp_path, world, model={"head": 8}, loss={"dual_weight": 1.0, "in_batch": True})
    found = made.update(0, examples_of([0, 1], None))
    assert (found["idle"], found["idle_d2q"]) == (2, 2), "neither query knows the other's document for a negative"


def test_cold_start_trains_both_directions_on_the_batch_alone(folder, world):
    made = bench(folder, world, loss={"dual_weight": 1.0})
    found = made.update(0, examples_of([0, 1, 2], None), in_batch=True)
    assert found["loss_q2d"] > 0 and found["loss_d2q"] > 0 and found["idle"] == found["idle_d2q"] == 0


def test_r08_an_example_without_any_opponent_is_counted(folder, world):
    found = bench(folder, world).update(0, examples_of([0, 1], [[-1], [10]]))
    assert found["idle"] == 1


def test_the_dual_task_ramps_up(folder, world):
    made = bench(folder, world, loss={"dual_weight": 0.4, "dual_ramp_steps": 4, "in_batch": True})
    for step, weight in ((0, 0.0), (2, 0.2), (8, 0.4)):
        found = made.update(step, examples_of([0, 1], [[10], [11]], [[5], [6]]))
        assert found["loss"] == pytest.approx(found["loss_q2d"] + weight * found["loss_d2q"], abs=1e-6)


def test_alignment_and_uniformity_are_measured_always_and_learnt_from_when_weighted(folder, world):
    examples = examples_of([0, 1, 1], [[10], [11], [11]])
    without, weighted = (
        bench(folder, world, model={"head": 8, "normalize": True}, loss=loss)
        for loss in ({}, {"alignment": 2.0, "uniformity": 0.5})
    )
    vectors = {side: [without.vector(store, row, side) for row in rows] for side, store, rows in (
        ("query", without.prepared.queries, (0, 1)), ("document", without.prepared.documents, (0, 1, 10, 11))
    )}  # fmt: skip
    aligned = [((vectors["query"][i] - vectors["document"][i]) ** 2).sum() for i in (0, 1, 1)]
    assert without.update(0, examples)["alignment"] == pytest.approx(np.mean(aligned), abs=1e-5)
    found = weighted.update(0, examples)
    # Row 1 and document 11 come twice: their copies are no pairs, but each copy has pairs with the others.
    many = {"query": [0, 1, 1], "document": [0, 1, 1, 2, 3, 3]}
    spread = 0.0
    for side, places in many.items():
        terms = [
            np.exp(-5 * ((vectors[side][a] - vectors[side][b]) ** 2).sum()) for a in places for b in places if a != b
        ]
        spread += np.log(np.mean(terms))
    assert found["uniformity"] == pytest.approx(spread, abs=1e-4)
    total = found["loss_q2d"] + 2 * found["alignment"] + 0.5 * found["uniformity"]
    assert found["loss"] == pytest.approx(total, abs=1e-5)


def test_a_teacher_is_followed_where_it_speaks(folder, world):
    teacher = TeacherScores.of(np.array([0, 0, 1]), np.array([0, 10, 1]), np.array([3.0, 1.0, 5.0]))
    examples = examples_of([0, 1], [[10], [11]])  # query 1 has a score for its positive alone
    for how in ("margin_mse", "kl"):
        made = bench(folder, world, teacher, loss={"distill": how, "distill_weight": 0.5, "temperature": 2.0})
        positive, negative = made.score(0, 0) / 2.0, made.score(0, 10) / 2.0
        found = made.update(0, examples)
        p = np.exp([3.0, 1.0]) / np.exp([3.0, 1.0]).sum()
        q = np.exp([positive, negative]) / np.exp([positive, negative]).sum()
        expected = ((positive - negative) - 2.0) ** 2 if how == "margin_mse" else (p * np.log(p / q)).sum()
        assert found["loss_distill"] == pytest.approx(expected / 2, abs=1e-4)
        assert found["untaught"] == 1
        assert found["loss"] == pytest.approx(found["loss_q2d"] + 0.5 * found["loss_distill"], abs=1e-5)


def test_without_weight_document_retrieval_is_measured_and_the_teacher_alone_followed(folder, world):
    teacher = TeacherScores.of(np.array([0, 0]), np.array([0, 10]), np.array([3.0, 1.0]))
    made = bench(folder, world, teacher, loss={"q2d_weight": 0.0, "distill": "kl", "distill_weight": 0.5})
    found = made.update(0, examples_of([0, 1], [[10], [11]]))
    assert found["loss_q2d"] > 0 and found["loss"] == pytest.approx(0.5 * found["loss_distill"], abs=1e-6)


@pytest.mark.parametrize("towers", ["one", "two"])
@pytest.mark.parametrize("dual", [0.0, 0.1])
def test_r05_every_parameter_learns_through_accumulation(folder, world, towers, dual):
    made = bench(
        folder, world, model={"towers": towers, **CHUNKED}, train={"accumulation": 2, "batch": 2},
        loss={"dual_weight": dual, "learn_temperature": True, "temperature": 0.5},
    )  # fmt: skip
    before = {name: p.detach().clone() for name, p in made.stepper.pair.named_parameters()}
    micro = [examples_of([0, 1], [[10], [11]], [[5], [6]]), examples_of([2, 3], [[12], [13]], [[7], [8]])]
    for step in range(3):
        found = made.update(step, *micro, rate=1e-3)
    still = [name for name, p in made.stepper.pair.named_parameters() if torch.equal(p, before[name])]
    assert not [name for name in still if "position" not in name and "token_type" not in name]
    assert np.isfinite(list(found.values())).all() and ("loss_d2q" in found) == bool(dual)


def test_accumulation_of_equal_batches_is_one_batch(folder, world):
    loss = {"dual_weight": 0.1}
    parts = [examples_of([0, 1], [[10], [11]], [[5], [6]]), examples_of([2, 3], [[12], [13]], [[7], [8]])]
    whole = examples_of([0, 1, 2, 3], [[10], [11], [12], [13]], [[5], [6], [7], [8]])
    one, two = bench(folder, world, loss=loss), bench(folder, world, loss=loss)
    a, b = one.update(0, whole), two.update(0, *parts)
    assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
    assert a["gradient_norm"] == pytest.approx(b["gradient_norm"], rel=1e-3)


def test_a_learnt_temperature_moves_within_bounds_and_resumes(folder, world, tmp_path):
    made = bench(folder, world, loss={"learn_temperature": True, "temperature": 0.5, "in_batch": True})
    examples = examples_of([0, 1, 2], None)
    first, second = (made.update(step, examples) for step in range(2))
    assert first["temperature"] == pytest.approx(0.5) and second["temperature"] != first["temperature"]
    pair, optimizer = made.stepper.pair, made.stepper.optimizer
    state = checkpoint.LoopState(step=2)
    checkpoint.save(tmp_path / "step_00000002", state, pair, optimizer)
    kept = pair.log_temperature.item()
    made.update(2, examples)
    checkpoint.load(tmp_path / "step_00000002", pair, optimizer)
    assert pair.log_temperature.item() == kept
    pair.log_temperature.data.fill_(-100.0)
    pair.bound()
    assert pair.temperature().item() == pytest.approx(COLDEST)


def test_a_fixed_temperature_is_neither_learnt_nor_saved(folder, world):
    made = bench(folder, world, loss={"temperature": 0.05})
    assert "temperature" not in made.update(0, examples_of([0, 1], [[10], [11]]))
    assert not [name for name in made.stepper.pair.state_dict() if "temperature" in name]


def test_a_missing_negative_is_not_encoded_and_changes_nothing(folder, world):
    losses = []
    for negatives in ([[10], [11]], [[10, -1], [11, -1]]):
        losses.append(bench(folder, world).update(0, examples_of([0, 1], negatives)))
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
