"""Starts a run and watches over it. Nothing here imports torch: roles are separate processes.

main       verbs of the `dance` command
compose    overrides -> one checked Config
preflight  what can be refused before anything expensive
prepare    run folder, text and tokens (in a child process)
plan       pure: settings and machine -> what to start, where
supervise  both roles' process trees: first failure ends the run, no orphan survives
postmortem who failed and why
stages     several runs one after another, each from the best encoder of the one before
view       what both roles are doing, on a terminal or as lines
report     the table at the end; stage_table: the one over all stages
"""
