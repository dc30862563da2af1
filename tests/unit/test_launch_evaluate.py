"""`dance evaluate` takes encoder and text as they are, and scores nothing that is random."""

import json
import os

import pytest

from dance import config
from dance.encoder import files
from dance.evaluation.scoring import open_encoder
from launch import evaluate
from launch.compose import compose
from tests.corpora import write_beir
from tests.tiny import tiny_bert


def test_a_saved_encoder_brings_its_own_settings(tmp_path):
    model = config.Model(
        path=str(tiny_bert(tmp_path / "model")), pooling="mean", head=8, query_max_tokens=9, document_max_tokens=33
    )
    files.save(files.build(model, 0), tmp_path / "saved")
    typed = [f"model.path={tmp_path / 'saved'}", "data.max_dev_queries=7"]
    found = compose([*evaluate._whole(typed), *typed])
    assert found.model.head == 8 and found.model.pooling == "mean" and not found.model.normalize
    assert (found.model.query_max_tokens, found.model.document_max_tokens) == (9, 33)
    assert found.model.layers is None and found.data.max_documents is None and found.data.max_dev_queries == 7
    assert open_encoder(found, None).width == 8


def test_a_head_that_would_be_random_is_refused(tmp_path):
    model = config.Model(path=str(tiny_bert(tmp_path / "model")), head=8, document_max_tokens=33)
    with pytest.raises(ValueError, match="has no head, a new one would be random"):
        open_encoder(config.Config(model=model), None)


@pytest.mark.parametrize("typed", [["step=3"], ["run=x", "train.steps=3"]])
def test_settings_that_do_not_go_together_are_refused(typed):
    with pytest.raises(ValueError, match="add run=FOLDER|brings its own settings"):
        evaluate.main(typed)


@pytest.mark.parametrize(
    ("typed", "meant"), [("spilt=test", "split"), ("ruN=x", "run"), ("steps=3", "step"), ("oot=x", "out")]
)
def test_c04_a_mistyped_name_of_its_own_names_the_one_meant(typed, meant):
    with pytest.raises(ValueError, match=f"did you mean {meant}"):
        evaluate.main([typed])


def test_a_mistyped_setting_is_still_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="did you mean model.pooling"):
        evaluate.main(["model.poolin=cls"])


def test_threads_are_those_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    with pytest.raises(ValueError, match="did you mean"):
        evaluate.main(["launch.threads=3", "model.poolin=cls"])
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_v02_v10_the_queries_that_were_judged_and_scored_are_shown_and_kept(tmp_path, capsys):
    judged = [(f"q{i}", "d1", 1) for i in range(8)]
    write_beir(tmp_path / "beir", {"d1": "list", "d2": "tree"}, {"q3": "list"}, {"test": judged})
    typed = [f"model.path={tiny_bert(tmp_path / 'model')}", "model.document_max_tokens=32", "evaluate.d2q=false"]
    typed += [f"data.path={tmp_path / 'beir'}", f"data.prepared={tmp_path / 'prepared'}", "split=test"]
    assert evaluate.main([*typed, f"out={tmp_path / 'out'}"]) == 0
    shown = capsys.readouterr().out
    assert "test: 8 queries judged, 1 scored; means are over these" in shown and "times 0.125" in shown
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (kept["queries"], kept["queries_judged"], kept["queries_usable"]) == (1, 8, 1)


def test_what_was_measured_before_keeps_its_place(tmp_path):
    folder = tmp_path / "evaluation" / "model-test"
    assert evaluate._unused(folder) == folder
    folder.mkdir(parents=True)
    assert evaluate._unused(folder) == folder, "nothing was measured there"
    (folder / "metrics.json").touch()
    second = evaluate._unused(folder)
    assert second.name == "model-test-2"
    second.mkdir()
    (second / "metrics.json").touch()
    assert evaluate._unused(folder).name == "model-test-3"
