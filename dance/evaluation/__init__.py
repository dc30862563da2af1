"""How good a ranking is: metrics through ir-measures, TREC run files."""
