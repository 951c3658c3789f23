"""Verification: what is measured on a candidate, and the one gate that turns measurements into a verdict.

`gate` holds every threshold and imports no torch. Measures, controls and oracles are functions over tensors and stock
models on the CPU; nothing here runs candidate code or touches the device.
"""
