"""From neighbours to negatives: drop the relevant, draw the rest, keep them as a table."""
