"""The algorithm: which tokens are trained, and with which weights. No backend, model or I/O.

In the order of the data flow: quantities, selection, methods, weights, objective, dynamics.
"""
