"""The laws of an engine: one body of tests for every backend.

They speak to an engine through `ictcli.engine` and NumPy alone. What is right is decided by
`oracle` (plain forward passes, formulas in float64) and by `dense` (plain autograd and AdamW).
"""
