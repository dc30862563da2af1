"""A run that is to follow a teacher is refused before anything expensive where there is none."""

from types import SimpleNamespace

import numpy as np
import pytest

from dance.config import Config, Loss
from dance.corpus.teacher import TeacherScores
from dance.learning.teaching import require_teacher


def test_distillation_without_scores_is_refused_with_the_file_that_would_hold_them():
    scores = TeacherScores.of(np.array([0]), np.array([0]), np.array([1.0]))
    distilling = Config(loss=Loss(distill="kl"))
    with pytest.raises(ValueError, match=r"loss.distill=kl needs.*some: dev.*teacher/train.tsv"):
        require_teacher(SimpleNamespace(teacher={"dev": scores}), distilling)
    require_teacher(SimpleNamespace(teacher={"train": scores}), distilling)
    require_teacher(SimpleNamespace(teacher={}), Config())
