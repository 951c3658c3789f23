"""Errors of messages to the outside.

EnvironmentProblem
└── NotDelivered   the receiver could not be reached, or did not take the message
BadInput
├── AddressRefused the address is private, or not one that messages are sent to
└── WebhooksOff    a callback was asked for, and the setting that sends them is off
"""

from __future__ import annotations

from pipeline.errors import BadInput, EnvironmentProblem


class NotDelivered(EnvironmentProblem):
    """The receiver did not take the message."""

    code, status = "not_delivered", 503


class AddressRefused(BadInput):
    """Messages are not sent to this address."""

    code, status = "address_refused", 422
