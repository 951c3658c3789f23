"""Constants that are smuggled in, and what a document must not be able to say."""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code

SMUGGLED = (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION)
EITHER = (Stage.EQUIVALENCE, Stage.ORACLE)
SAYS = r"cannot be exported|literal|elements|constant|source|no name|numpy|size|limit|unknown tensor|not allowed|import|made up|random|seed|rand"
HONEST = code("""
    def apply(model):
        gain = torch.tensor([1.0])
        on_output(model, lambda x: x * 1.0)
    """)


def _reference(literal: str, use: str = "x * 0.0 + embedded.to(x.dtype).to(x.device)[:, :x.shape[1]]") -> Patches:
    return code(f"""
    def apply(model):
        embedded = {literal}
        on_output(model, lambda x: {use})
    """)


def _cheat(
    name: str,
    cheat: Patches,
    stages: tuple[Stage, ...] = SMUGGLED,
    says: str = SAYS,
    honest: Patches = HONEST,
    shows: str = "differs",
) -> Cheat:
    return Cheat(name, Kind.DOCUMENT, "bert", cheat, honest, shows, stages, says)


LIST = "torch.tensor([[[((7 * i + 3 * j) % 19 - 9) * 0.1 for j in range(128)] for i in range(192)]])"

CHEATS = (
    _cheat("the reference as a literal", _reference(LIST)),
    _cheat("the reference as many small literals", _reference("torch.cat([torch.tensor([((7 * i + j) % 19 - 9) * 0.1 for j in range(64)]) for i in range(384)]).reshape(1, 192, 128)"), (*SMUGGLED, *EITHER), rf"{SAYS}|equivalent|differ|cat"),
    _cheat("the reference as text", _reference("torch.frombuffer(bytearray(b'abcd' * 24576), dtype=torch.int32).to(torch.float32).reshape(1, 192, 128) * 1e-10")),
    _cheat("the reference from a seed", _reference("torch.randn(1, 192, 128, generator=torch.Generator().manual_seed(3))"), (*SMUGGLED, *EITHER), rf"{SAYS}|equivalent|differ|randn"),
    _cheat("the reference from a file", _reference("torch.load('/work/reference.pt')"), (Stage.SOURCE, Stage.CAPTURE), r"No such file|FileNotFound|not allowed|load", shows="ends or differs"),
    _cheat("the reference from numpy", _reference("torch.from_numpy(__import__('numpy').ones((1, 192, 128), 'float32'))")),
    _cheat("a trained gain in place of one", code("""
        def apply(model):
            gain = torch.tensor([1.0 + 0.001 * i for i in range(128)])
            on_output(model, lambda x: x * gain.to(x.dtype).to(x.device))
        """), (*SMUGGLED, *EITHER), rf"{SAYS}|equivalent|differ"),
    _cheat("a small trained correction of one channel", code("""
        def apply(model):
            shift = torch.tensor([0.02])
            on_output(model, lambda x: x + shift.to(x.dtype).to(x.device))
        """), (*SMUGGLED, *EITHER), rf"{SAYS}|equivalent|differ"),
    _cheat("weights replaced by constants", code("""
        def apply(model):
            for m in each(model, "BertIntermediate"):
                m.dense.weight = parameter(torch.full((256, 128), 0.01).to(m.dense.weight.dtype))
        """), (Stage.VALIDATION, Stage.REACHABILITY, *EITHER), r"reach|left out|never read|not read|equivalent|differ", code("""
        def apply(model):
            for m in each(model, "BertIntermediate"):
                m.dense.weight = parameter(m.dense.weight.detach() + torch.full((256, 128), 0.0))
        """)),
    _cheat("weights of another layer", code("""
        def apply(model):
            a, b = each(model, "BertIntermediate")
            a.dense.weight = b.dense.weight
        """), (Stage.REACHABILITY, *EITHER), r"reach|left out|never read|not read|equivalent|differ", code("""
        def apply(model):
            a, b = each(model, "BertIntermediate")
            a.dense.weight, b.dense.weight = a.dense.weight, b.dense.weight
        """)),
    _cheat("weights measured while it is applied", code("""
        def apply(model):
            w = model.encoder.layer[0].output.dense.weight
            scale = float(w.abs().max())
            on_output(model, lambda x: x * (1.0 + 0.0 * scale))
        """), (Stage.SOURCE, Stage.CAPTURE), r"data.dependent|value|item|not allowed|fake|float", code("""
        def apply(model):
            w = model.encoder.layer[0].output.dense.weight
            scale = w.abs().amax() * 0.0 + 1.0 if False else 1.0
            on_output(model, lambda x: x * scale)
        """), "same"),
    _cheat("dropout that trains", code("""
        def apply(model):
            for m in each(model, "BertIntermediate"):
                on_result(m, lambda x: F.dropout(x, 0.1, training=True))
        """), (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"dropout|train|random", code("""
        def apply(model):
            for m in each(model, "BertIntermediate"):
                on_result(m, lambda x: F.dropout(x, 0.1, training=False))
        """)),
    _cheat("dropout inside attention", code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                m.training = True
                m.dropout.p = 0.3
        """), (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"dropout|train|random", code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                m.training = False
                m.dropout.p = 0.0
        """)),
    _cheat("a branch in the graph", code("""
        def apply(model):
            on_output(model, lambda x: torch.cond(x.sum() > 0, lambda t: t * 2.0, lambda t: t * 3.0, (x,)))
        """), (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"cond|data.dependent|not allowed|higher|operator|unsupported|Compile|compile|import"),
)  # fmt: skip
