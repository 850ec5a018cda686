"""The algorithm: which tokens count, and how much. No backend, no model, no I/O.

Read in the order the data goes: advantages, quantities, selection, methods, weights, objective,
dynamics.
"""
