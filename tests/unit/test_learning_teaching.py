"""A run that is to follow a teacher is refused before anything expensive where there is none."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from dance.config import Config, Loss, Negatives, Sources
from dance.corpus.teacher import TeacherScores
from dance.learning.teaching import require, require_given, require_teacher


def test_distillation_without_scores_is_refused_with_the_file_that_would_hold_them():
    scores = TeacherScores.of(np.array([0]), np.array([0]), np.array([1.0]))
    distilling = Config(loss=Loss(distill="kl"))
    with pytest.raises(ValueError, match=r"loss.distill=kl needs.*some: dev.*teacher/train.tsv"):
        require_teacher(SimpleNamespace(teacher={"dev": scores}), distilling)
    require_teacher(SimpleNamespace(teacher={"train": scores}), distilling)
    require_teacher(SimpleNamespace(teacher={}), Config())


def test_given_negatives_that_the_data_has_not_are_refused_with_the_file_that_would_hold_them():
    asked = Config(sources=Sources(ann=0.0, given=1.0))
    with pytest.raises(ValueError, match=r"sources.given=1.0: the data gives no negatives.*negatives/train.tsv"):
        require_given(SimpleNamespace(given={"dev": None}), asked)
    require_given(SimpleNamespace(given={"train": None}), asked)
    require_given(SimpleNamespace(given={}), Config())
    require_given(SimpleNamespace(given={}), Config(sources=Sources(given=1.0), negatives=Negatives(per_example=0)))


def test_all_of_it_is_required_together():
    nothing = SimpleNamespace(given={}, teacher={})
    for settings, key in (
        (Config(sources=Sources(given=1.0)), "sources.given"),
        (Config(loss=Loss(distill="kl")), "loss.distill"),
    ):
        with pytest.raises(ValueError, match=key):
            require(nothing, settings)
    require(nothing, Config())


def test_what_is_required_is_known_without_torch():
    """The launcher asks before it starts anything."""
    code = "import sys, dance.learning.teaching; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
