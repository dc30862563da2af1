"""The Inferencer: re-encodes the corpus from each new encoder, scores it, mines and publishes negatives."""
