"""The Celery application, `pipeline.work.celery_app:app`. Imported by workers and the dispatcher only.

The worker parent imports neither torch nor anything that starts threads before it forks; every model runs in a
`subprocess` of a pool process.
"""

from __future__ import annotations

import signal
from typing import Any

from celery import Celery
from celery.signals import celeryd_init, worker_process_init, worker_shutting_down
from kombu.transport import TRANSPORT_ALIASES

from pipeline.settings import get_settings
from pipeline.work import shutdown
from pipeline.work.broker import ALIAS, TRANSPORT, celery_settings, prepare_broker
from pipeline.work.logs import configure_logging
from pipeline.work.reaper import PR_SET_PDEATHSIG, prctl
from pipeline.work.sandbox_state import begin_test

TRANSPORT_ALIASES.setdefault(ALIAS, TRANSPORT)

app = Celery("spyre-factory", include=["pipeline.work.tasks"], set_as_current=False)
app.add_defaults(lambda: celery_settings(get_settings()))


@celeryd_init.connect
def _before_worker(**_: Any) -> None:
    configure_logging()
    prepare_broker(get_settings())
    begin_test(get_settings().data_dir)


@worker_shutting_down.connect
def _stopping(**_: Any) -> None:
    shutdown.announce()


@worker_process_init.connect
def _in_pool_process(**_: Any) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    configure_logging()
