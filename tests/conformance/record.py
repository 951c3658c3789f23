"""Prints the expectations of a profile as the simulator is now: `python tests/conformance/record.py PROFILE`."""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from opinfo import SAMPLES, run_share, summary


def main() -> None:
    """Grouped by outcome; what is wrong or our fault is explained on stderr."""
    profile, whole = sys.argv[1], {}
    for form in ("eager", "compiled"):
        groups: dict[str, list[str]] = defaultdict(list)
        with tempfile.TemporaryDirectory() as cache:
            found = run_share(profile, form, 0, 1, SAMPLES, Path(cache))
        for op, outcomes in sorted(found.items()):
            groups[summary(outcomes)].append(op)
            for outcome, detail in outcomes:
                if outcome in ("wrong", "fault", "crash", "dies"):
                    print(f"{profile} {form} {op}: {outcome}: {detail}", file=sys.stderr)
        whole[form] = {outcome: groups[outcome] for outcome in sorted(groups)}
    print(f"# {profile}: outcome -> operations of PyTorch's OpInfo database, float16, first / second sample.")
    print(yaml.safe_dump(whole, default_flow_style=None, width=118, sort_keys=False), end="")


if __name__ == "__main__":
    main()
