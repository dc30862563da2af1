"""How much each term of the loss counts at an update: all that tells one method's loss from another's.

    loss = v loss_q2d + w(step) loss_d2q + a alignment + u uniformity + t loss_distill

``loss_q2d`` is document retrieval (ANCE, v = 1), ``loss_d2q`` query retrieval (DANCE section 3, w = 0.1). v = 0
with t over 0 learns from the teacher alone.
"""

from __future__ import annotations

from ..config import Loss


def weights(loss: Loss, step: int) -> dict[str, float]:
    """By the name of the term, for the update from ``step``; what weighs 0 is at most measured."""
    ramp = min(1.0, step / loss.dual_ramp_steps) if loss.dual_ramp_steps else 1.0
    return {
        "loss_q2d": loss.q2d_weight,
        "loss_d2q": loss.dual_weight * ramp,
        "alignment": loss.alignment,
        "uniformity": loss.uniformity,
        "loss_distill": 0.0 if loss.distill == "none" else loss.distill_weight,
    }
