"""The lanes in which engines run freely: futures of roots, rollouts, sampled decoding, answers to tasks.

Each lane of an execution has an identity of its own, so that what is on disk is never taken twice and never mixed with
what other settings gave.
"""
