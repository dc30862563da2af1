"""From vectors to neighbours: exact Faiss search by shard, the merge of shard results, BM25."""
