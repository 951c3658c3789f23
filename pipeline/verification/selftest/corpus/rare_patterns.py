"""Honest candidates of the patterns that few families need, and why some patterns have none."""

from __future__ import annotations

from pipeline.verification.selftest.corpus import device
from pipeline.verification.selftest.corpus import mathematics as m
from pipeline.verification.selftest.entry import Honest, Patches, code, library

H32 = {"head_dim": 32, "padded_head_dim": 64}
ON_DEVICE, POOLED = device.SUBJECT, (*device.SET, library("P80"))
"""What runs on the device; there a pooling is judged with the vectors it gives."""
END_TOKEN: Patches = (
    library("P56", dtype="float16"),
    library("P20", **H32),
    library("P40", fill="finfo_min_half"),
    library("P54"),
    library("P99", multiple=64),
    library("P63", multiple=64, side="right"),
    library("P80"),
)
"""A text tower of CLIP, whose vector is that of the end token, the last one."""


def _linear(kind: str, name: str, expression: str) -> Patches:
    """A linear of every module of a class, written anew from its weight `w` [out, in] and bias `b`."""
    return code(f"""
    def apply(model):
        for m in each(model, {kind!r}):
            w, b = m.{name}.weight.detach(), m.{name}.bias.detach()
            linear = m.{name}
            {expression}
    """)


HONEST = (
    Honest("tables of a scaled rotation made on the host", "P16", "llama-scaled", (library("P14"),)),
    Honest("neighbouring lanes turned by a matrix product", "P18", "gptj", (library("P18"),)),
    Honest("width padded, then cut", "P23", "bert", _linear("BertSelfOutput", "dense", """
            linear.weight = parameter(F.pad(w, (0, 0, 0, 64)))
            linear.bias = parameter(F.pad(b, (0, 64)))
            linear.forward = lambda x, linear=linear: F.linear(x, linear.weight, linear.bias)[..., :128]
        """)),
    Honest("vocabulary padded", "P24", "bert", code("""
        def apply(model):
            table = model.embeddings.word_embeddings
            table.weight = parameter(F.pad(table.weight.detach(), (0, 0, 0, 48)))
        """)),
    Honest("one linear in chunks", "P25", "bert", _linear("BertIntermediate", "dense", """
            linear.parts = torch.nn.ParameterList(parameter(p.clone()) for p in w.chunk(4))
            linear.shifts = torch.nn.ParameterList(parameter(p.clone()) for p in b.chunk(4))
            linear.forward = lambda x, linear=linear: torch.cat(
                [F.linear(x, p, s) for p, s in zip(linear.parts, linear.shifts)], -1)
        """)),
    Honest("a shared table cloned before it is padded", "P29", "t5", code("""
        def apply(model):
            table = model.get_input_embeddings()
            table.weight = parameter(F.pad(table.weight.detach().clone(), (0, 0, 0, 48)))
        """)),
    Honest("ids stay on the host", "P31", "electra", (library("P30"),)),
    Honest("embeddings with their own rules, on the host", "P35", "esm", (library("P30"),)),
    Honest("capped scores written out", "P43", "gemma2", (library("P42"),)),
    Honest("gathers as products with one-hot tables", "P49", "deberta", (library("P30"), library("P49"))),
    Honest("slopes added on the host", "P50", "bloom", (library("P50"),)),
    Honest("a convolution of width one as a product", "P51", "convbert", code("""
        def apply(model):
            for m in each(model, "SeparableConv1D"):
                one = m.pointwise
                one.forward = lambda x, one=one: (x.transpose(1, 2) @ one.weight[..., 0].t()).transpose(1, 2)
        """)),
    Honest("words only, masks on the host", "P53", "luke", (library("P45"),)),
    Honest("tables made before the first call", "P64", "gpt_neox", (library("P14"), library("P45"))),
    Honest("a copy between the stages of a block", "P65", "bert", m._attention("value=lambda v: v.clone()")),
    Honest("the set of its alias", "P70", "camembert", (library("P30"), library("P32"), library("P40"))),
    Honest("the set of its model with other names", "P71", "distilbert", (library("P30"), library("P20", **H32))),
    Honest("a family in its own class", "P72", "nomic", (library("P14"),)),
    Honest("both ways, masks on the host", "P73", "gemma3-both-ways", (library("P45"),)),
    Honest("multiplier folded into the table", "P92", "granite", code("""
        def apply(model):
            model.embed_tokens.weight = parameter(model.embed_tokens.weight.detach() * model.embedding_multiplier)
            model.embedding_multiplier = 1.0
        """)),
    Honest("parallel branches, lanes turned by a product", "P93", "gptj", (library("P18"), library("P45"))),
    Honest("a decoder used as an encoder, heads padded", "P95", "gemma3-both-ways", (library("P21", **H32),)),
    Honest("local windows without a scale", "P96", "gpt_neo", (library("P96"),)),
    Honest("half of the lanes turned by a product", "P17", "phi", (library("P14"),)),
    Honest("pairs of lanes turned by a product, from a table", "P18", "roformer", (library("P18"),)),
    Honest("angles of several axes made on the host", "P19", "qwen2_vl", (library("P14"),)),
    Honest("fused projections split, heads padded by halves", "P21", "phi3", (
        library("P27"), library("P06"), library("P21", **H32), library("P14"))),
    Honest("the whole width padded", "P23", "bert-ragged", (library("P30"), library("P23", size=96, padded=128))),
    Honest("rows that no position reads", "P32", "clip", (library("P63", multiple=64), library("P99", multiple=64))),
    Honest("slopes of a number of heads that is no power of two", "P50", "bloom-12", (library("P50"),)),
    Honest("kernels beside attention as products", "P51", "convbert", (library("P51"),)),
    Honest("blocks of attention that see everything", "P52", "big_bird", (library("P97"),)),
    Honest("a rewritten family in its own class", "P72", "gte", (library("P21", **H32), library("P14"))),
    Honest("prompts padded on the left", "P91", "llama-scaled", (library("P63", multiple=64, side="left"),)),
    Honest("the first token taken on the host", "P81", ON_DEVICE, POOLED, pooling="cls"),
    Honest("the last token taken on the host", "P82", ON_DEVICE, POOLED, pooling="lasttoken"),
    Honest("the end token taken on the host", "P83", "clip", END_TOKEN, pooling="lasttoken"),
    Honest("the mean by place on the host", "P84", ON_DEVICE, POOLED, pooling="weightedmean"),
)  # fmt: skip

POOLING = "acts behind the last hidden state, on the host: tests/adapters/integrations holds it to the stock pipeline"
GENERATION = "generation of tokens, which no embedding model does"
WITHOUT: dict[str, str] = {
    "P46": "rows picked by a mask: how many depends on values, so that the stock model cannot be captured",
    "P67": "empty texts: a rule for tokenizers, an oracle of the full tier",
    "P69": "flags of the compiler: part of the environment, no change of the model",
    **dict.fromkeys(("P85", "P86", "P87", "P88", "P89"), POOLING),
    "P90": GENERATION,
    "P94": "mixtures of experts: routing depends on values, which cannot be captured; the pattern itself says refuse",
}
"""Patterns of the catalogue without an honest candidate here, with the reason."""
