"""R05, R06: two processes learn what one does with the joined batch, whatever is encoded and opposed."""

import json
import multiprocessing
import os
import socket

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from dance import world as worlds
from dance.corpus.teacher import TeacherScores
from dance.learning.order import deal
from tests.running import make_run
from tests.training import CHUNKED, bench, examples_of

pytestmark = pytest.mark.slow
STEPS, BATCH, ACCUMULATION = 10, 4, 2  # BATCH examples of all ranks together
# Settings, whether the batch opposes as before the first negatives, and whether a teacher is followed.
SCENARIOS = {
    "maxp_dual_across": (
        {
            "model": CHUNKED,
            "loss": {
                "in_batch": True, "across_ranks": True, "dual_weight": 0.5, "alignment": 0.1, "uniformity": 0.1,
                "temperature": 0.2, "learn_temperature": True,
            },
        },
        True,
    ),
    "two_towers_mined_dual": (
        {"model": {"towers": "two", **CHUNKED}, "loss": {"dual_weight": 0.5, "alignment": 0.1, "temperature": 0.2}},
        False,
    ),
    "two_towers_distilled_across": (
        {
            "model": {"towers": "two", "head": 8, "normalize": True},
            "loss": {"in_batch": True, "across_ranks": True, "distill": "margin_mse", "temperature": 0.2},
        },
        True,
    ),
}  # fmt: skip
TEACHER = TeacherScores.of(np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8), np.linspace(-3, 3, 64))


def whole_step(step):
    """Examples of all ranks; some negatives are missing, and queries share documents with each other."""
    rng = np.random.default_rng(step)
    rows = rng.choice(12, BATCH * ACCUMULATION)
    negatives, queries = (rng.integers(-1, 40, size=(len(rows), k)) for k in (2, 1))
    return examples_of(rows.tolist(), negatives.tolist(), queries.tolist())


def learn(world, folder, name):
    """Numbers of every step and the weights after, of this rank."""
    settings, in_batch = SCENARIOS[name]
    made = bench(folder, world, TEACHER if "distilled" in name else None, sgd=True, run_dir=str(folder / name),
                 train={"batch": BATCH // world.size, "accumulation": ACCUMULATION}, **settings)  # fmt: skip
    numbers = []
    for step in range(STEPS):
        mine = deal(whole_step(step), BATCH // world.size, ACCUMULATION, world.rank, world.size)
        found = made.update(step, *mine, in_batch=in_batch, rate=0.05)
        numbers.append(dict(zip(found, world.mean(list(found.values())))))
    return numbers, {key: tensor.clone() for key, tensor in made.stepper.pair.state_dict().items()}


def rank_main(rank, size, port, folder):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    with worlds.joined(120.0) as world:
        for name in SCENARIOS:
            numbers, weights = learn(world, folder, name)
            (folder / f"{name}-{rank}.json").write_text(json.dumps(numbers))
            save_file(weights, folder / f"{name}-{rank}.safetensors")
        world.barrier()
        worlds.leave(0)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """Folder with what two ranks learnt in every scenario."""
    folder = tmp_path_factory.mktemp("ranks")
    for name, (settings, _) in SCENARIOS.items():  # prepared once, before the ranks come
        make_run(folder, run_dir=str(folder / name), **settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=rank_main, args=(rank, 2, port, folder)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=150)
        process.kill()
    assert [process.exitcode for process in ranks] == [0, 0]
    return folder


@pytest.mark.parametrize("name", SCENARIOS)
def test_r05_r06_two_processes_learn_what_one_does_with_the_joined_batch(of_two, tmp_path, name):
    with worlds.joined(60.0) as world:
        numbers, weights = learn(world, of_two, name)
    first, second = (load_file(of_two / f"{name}-{rank}.safetensors") for rank in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first), "ranks went apart"
    for key in weights:
        assert torch.allclose(first[key], weights[key], atol=1e-5), key
    both = json.loads((of_two / f"{name}-0.json").read_text())
    for step, (alone, together) in enumerate(zip(numbers, both)):
        for key in alone:
            factor = 2 if key.split("_")[0] in ("masked", "idle", "untaught") else 1  # counts are per rank
            # Rounding differs with the order of sums, and grows from step to step.
            near = pytest.approx(alone[key], abs=1e-4 if step else 1e-5, rel=1e-3 if step else 1e-5)
            assert factor * together[key] == near, key
    assert numbers[0]["loss"] != pytest.approx(numbers[-1]["loss"], abs=1e-3)
