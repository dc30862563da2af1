"""Train dense retrievers on the negatives that they themselves find hardest (ANCE, DANCE).

The library, cut by the stage of the data: ``corpus`` -> ``encoder`` -> ``search`` -> ``mining``
-> ``exchange`` -> ``learning`` -> ``evaluation``, on a ground floor of ``config``, ``paths``,
``artefact``, ``world``, ``entry``, ``stopping``, ``tracking``, ``progress`` and ``log``.
"""
