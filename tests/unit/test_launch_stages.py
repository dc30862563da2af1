"""Runs in stages: how they are composed and laid out, chained, cut off anywhere and gone on with."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from dance import config as schema
from dance.config import Config
from dance.paths import RunPaths
from launch import prepare, stage_table, stages, status
from launch.stages import Ended
from tests.tiers import others_slow

pytestmark = pytest.mark.xdist_group("hydra")  # one process, which keeps what it has composed

NAMES = ["warmup", "ance", "normalise", "dual"]


class Runner:
    """Leaves in a stage's folder what a run would; ends with a code of its own where it is told to."""

    def __init__(self, cut: str = "", code: int = 143) -> None:
        self.cut, self.code, self.seen = cut, code, []

    def __call__(self, config: Config, later: list[Config]) -> Ended:
        paths = RunPaths(Path(config.run_dir or ""))
        self.seen.append((paths.root.name, config.model.path, config.resume, config.train.steps, len(later)))
        paths.root.mkdir(exist_ok=True)
        schema.write(config, paths.config)
        if self.cut and paths.root.name.endswith(self.cut):
            return Ended(self.code)
        encoder = paths.published("encoders", 20)
        encoder.mkdir(parents=True)
        (encoder / "manifest.json").write_text("{}")
        paths.best.write_bytes(b'{"step":20,"ndcg@10":0.5}')
        paths.metrics("inferencer").parent.mkdir()
        records = [{"step": step, "ndcg@10": 0.1 + step / 100, "d2q_ndcg@10": 0.2} for step in (0, 20)]
        paths.metrics("inferencer").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in records))
        paths.finished.touch()
        return Ended(0, {"ndcg@10": 0.7})


TYPED = ["experiment=dance_small", "run_dir=r"]


def go(tmp_path: Path, runner: Runner, *arguments: str) -> int:
    asked = stages.asked(arguments, tmp_path)
    assert asked is not None
    return stages.follow(*asked, runner)


def test_each_stage_starts_from_the_best_encoder_of_the_one_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runner = Runner()
    assert go(tmp_path, runner, *TYPED) == 0
    folders = [f"{n}-{name}" for n, name in enumerate(NAMES, start=1)]
    assert [seen[0] for seen in runner.seen] == folders
    encoders = [str(tmp_path / "r" / folder / "encoders" / "step_00000020") for folder in folders]
    assert [seen[1] for seen in runner.seen][1:] == encoders[:-1]
    assert [seen[4] for seen in runner.seen] == [3, 2, 1, 0]
    shown = capfd.readouterr().out
    assert all(encoder in shown for encoder in encoders)
    assert "0.1000" in shown and "0.3000" in shown and "0.7000" in shown and "d2q" in shown


@pytest.mark.parametrize("cut", others_slow(NAMES, "normalise"))
def test_cut_off_in_any_stage_it_goes_on_there(cut: str, tmp_path: Path) -> None:
    place = NAMES.index(cut)
    assert go(tmp_path, Runner(cut), *TYPED) == 143
    after = Runner()
    assert go(tmp_path, after, "resume=true", "run_dir=r") == 0
    assert [seen[0].partition("-")[2] for seen in after.seen] == NAMES[place:]
    assert [seen[2] for seen in after.seen] == [True] + [False] * (3 - place)
    assert go(tmp_path, again := Runner(), "resume=true", "run_dir=r") == 0
    assert again.seen == []


def test_resume_changes_what_is_not_finished_and_nothing_else(tmp_path: Path) -> None:
    go(tmp_path, Runner("normalise"), *TYPED)
    typed = ["resume=true", "run_dir=r", "train.steps=300", "stages.dual.train.steps=500"]
    assert go(tmp_path, after := Runner(), *typed) == 0
    assert [(seen[0], seen[3]) for seen in after.seen] == [("3-normalise", 300), ("4-dual", 500)]


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where r/ is in its third stage; to be read alone."""
    folder = tmp_path_factory.mktemp("cut_off")
    go(folder, Runner("normalise"), *TYPED)
    return folder


def test_a_stage_to_come_may_become_another_on_resume(tmp_path: Path) -> None:
    go(tmp_path, Runner("normalise"), *TYPED)
    own = ["seed=3", "negatives=random", "negatives.topk=77", "loss.dual_weight=0.3", "model.path=org/own"]
    asked = stages.asked(["resume=true", "run_dir=r", *(f"stages.dual.{each}" for each in own)], tmp_path)
    assert asked is not None
    *before, dual = asked[1].stages
    assert {stage.config.seed for stage in before} == {42} and before[2].config.resume
    config = dual.config
    assert (config.seed, config.sources.random, config.sources.ann, config.negatives.topk) == (3, 1, 0, 77)
    assert (config.loss.dual_weight, config.loss.temperature, config.resume) == (0.3, 0.03, False)
    assert (config.run_dir, dual.chained) == (str(tmp_path / "r" / "4-dual"), False)
    assert stages.follow(*asked, after := Runner()) == 0
    assert after.seen[-1][:2] == ("4-dual", "org/own")


def test_between_two_stages_a_setting_for_all_is_that_of_all_to_come(tmp_path: Path) -> None:
    go(tmp_path, Runner("normalise"), *TYPED)
    (tmp_path / "r" / "3-normalise" / "config.yaml").unlink()
    asked = stages.asked(["resume=true", "run_dir=r", "seed=3"], tmp_path)
    assert asked is not None
    assert [stage.config.seed for stage in asked[1].stages] == [42, 42, 3, 3]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("stages.warmup.train.steps=9", "stage warmup is finished"),
        ("stages.wramup.train.steps=9", "did you mean warmup"),
        ("seed=3", "seed cannot change"),
        ("negatives=random", "stage normalise: .*negatives cannot change.*stages.NAME.KEY=VALUE"),
        ("stages.normalise.seed=3", "stage normalise: .*seed cannot change"),
        ("stages.dual.seed=-3", "stage dual: seed"),
        ("stages.dual.draw.momentum=1", "stage dual: draw.momentum"),
        ("stages.dual.model.pooling=cls", "stage dual: model.pooling=cls, but the encoder comes from stage normalise"),
        ("model.path=x", "model.path is where stage warmup starts, .*stages.NAME.model.path"),
        ("run_id=x", "run_id cannot change"),
        ("experiment=dance", "experiment cannot change"),
        ("stage=dual", "stage=dual with resume=true: resume the whole run .*or give the stage's own folder"),
    ],
)
def test_resume_refuses_the_rest(argument: str, message: str, cut_off: Path) -> None:
    with pytest.raises(ValueError, match=message):
        stages.asked(["resume=true", "run_dir=r", argument], cut_off)


def test_a14_a_used_folder_is_refused(tmp_path: Path) -> None:
    go(tmp_path, Runner("ance"), *TYPED)
    with pytest.raises(ValueError, match="add resume=true"):
        stages.asked(TYPED, tmp_path)


def test_a_folder_made_for_nothing_is_gone(tmp_path: Path) -> None:
    def refused(config: Config, later: list[Config]) -> Ended:
        raise prepare.Refused(2)

    asked = stages.asked(TYPED, tmp_path)
    assert asked is not None
    with pytest.raises(prepare.Refused):
        stages.follow(*asked, refused)
    assert not (tmp_path / "r").exists()


def test_every_stage_is_checked_before_the_first_one(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    runner = Runner()
    with pytest.raises(ValueError, match=f"stage dual: .*{absent}"):
        go(tmp_path, runner, *TYPED, f"stages.dual.model.path={absent}")
    assert runner.seen == [] and not (tmp_path / "r").exists()


def test_a_stage_without_its_encoder_stops_the_next(tmp_path: Path) -> None:
    go(tmp_path, Runner("ance"), *TYPED)
    RunPaths(tmp_path / "r" / "1-warmup").best.unlink()
    (tmp_path / "r" / "2-ance" / "config.yaml").unlink()
    with pytest.raises(ValueError, match="1-warmup is finished, but its best encoder is not there"):
        go(tmp_path, Runner(), "resume=true", "run_dir=r")


def test_status_tells_the_stages_and_the_one_at_work(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    go(tmp_path, Runner("ance"), *TYPED)
    capfd.readouterr()
    status.main(str(tmp_path / "r"))
    shown = capfd.readouterr().out
    assert "1-warmup: finished, held-out NDCG@10 0.3000" in shown
    assert "2-ance: not started" in shown and "3-normalise: to come" in shown
    assert str(tmp_path / "r" / "2-ance") in shown


def test_status_between_two_stages_and_at_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    go(tmp_path, Runner("ance"), *TYPED)
    (tmp_path / "r" / "2-ance" / "config.yaml").unlink()
    assert status.main(str(tmp_path / "r")) == 1
    assert f"dance run resume=true run_dir={tmp_path / 'r'}" in capfd.readouterr().out
    go(tmp_path, Runner(), "resume=true", "run_dir=r")
    assert status.main(str(tmp_path / "r")) == 0


def test_the_last_stage_with_an_encoder_is_evaluated(tmp_path: Path) -> None:
    go(tmp_path, Runner("normalise"), *TYPED)
    root = RunPaths(tmp_path / "r")
    assert stages.last(root).root.name == "2-ance"
    assert stages.last(RunPaths(root.root / "1-warmup")).root.name == "1-warmup"
    assert RunPaths(root.root / "3-normalise").whole == root.root and root.whole == root.root


def test_a_damaged_list_of_stages_is_named(tmp_path: Path) -> None:
    (tmp_path / "stages.json").write_text("{")
    with pytest.raises(ValueError, match="stages.json"):
        status.main(str(tmp_path))


def test_static_stages_hand_on_their_last_encoder(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    for step in (0, 40):
        (encoder := paths.published("encoders", step)).mkdir(parents=True)
        (encoder / "manifest.json").write_text("{}")
    config = Config(schedule="static")
    assert stages.best_encoder(paths, config) == paths.published("encoders", 40)
    (paths.evaluation / "step_00000040-dev").mkdir(parents=True)
    (paths.evaluation / "step_00000040-dev" / "metrics.json").write_text('{"ndcg@10":0.25}')
    assert stage_table.line("a", paths, config).after == {"ndcg@10": 0.25}


def test_the_table_takes_the_half_that_did_not_choose() -> None:
    record = {"ndcg@10": 0.9, "report_ndcg@10": 0.4, "report_d2q_ndcg@10": 0.3}
    line = stage_table.Line("a", 20, record, record, None)
    console = Console(file=io.StringIO(), width=100)
    console.print(stage_table.table([line], {"ndcg@10": 0.9, "report_ndcg@10": 0.5}))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "0.4000" in shown and "0.3000" in shown and "0.5000" in shown and "0.9" not in shown
    assert "the reporting half" in shown
