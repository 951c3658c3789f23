"""Honest candidates over the pattern catalogue: library patches, and drafted code where the library has none yet."""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.corpus import mathematics as m
from pipeline.verification.selftest.corpus.parameters import GELU_NEW, replacing
from pipeline.verification.selftest.entry import Honest, Patches, code, library


def _each(kind: str, parameters: str, expression: str, before: str = "pass") -> Patches:
    return code(f"""
    def forward(self, {parameters}):
        {before}
        return {expression}

    def apply(model):
        for m in each(model, {kind!r}):
            replace(m, forward)
    """)


def _activation(expression: str) -> Patches:
    """BERT's activation, from the dense layer's output h."""
    return _each("BertIntermediate", "x", expression, "h = self.dense(x)")


ERF = "0.5 * h * (1.0 + torch.erf(h * 0.7071067811865476))"
TANH = "2.0 * torch.sigmoid(2.0 * z) - 1.0"

EXPLICIT = """
    def forward(self, x, attention_mask=None, **kwargs):
        b, n, _ = x.shape
        heads = lambda t: t.view(b, n, -1, self.attention_head_size).transpose(1, 2)
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        {scores}
        if attention_mask is not None:
            s = {masked}
        out = torch.softmax(s, -1) @ v
        return out.transpose(1, 2).reshape(b, n, -1), None

    def apply(model):
        for m in each(model, "BertSelfAttention"):
            replace(m, forward)
"""

RESCALE = """
    def apply(model):
        c = 4.0
        for layer in model.layers:
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.variance_epsilon = norm.variance_epsilon / c ** 2
            layer.self_attn.o_proj.weight = parameter(layer.self_attn.o_proj.weight.detach() / c)
            layer.mlp.down_proj.weight = parameter(layer.mlp.down_proj.weight.detach() / c)
        model.embed_tokens.weight = parameter(model.embed_tokens.weight.detach() / c)
        model.norm.variance_epsilon = model.norm.variance_epsilon / c ** 2
"""

HONEST = (
    Honest("gelu_new as products", "P01", "albert", replacing(GELU_NEW)),
    Honest("gelu_new with another grouping", "P01", "albert", replacing({**GELU_NEW, 2: ["mul.Tensor", 1, 0.044715], 3: ["mul.Tensor", 2, 0]})),
    Honest("gelu_new through a sigmoid", "P02", "albert", replacing({**GELU_NEW, 5: ["mul.Tensor", 4, 2 * 0.7978845608028654], 6: ["sigmoid.default", 5], 7: ["mul.Tensor", 6, 1.0], 8: ["mul.Tensor", 0, 1.0]})),
    Honest("rms norm's square as a product", "P01", "qwen3", m.RMS),
    Honest("gelu by erf", "P03", "bert", _activation(ERF)),
    Honest("quick gelu by sigmoid", "P04", "bert-quick", _activation("h * torch.sigmoid(1.702 * h)")),
    Honest("quick gelu by exp", "P04", "bert-quick", _activation("h / (1.0 + torch.exp(-1.702 * h))")),
    Honest("silu by sigmoid", "P05", "qwen3", m._qwen_mlp("self.down_proj((lambda g: g * torch.sigmoid(g))(self.gate_proj(x)) * self.up_proj(x))")),
    Honest("tanh by sigmoid", "P05", "gpt2", _each("GPT2MLP", "x", f"self.c_proj(0.5 * h * (1.0 + {TANH}))", "h = self.c_fc(x); z = 0.7978845608028654 * (h + 0.044715 * h * h * h)"), 1e-9),
    Honest("halves of a fused gate sliced", "P06", "modernbert", _each("ModernBertMLP", "x", "self.Wo(F.gelu(h[..., :192]) * h[..., 192:])", "h = self.Wi(x)")),
    Honest("gate first, then up", "P06", "qwen3", m._qwen_mlp("self.down_proj(self.up_proj(x) * F.silu(self.gate_proj(x)))")),
    Honest("fused gate split into two linears", "P06", "modernbert", (library("P06"),)),
    Honest("dropout modules removed", "P07", "bert", code("""
        def apply(model):
            for m in each(model, "BertSelfOutput", "BertOutput"):
                m.dropout = torch.nn.Identity()
        """)),
    Honest("dropout set to zero", "P07", "bert", code("""
        def apply(model):
            for m in each(model, "Dropout"):
                m.p = 0.0
        """)),
    Honest("mask by where", "P08", "bert", code(EXPLICIT.replace("{scores}", "s = (q @ k.transpose(2, 3)) * self.scaling").replace("{masked}", "torch.where(attention_mask, s, -30000.0)"))),
    Honest("residual divided by a power of two and back", "P09", "bert", _each("BertOutput", "x, residual", "self.LayerNorm((self.dense(x) * 0.5 + residual * 0.5) * 2.0)")),
    Honest("scale by a product instead of a division", "P09", "bert", code(EXPLICIT.replace("{scores}", "s = (q @ k.transpose(2, 3)) * 0.17677669529663687").replace("{masked}", "s.masked_fill(~attention_mask, -30000.0)"))),
    Honest("rms norm unfused", "P10", "qwen3", (library("P10"),)),
    Honest("rms norm in the scaled form", "P10", "qwen3", (library("P10", scale=64.0),)),
    Honest("rms norm with one plus gain", "P10", "gemma3", (library("P10"),)),
    Honest("t5's norm by mean of products", "P10", "t5", _each("T5LayerNorm", "x", "self.weight * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.variance_epsilon))")),
    Honest("layer norm in two passes", "P11", "bert", (library("P11"),)),
    Honest("layer norm with sums", "P11", "bert", code("""
        def forward(self, x):
            d = x - x.sum(-1, keepdim=True) * 0.0078125
            return d * torch.rsqrt((d * d).sum(-1, keepdim=True) * 0.0078125 + self.eps) * self.weight + self.bias

        def apply(model):
            for layer in model.encoder.layer:
                for m in each(layer, "LayerNorm"):
                    replace(m, forward)
        """)),
    Honest("layer norm without bias", "P11", "modernbert", code("""
        def forward(self, x):
            d = x - x.mean(-1, keepdim=True)
            return d * torch.rsqrt((d * d).mean(-1, keepdim=True) + self.eps) * self.weight

        def apply(model):
            for layer in model.layers:
                for m in each(layer, "LayerNorm"):
                    replace(m, forward)
        """)),
    Honest("normalised on the host", "P12", "bert", (library("P80"), library("P12"))),
    Honest("residual stream a quarter as large", "P13", "qwen3", code(RESCALE)),
    Honest("rotation as a matrix product", "P14", "qwen3", (library("P14"),)),
    Honest("rotation as a matrix product", "P14", "granite", (library("P14"),)),
    Honest("rotation as a matrix product, norms with one plus gain", "P14", "gemma3", (library("P14"),)),
    Honest("a table per kind of layer", "P15", "modernbert", (library("P14"),)),
    Honest("partial rotation as a matrix product", "P17", "gpt_neox", (library("P14"),)),
    Honest("heads padded with zeros", "P20", "bert", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded with zeros, no bias in the norm", "P20", "t5", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded with zeros", "P20", "roberta", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded with zeros", "P20", "mpnet", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded with zeros", "P20", "electra", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded with zeros", "P20", "albert", (library("P20", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded by halves", "P21", "modernbert", (library("P27"), library("P21", head_dim=32, padded_head_dim=64), library("P14"))),
    Honest("heads padded by halves, with norms over heads", "P21", "qwen3", (library("P21", head_dim=32, padded_head_dim=64),)),
    Honest("heads padded by halves, norms with one plus gain", "P21", "gemma3", (library("P21", head_dim=32, padded_head_dim=64),)),
    Honest("feed-forward padded", "P22", "qwen3", (library("P22", size=256, padded=320),)),
    Honest("feed-forward padded, with bias", "P22", "bert", (library("P22", size=256, padded=320),)),
    Honest("embedding table split along the width", "P26", "bert", code("""
        def apply(model):
            table = model.embeddings.word_embeddings
            table.parts = torch.nn.ParameterList(parameter(p.clone()) for p in table.weight.detach().chunk(2, 1))
            replace(table, lambda self, ids: torch.cat([F.embedding(ids, p) for p in self.parts], -1))
        """)),
    Honest("query, key and value split", "P27", "modernbert", (library("P27"),)),
    Honest("query, key and value of one head after the other split", "P27", "gpt_neox", (library("P27"),)),
    Honest("query, key and value fused", "P27", "bert", code("""
        def forward(self, x, attention_mask=None, **kwargs):
            b, n, _ = x.shape
            q, k, v = F.linear(x, self.w, self.b).view(b, n, 3, -1, self.attention_head_size).permute(2, 0, 3, 1, 4).unbind(0)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask, scale=self.scaling)
            return out.transpose(1, 2).reshape(b, n, -1), None

        def apply(model):
            for m in each(model, "BertSelfAttention"):
                linears = (m.query, m.key, m.value)
                m.w = parameter(torch.cat([l.weight.detach() for l in linears]))
                m.b = parameter(torch.cat([l.bias.detach() for l in linears]))
                replace(m, forward)
        """)),
    Honest("Conv1D as a linear", "P28", "gpt2", (library("P28"),)),
    Honest("Conv1D as three linears", "P28", "gpt2", (library("P28"), library("P27"))),
    Honest("embeddings on the host", "P30", "bert", (library("P30"),)),
    Honest("embeddings on the host", "P30", "distilbert", (library("P30"),)),
    Honest("embeddings and positions on the host", "P32", "bert", (library("P30"), library("P32"))),
    Honest("positions counted by id", "P32", "roberta", (library("P30"), library("P32"))),
    Honest("positions given", "P32", "bert", m._embeddings(m.POSITIONS)),
    Honest("token type row added as a broadcast", "P33", "bert", code("""
        def apply(model):
            e = model.embeddings
            def forward(input_ids=None, token_type_ids=None, position_ids=None, **kwargs):
                n = input_ids.shape[1]
                x = e.word_embeddings(input_ids) + e.token_type_embeddings.weight[0]
                return e.LayerNorm(x + e.position_embeddings.weight[:n])
            e.forward = forward
        """)),
    Honest("projection after the embedding norm", "P34", "electra", (library("P30"),)),
    Honest("additive mask", "P40", "bert", (library("P40"),)),
    Honest("additive mask, embeddings on the host", "P40", "distilbert", (library("P30"), library("P40"))),
    Honest("additive mask, any length", "P40", "roberta", (library("P30"), library("P32"), library("P63"), library("P40"))),
    Honest("additive mask", "P40", "mpnet", (library("P40"),)),
    Honest("masked weights set to nothing", "P41", "qwen3", (library("P41"), library("P45"))),
    Honest("attention explicit", "P42", "bert", (library("P42"),)),
    Honest("attention explicit, grouped", "P42", "qwen3", (library("P42"),)),
    Honest("scale on the query", "P44", "bert", code(EXPLICIT.replace("{scores}", "s = (q * self.scaling) @ k.transpose(2, 3)").replace("{masked}", "s.masked_fill(~attention_mask, -30000.0)"))),
    Honest("scale folded into the weights", "P44", "bert", code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                s = m.scaling
                m.query.weight = parameter(m.query.weight.detach() * s)
                m.query.bias = parameter(m.query.bias.detach() * s)
                m.scaling = 1.0
        """)),
    Honest("windows both ways, on the host", "P45", "modernbert", (library("P45"),)),
    Honest("windows looking back, on the host", "P45", "qwen3", (library("P45"),)),
    Honest("windows of every other layer, on the host", "P45", "gemma3", (library("P45"),)),
    Honest("masks of a model without windows, on the host", "P45", "bert", (library("P45"),)),
    Honest("causal masks on the host", "P45", "gpt2", (library("P45"),)),
    Honest("relative bias on the host", "P47", "mpnet", (library("P47"),)),
    Honest("bias that a block makes, made on the host", "P48", "t5", (library("P48"),)),
    Honest("gated feed-forward written out", "P48", "t5", _each("T5DenseGatedActDense", "x", "self.wo(self.act(self.wi_0(x)) * self.wi_1(x))")),
    Honest("attention input contiguous", "P54", "bert", (library("P54"),)),
    Honest("attention input contiguous", "P54", "modernbert", (library("P54"),)),
    Honest("grouped keys by reshape", "P55", "qwen3", m._qwen_attention()),
    Honest("grouped keys folded into the query rows", "P55", "granite", (library("P55"), library("P45"))),
    Honest("run in fp16", "P56", "bert", (library("P56", dtype="float16"),)),
    Honest("run in bf16", "P56", "t5", (library("P56", dtype="bfloat16"),)),
    Honest("contiguous after every transpose", "P60", "bert", m._attention("value=lambda v: v.contiguous()")),
    Honest("norms of heads read copies", "P60", "gemma3", (library("P60"),)),
    Honest("copied at block borders", "P61", "bert", (library("P61"),)),
    Honest("copied at block borders", "P61", "qwen3", (library("P61"),)),
    Honest("pointwise on other dimensions", "P62", "bert-quick", _each("BertIntermediate", "x", "(h * torch.sigmoid(1.702 * h)).squeeze(0)", "h = self.dense(x).unsqueeze(0)")),
    Honest("lengths padded", "P63", "bert", (library("P63", multiple=64), library("P40"))),
    Honest("lengths padded on the left", "P63", "qwen3", (library("P63", multiple=64, side="left"),)),
    Honest("mask always there: no branch on it", "P66", "bert", m._attention("mask=lambda m: m")),
    Honest("shared layers padded once", "P68", "albert", (library("P30"), library("P20", head_dim=32, padded_head_dim=64))),
    Honest("pooled on the host", "P80", "bert", (library("P80"),)),
    Honest("the whole set for BERT", "P40", "bert", (library("P56", dtype="float16"), library("P20", head_dim=32, padded_head_dim=64), library("P30"), library("P32"), library("P63"), library("P40"), library("P54"), library("P61"), library("P80"))),
    Honest("the whole set for ALBERT", "P01", "albert", (library("P56", dtype="float16"), *replacing(GELU_NEW), library("P20", head_dim=32, padded_head_dim=64), library("P30"), library("P32"), library("P63"), library("P40"), library("P54"), library("P61"))),
)  # fmt: skip
