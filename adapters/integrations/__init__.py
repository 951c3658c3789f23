"""Bridges to other libraries. Each imports its library only when called, and changes it only when told to."""
