"""From examples to updates: order, batches, losses, optimisation, checkpoints."""
