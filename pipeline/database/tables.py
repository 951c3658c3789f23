"""Every table of the factory: importing this module registers them all with `Base.metadata`, as relationships need."""

from pipeline.bench import models as _bench
from pipeline.database import models as _shared
from pipeline.database.base import Base
from pipeline.hardware import models as _hardware
from pipeline.notices import models as _notices
from pipeline.releases import models as _releases
from pipeline.requests import models as _requests
from pipeline.review import models as _review
from pipeline.rules import models as _rules
from pipeline.sweeps import models as _sweeps
from pipeline.work import models as _work

DOMAINS = (_shared, _sweeps, _work, _review, _releases, _requests, _bench, _hardware, _rules, _notices)

__all__ = ["DOMAINS", "Base"]
