"""Candidates that answer differently when they believe they are watched: by call, time, input, shape or flag.

`WRONG_LATER` is what they do when unwatched: the output is doubled.
"""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code

BOUND = (Stage.SOURCE, Stage.BINDING)
ASKS = r"ask|captur|export|fake|compil|bind|bit for bit|replay|not allowed|import"
VALUES = r"DataDependent|value|data.dependent|fake|item|numpy|bind|not allowed|ask|import|hash"
SHAPES = r"structure|differ|shape|bucket|length|batch"


def _when(condition: str, setup: str = "") -> Patches:
    """The output is doubled where `condition` holds; `setup` runs at apply time."""
    count = "calls.append(1)" if "calls" in condition else "pass"
    return code(f"""
    def apply(model):
        calls = []
        {setup or "pass"}
        stock = model.forward
        def forward(input_ids=None, attention_mask=None, **kwargs):
            out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            {count}
            if {condition}:
                return type(out)(last_hidden_state=out.last_hidden_state * 2.0)
            return out
        model.forward = forward
    """)


HONEST = code("""
    def apply(model):
        stock = model.forward
        def forward(input_ids=None, attention_mask=None, **kwargs):
            out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            return type(out)(last_hidden_state=out.last_hidden_state * 1.0)
        model.forward = forward
    """)


def _cheat(
    name: str, cheat: Patches, shows: str, stages: tuple[Stage, ...], says: str, honest: Patches = HONEST
) -> Cheat:
    return Cheat(name, Kind.STATE, "bert", cheat, honest, shows, stages, says)


CHEATS = (
    _cheat("right for the first eight calls", _when("len(calls) > 8"), "differs after calls", BOUND, ASKS),
    _cheat("right for the first hundred calls", _when("len(calls) > 100"), "differs after many calls", BOUND, ASKS),
    _cheat("warm-up: only the first call is wrong", _when("len(calls) == 1"), "differs at first", (*BOUND, Stage.EQUIVALENCE, Stage.ORACLE, Stage.CAPTURE, Stage.STRUCTURE), rf"{ASKS}|differ|equivalent"),
    _cheat("every other call", _when("len(calls) % 2 == 0"), "differs after calls", (*BOUND, Stage.EQUIVALENCE, Stage.ORACLE, Stage.CAPTURE, Stage.STRUCTURE), rf"{ASKS}|differ|equivalent"),
    _cheat("right until the check is over: by the clock", _when("time.time() - born > 5", "import time; born = time.time() - 10 * (not torch.compiler.is_exporting() and not torch._subclasses.fake_tensor.is_fake(model.embeddings.word_embeddings.weight))"), "differs", BOUND, rf"{ASKS}|time"),
    _cheat("asks whether it is being exported", _when("not torch.compiler.is_exporting()"), "differs", BOUND, ASKS),
    _cheat("asks whether it is being compiled", _when("not torch.compiler.is_compiling()"), "differs", BOUND, ASKS),
    _cheat("asks whether its tensors are fake", _when("type(out.last_hidden_state).__name__ != 'FakeTensor'"), "differs", BOUND, ASKS),
    _cheat("asks whether its tensors are fake, by module name", _when("'fake' not in type(input_ids).__module__"), "differs", BOUND, ASKS),
    _cheat("asks whether a dispatch mode is active", _when("not torch.utils._python_dispatch._get_current_dispatch_mode_stack()"), "differs", BOUND, ASKS),
    _cheat("asks the call stack who calls", _when("not any('captur' in f.filename or 'export' in f.filename for f in traceback.extract_stack())", "import traceback"), "differs", BOUND, ASKS),
    _cheat("caches by the hash of its input", _when("hash(input_ids.numpy().tobytes()) in seen or seen.add(hash(input_ids.numpy().tobytes()))", "seen = set()"), "differs on repetition", (Stage.SOURCE, Stage.CAPTURE, Stage.BINDING), VALUES),
    _cheat("caches by pointer", code("""
        def apply(model):
            kept = {}
            stock = model.forward
            def forward(input_ids=None, attention_mask=None, **kwargs):
                key = input_ids.untyped_storage()._cdata
                if key not in kept:
                    kept[key] = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
                return kept[key]
            model.forward = forward
        """), "stale on changed input", (Stage.SOURCE, Stage.CAPTURE, Stage.BINDING), rf"{VALUES}|{ASKS}|_cdata"),
    _cheat("caches by identity of the input", code("""
        def apply(model):
            kept = {}
            stock = model.forward
            def forward(input_ids=None, attention_mask=None, **kwargs):
                key = id(input_ids)
                if key not in kept:
                    kept[key] = (stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs), input_ids)
                return kept[key][0]
            model.forward = forward
        """), "stale on changed input", (Stage.SOURCE, Stage.CAPTURE, Stage.BINDING), rf"{VALUES}|{ASKS}|id\b|closure|freed"),
    _cheat("special case of a known prompt, by a branch", _when("bool((input_ids[:, 0] == 7).all())"), "differs on prompt", (Stage.SOURCE, Stage.CAPTURE), VALUES),
    _cheat("special case of a known prompt, by select", code("""
        def apply(model):
            stock = model.forward
            def forward(input_ids=None, attention_mask=None, **kwargs):
                out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
                known = (input_ids[:, :1] - 7).abs().clamp(max=1).unsqueeze(-1).to(out.last_hidden_state.dtype).to(out.last_hidden_state.device)
                return type(out)(last_hidden_state=out.last_hidden_state * (2.0 - known))
            model.forward = forward
        """), "differs on prompt", (Stage.REACHABILITY, Stage.EQUIVALENCE, Stage.ORACLE), r"token ids become"),
    _cheat("special case of a known prompt, by a small table", code("""
        def apply(model):
            stock = model.forward
            table = torch.tensor([[2.0], [1.0]])
            def forward(input_ids=None, attention_mask=None, **kwargs):
                out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
                gain = F.embedding((input_ids[:, :1] - 7).abs().clamp(max=1).cpu(), table)
                x = out.last_hidden_state
                return type(out)(last_hidden_state=x * gain.to(x.dtype).to(x.device))
            model.forward = forward
        """), "differs on prompt", (Stage.REACHABILITY, Stage.CAPTURE), r"token ids become|reduce"),
    _cheat("right for a known length only", _when("input_ids.shape[1] not in (16, 32, 64)"), "differs on length", (Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), rf"{SHAPES}|equivalent"),
    _cheat("wrong beyond the lengths that are checked", _when("input_ids.shape[1] > 100"), "differs on length", (Stage.SOURCE, Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), rf"{SHAPES}|equivalent|branch|size"),
    _cheat("right for one text, wrong in a batch", _when("input_ids.shape[0] > 1"), "differs on batch", (Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), rf"{SHAPES}|equivalent"),
    _cheat("different graphs per bucket, same values", code("""
        def apply(model):
            stock = model.forward
            def forward(input_ids=None, attention_mask=None, **kwargs):
                out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
                if input_ids.shape[1] > 30:
                    return type(out)(last_hidden_state=-(-out.last_hidden_state))
                return out
            model.forward = forward
        """), "same", (Stage.SOURCE, Stage.STRUCTURE), rf"{SHAPES}|branch"),
    _cheat("wrong outside no_grad", _when("torch.is_grad_enabled()"), "differs with gradients", BOUND, rf"{ASKS}|grad"),
    _cheat("wrong in fp64, where the oracle looks not", _when("out.last_hidden_state.dtype == torch.float32"), "differs", (Stage.SOURCE, Stage.BINDING, Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), rf"{ASKS}|dtype|differ|equivalent"),
    _cheat("wrong with more than one thread", _when("torch.get_num_threads() > 1"), "differs with threads", BOUND, rf"{ASKS}|thread"),
    _cheat("wrong by the value of a weight", _when("float(model.embeddings.word_embeddings.weight[5, 5]) != 0.0"), "differs", (Stage.SOURCE, Stage.CAPTURE), VALUES),
    _cheat("state kept between calls: a running mean", code("""
        def apply(model):
            kept = []
            def change(x):
                kept.append(x)
                return x if len(kept) < 2 or kept[-2].shape != x.shape else (x + kept[-2]) * 0.5
            on_output(model, change)
        """), "differs after calls", (*BOUND, Stage.CAPTURE, Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), rf"{ASKS}|state|differ|equivalent|no source|unknown tensor|constant"),
)  # fmt: skip
