"""The device's known defects, one subject a module: when each triggers and what it does to values (facts section 6).

Every defect is switched by the profile (`profile.has("E-17")`), with its parameters in `profile.errata`.
"""
