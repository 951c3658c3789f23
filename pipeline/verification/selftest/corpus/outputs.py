"""Outputs that are wrong as a whole: constants, echoes, other texts' answers, wrong size, noise, values not finite."""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code

ORACLES = (Stage.VALIDATION, Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE)
UNREAD = (Stage.REACHABILITY, *ORACLES)
WRONG = r"not.equivalent|differ|cosine|norm|may not run on the host"
MISSING = r"reach|never read|left out|not read|0 calls of blocks"


def _output(change: str) -> Patches:
    """The model's output x becomes the expression `change`."""
    return code(f"""
    def apply(model):
        on_output(model, lambda x: {change})
    """)


def _cheat(name: str, cheat: str, honest: str, stages: tuple[Stage, ...] = ORACLES, says: str = WRONG) -> Cheat:
    return Cheat(name, Kind.OUTPUTS, "bert", _output(cheat), _output(honest), "differs", stages, says)


CHEATS = (
    _cheat("zeros", "x * 0.0", "x * 1.0"),
    _cheat("fresh zeros", "torch.zeros_like(x)", "x + torch.zeros_like(x)", UNREAD, f"{MISSING}|{WRONG}|zeros_like"),
    _cheat("constant: the mean token everywhere", "x.mean(1, keepdim=True).expand(x.shape)", "x.expand(x.shape)"),
    _cheat(
        "constant of the model: one weight row everywhere",
        "model.embeddings.word_embeddings.weight[:1].to(x.device).to(x.dtype).unsqueeze(0).expand(x.shape)",
        "x.unsqueeze(0).expand(1, *x.shape)[0]",
        UNREAD,
        f"{MISSING}|{WRONG}",
    ),
    Cheat(
        "echo: the embeddings are returned",
        Kind.OUTPUTS,
        "bert",
        code("""
        def apply(model):
            for layer in model.encoder.layer:
                replace(layer, lambda self, x, *args, **kwargs: x * 1.0)
        """),
        code("""
        def apply(model):
            for layer in model.encoder.layer:
                on_result(layer, lambda x: x * 1.0)
        """),
        "differs",
        UNREAD,
        f"{MISSING}|{WRONG}",
    ),
    _cheat("another text's answer", "x.flip(0)", "x.flip(0).flip(0)"),
    _cheat("a thousand times too large", "x * 1000.0", "x * 1024.0 * 0.0009765625"),
    _cheat("five percent too large", "x * 1.05", "x * 2.0 * 0.5"),
    _cheat("the opposite sign", "-x", "-(-x)"),
    _cheat(
        "right norm, wrong direction: channels exchanged",
        "torch.cat([x[..., 64:], x[..., :64]], -1)",
        "torch.cat([x[..., :64], x[..., 64:]], -1)",
    ),
    _cheat(
        "noise of the right norm",
        "torch.randn_like(x) * x.pow(2).mean(-1, keepdim=True).sqrt()",
        "x + 0.0 * x.pow(2)",
        (Stage.CAPTURE, Stage.VALIDATION),
        "randn",
    ),
    _cheat("nan", "x * float('nan')", "x * 1.0", (Stage.VALIDATION, *ORACLES), f"nan|finite|{WRONG}"),
    _cheat("infinity", "x * float('inf')", "x * 1.0", (Stage.VALIDATION, *ORACLES), f"inf|finite|{WRONG}"),
    _cheat(
        "one token of many is zero",
        "torch.cat([x[:, :3], x[:, 3:4] * 0.0, x[:, 4:]], 1)",
        "torch.cat([x[:, :3], x[:, 3:4] * 1.0, x[:, 4:]], 1)",
    ),
    _cheat(
        "only the first token is computed, the others repeat it",
        "x[:, :1].expand(x.shape)",
        "torch.cat([x[:, :1], x[:, 1:]], 1)",
    ),
    _cheat("tokens one place to the right", "torch.cat([x[:, -1:], x[:, :-1]], 1)", "torch.cat([x[:, :-1], x[:, -1:]], 1)"),
    _cheat("ten times the same text: the batch's mean", "x.mean(0, keepdim=True).expand(x.shape)", "x * 1.0"),
    _cheat("a rank lost: one channel is copied over its neighbour", "torch.cat([x[..., 1:2], x[..., 1:]], -1)", "x * 1.0"),
)  # fmt: skip
