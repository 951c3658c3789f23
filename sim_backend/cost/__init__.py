"""What operations cost in simulated time, before anything runs: data in `costs.yaml`, formulas of facts 7.2.

For choosing between equal forms, not for reports: the clock of a run is `sim_backend.device.clock`.
"""

from sim_backend.cost.model import Costs, load_costs

__all__ = ["Costs", "load_costs"]
