"""Errors of the work.

Conflict
└── LeaseLost             the run has been given to somebody else, or is done
EnvironmentProblem
├── NoRoom                the run does not fit into the machine's memory now
├── WorkersUnavailable    no worker or dispatcher can be started
└── PortBusy              the port of the dashboard is taken
"""

from __future__ import annotations

from pipeline.errors import Conflict, EnvironmentProblem


class LeaseLost(Conflict):
    """The lease's fencing number is old: the run belongs to somebody else now, or is done."""

    code, status = "lease_lost", 409


class NoRoom(EnvironmentProblem):
    """The run does not fit into memory beside what runs on this machine."""

    code, status = "no_room", 503


class WorkersUnavailable(EnvironmentProblem):
    """Workers or the dispatcher cannot be started, or have ended for good."""

    code, status = "workers_unavailable", 503


class PortBusy(EnvironmentProblem):
    """The port is taken."""

    code, status = "port_busy", 503
