"""How thoroughly properties are tried: quickly by default, HYPOTHESIS_PROFILE=thorough for a search at leisure."""

import os

from hypothesis import settings

settings.register_profile("quick", max_examples=20, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
