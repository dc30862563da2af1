"""The Trainer: learns from the newest negatives, hands over encoders, never waits if it need not."""
