"""From text files to integer rows: readers, string tables, relevance judgements, token stores."""
