"""Reproducers: a stand-alone script per cause that fails the same way, smaller than the model it comes from.

`data` draws seeded synthetic values, `shrink` makes the failing program smaller, `script` writes it down, `check` runs
it in a fresh process and compares its signature with the diagnosis, `refusals` finds the program of a loud failure,
`make` puts them in order.
"""
