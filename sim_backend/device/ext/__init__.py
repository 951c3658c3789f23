"""The device's C++ module, loaded (and built, once) when one of its functions is first asked for.

cpu_alias(t)              zero-copy CPU view with the same sizes and strides; int16 codes for fp16 and bf16
layout_tag(t) -> int      small integer of the storage's allocation; 0 is the default layout
set_layout_tag(t, tag)    reset to 0 by a new allocation and by copy_ into the storage
mark_host_bytes(t)        the storage of `t` came byte by byte from a file; the first dtype it is read as converts it
to_compute(t)             CPU tensor of values: fp16 and bf16 decoded to a new float32, else the zero-copy alias
from_compute(x, dtype)    new device tensor: float32 rounded and encoded for fp16 and bf16, int64 wrapped
from_codes(c, dtype)      new device tensor that holds the int16 codes `c` as fp16 or bf16
write_compute(t, x)       the same into an existing device tensor of any strides
memory_stats()            current, peak, count, live, failed, intermediate, limit (bytes and counts)
set_op_rounding(r)        0, 1, 2 of numerics.Rounding: how write_compute and from_compute round
set_limits(n, bytes, intermediate_bytes), set_policy(h2d_rounding, d2h_rounding, infinity, refused),
set_callbacks(cast, downcast), set_prefix_copy(function)
set_runtime(...), set_copy_rules(...), set_costs(...): what the profile says of devices, copies and simulated time
host_time(), queue_eager(bytes, flop), queue_bundle(bytes, flop): the simulated clock, in nanoseconds
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from sim_backend.device.build import load

    module = load("spyre_ext")
    globals().update({k: v for k, v in vars(module).items() if not k.startswith("_")})
    return getattr(module, name)
