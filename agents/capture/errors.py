"""What capture refuses."""

from __future__ import annotations


class CaptureRefused(Exception):
    """The patched model cannot be written as a document; the message says why, for whoever drafted the patches."""
