"""From token ids to vectors: the model, its files, batching by token budget, the embedding store."""
