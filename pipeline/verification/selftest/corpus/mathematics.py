"""Formulas that are nearly right: wrong variants, dropped terms, moved windows, wrong pooling slots, lower precision."""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code

EITHER = (Stage.EQUIVALENCE, Stage.ORACLE)
EARLY = (Stage.REACHABILITY, *EITHER)
WRONG = r"not.equivalent|differ|cosine|norm|may not run on the host"
MISSING = rf"reach|never read|left out|not read|{WRONG}"

BERT_ATTENTION = """
def attention(scale=None, mask=lambda m: m, value=lambda v: v):
    def forward(self, x, attention_mask=None, **kwargs):
        b, n, _ = x.shape
        heads = lambda t: t.view(b, n, -1, self.attention_head_size).transpose(1, 2)
        q, k, v = heads(self.query(x)), heads(self.key(x)), value(heads(self.value(x)))
        given = self.scaling if scale is None else scale(self)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask(attention_mask), scale=given)
        return out.transpose(1, 2).reshape(b, n, -1), None
    return forward


def apply(model):
    for m in each(model, "BertSelfAttention"):
        replace(m, attention({arguments}))
"""


def _attention(arguments: str) -> Patches:
    return code(BERT_ATTENTION.replace("{arguments}", arguments))


def _forward(kind: str, parameters: str, expression: str) -> Patches:
    """Every instance of the class `kind` computes `expression` of its own parameters."""
    return code(f"""
    def apply(model):
        for m in each(model, {kind!r}):
            replace(m, lambda self, {parameters}: {expression})
    """)


def _cheat(
    name: str,
    cheat: Patches,
    honest: Patches,
    subject: str = "bert",
    stages: tuple[Stage, ...] = EITHER,
    says: str = WRONG,
    shows: str = "differs",
) -> Cheat:
    return Cheat(name, Kind.MATHEMATICS, subject, cheat, honest, shows, stages, says)


def _activation(expression: str) -> Patches:
    return code(f"""
    def apply(model):
        def forward(self, x):
            h = self.dense(x)
            return {expression}
        for m in each(model, "BertIntermediate"):
            replace(m, forward)
    """)


GELU = _activation("F.gelu(h)")


def _layer_norm(centred: str, variance: str, eps: str) -> Patches:
    return code(f"""
    def forward(self, x):
        m = x.mean(-1, keepdim=True)
        d = {centred}
        v = {variance}
        return d * torch.rsqrt(v + {eps}) * self.weight + self.bias

    def apply(model):
        for layer in model.encoder.layer:
            for m in each(layer, "LayerNorm"):
                replace(m, forward)
    """)


NORM = _layer_norm("x - m", "(d * d).mean(-1, keepdim=True)", "self.eps")


def _rms(variance: str, weight: str = "self.weight") -> Patches:
    return code(f"""
    def forward(self, x):
        v = {variance}
        return {weight} * (x * torch.rsqrt(v))

    def apply(model):
        for layer in model.layers:
            for m in each(layer, "Qwen3RMSNorm"):
                replace(m, forward)
    """)


RMS = _rms("(x * x).mean(-1, keepdim=True) + self.variance_epsilon")


def _qwen_mlp(expression: str) -> Patches:
    return _forward("Qwen3MLP", "x", expression)


QWEN_MLP = _qwen_mlp("self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))")


def _modern_mlp(expression: str) -> Patches:
    return code(f"""
    def forward(self, x):
        a, g = self.Wi(x).chunk(2, dim=-1)
        return self.Wo({expression})

    def apply(model):
        for m in each(model, "ModernBertMLP"):
            replace(m, forward)
    """)


MODERN_MLP = _modern_mlp("F.gelu(a) * g")


def _window(band: str) -> Patches:
    """ModernBERT's sliding layers get the additive mask 0 where `band` of the distance holds and -30000 elsewhere."""
    return code(f"""
    def apply(model):
        w = model.config.local_attention // 2
        for layer in model.layers:
            if layer.attention_type != "sliding_attention":
                continue
            stock = layer.forward
            def forward(x, attention_mask=None, stock=stock, **kwargs):
                i = torch.arange(x.shape[1], device=x.device)
                d = (i.unsqueeze(1) - i.unsqueeze(0)).abs()
                real = attention_mask.any(-2, keepdim=True)
                ours = torch.where(real & ({band}), 0.0, -30000.0).to(x.dtype)
                return stock(x, attention_mask=ours, **kwargs)
            layer.forward = forward
    """)


def _qwen_attention(scores: str = "self.scaling", swapped: bool = False, rotate: str = "cos, sin") -> Patches:
    q, k = ("k", "q") if swapped else ("q", "k")
    return code(f"""
    def half(x):
        a, b = x.chunk(2, -1)
        return torch.cat([-b, a], -1)

    def forward(self, hidden_states, position_embeddings, attention_mask=None, **kwargs):
        x = hidden_states
        b, n, _ = x.shape
        heads = lambda t: t.view(b, n, -1, self.head_dim)
        q = self.q_norm(heads(self.q_proj(x))).transpose(1, 2)
        k = self.k_norm(heads(self.k_proj(x))).transpose(1, 2)
        v = heads(self.v_proj(x)).transpose(1, 2)
        cos, sin = (t.unsqueeze(1) for t in position_embeddings)
        cos, sin = {rotate}
        {q}, {k} = {q} * cos + half({q}) * sin, {k} * cos + half({k}) * sin
        g = self.num_key_value_groups
        wide = lambda t: t.unsqueeze(2).expand(b, -1, g, n, self.head_dim).reshape(b, -1, n, self.head_dim)
        causal = attention_mask is None
        out = F.scaled_dot_product_attention(q, wide(k), wide(v), attn_mask=attention_mask, is_causal=causal, scale={scores})
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1)), None

    def apply(model):
        for m in each(model, "Qwen3Attention"):
            replace(m, forward)
    """)


def _cls_slot(vector: str) -> Patches:
    """What stands at the first token, where CLS pooling reads, becomes `vector` of x and the true mask m."""
    return code(f"""
    def apply(model):
        stock = model.forward
        def forward(input_ids=None, attention_mask=None, **kwargs):
            out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            x = out.last_hidden_state
            m = attention_mask.unsqueeze(-1).to(x.dtype).to(x.device)
            return type(out)(last_hidden_state=torch.cat([{vector}, x[:, 1:]], 1))
        model.forward = forward
    """)


def _embeddings(change: str) -> Patches:
    """The arguments of the embeddings with `change` among them, from the token ids `ids`."""
    return code(f"""
    def apply(model):
        stock = model.embeddings.forward
        def forward(**given):
            ids = given["input_ids"]
            return stock(**{{**given, {change}}})
        model.embeddings.forward = forward
    """)


POSITIONS = "'position_ids': torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)"


def _lost(name: str, expression: str) -> Cheat:
    """The same mathematics of which 16 bits keep little."""
    twin = _activation("F.gelu((h * 4.0) * 0.25)")
    return _cheat(name, _activation(expression), twin, says="in DL16", shows="differs in 16 bits")


CHEATS = (
    _lost("a number so large that 16 bits keep nothing of the rest", "F.gelu((h + 4096.0) - 4096.0)"),
    _lost("a number so large that 16 bits keep little of the rest", "F.gelu((h + 256.0) - 256.0)"),
    _lost("beyond the device's range and back", "F.gelu(h * 65536.0 * 65536.0 * 2.0 ** -32)"),
    _cheat("gelu: the tanh variant", _activation("F.gelu(h, approximate='tanh')"), GELU),
    _cheat("gelu: the quick variant", _activation("h / (1.0 + (h * -1.702).exp())"), GELU),
    _cheat("gelu: relu instead", _activation("F.relu(h)"), GELU),
    _cheat("gelu: silu instead", _activation("F.silu(h)"), GELU),
    _cheat("gelu: a constant off in the fourth digit", _activation("F.gelu(h * 1.0005)"), _activation("F.gelu(h * 1.0)")),
    _cheat("gelu: clamped where tests rarely go", _activation("F.gelu(h).clamp(max=6.0)"), _activation("F.gelu(h)"), shows="differs at edges"),
    _cheat("swapped halves of a fused gated unit", _modern_mlp("F.gelu(g) * a"), MODERN_MLP, "modernbert"),
    _cheat("gate left linear", _modern_mlp("a * g"), MODERN_MLP, "modernbert"),
    _cheat("swapped projections of a gated unit", _qwen_mlp("self.down_proj(F.silu(self.up_proj(x)) * self.gate_proj(x))"), QWEN_MLP, "qwen3"),
    _cheat("gelu in place of silu in a gated unit", _qwen_mlp("self.down_proj(F.gelu(self.gate_proj(x)) * self.up_proj(x))"), QWEN_MLP, "qwen3"),
    _cheat("window one token too narrow", _window("d < w"), _window("d <= w"), "modernbert"),
    _cheat("window one token too wide", _window("d <= w + 1"), _window("d <= w"), "modernbert"),
    _cheat("window forgotten", _window("d <= 100000"), _window("d <= w"), "modernbert"),
    _cheat("mask dropped", _attention("mask=lambda m: None"), _attention("")),
    _cheat("mask dropped in one layer only", code("""
        def apply(model):
            stock = model.encoder.layer[1].forward
            model.encoder.layer[1].forward = lambda x, mask, *args, **kwargs: stock(x, None, *args, **kwargs)
        """), code("""
        def apply(model):
            stock = model.encoder.layer[1].forward
            model.encoder.layer[1].forward = lambda x, mask, *args, **kwargs: stock(x, mask, *args, **kwargs)
        """)),
    _cheat("missing scale", _attention("scale=lambda s: 1.0"), _attention("scale=lambda s: s.attention_head_size ** -0.5")),
    _cheat("scale of a padded head", _attention("scale=lambda s: 64 ** -0.5"), _attention("scale=lambda s: 32 ** -0.5")),
    _cheat("softmax two percent too warm", _attention("scale=lambda s: s.scaling * 0.98"), _attention("scale=lambda s: s.scaling * 1.0")),
    _cheat("attention uniform: queries are zero", _attention("scale=lambda s: 0.0"), _attention("")),
    _cheat("attention forgotten: values pass through", _forward("BertSelfAttention", "x, attention_mask=None, **kwargs", "(self.value(x), None)"), _attention(""), stages=EARLY, says=MISSING),
    _cheat("scale missing in grouped attention", _qwen_attention("1.0"), _qwen_attention(), "qwen3"),
    _cheat("rotation dropped", _qwen_attention(rotate="cos * 0.0 + 1.0, sin * 0.0"), _qwen_attention(), "qwen3"),
    _cheat("rotation the other way round", _qwen_attention(rotate="cos, -sin"), _qwen_attention(rotate="cos, -(-sin)"), "qwen3"),
    _cheat("query and key norms exchanged", code("""
        def apply(model):
            for m in each(model, "Qwen3Attention"):
                m.q_norm, m.k_norm = m.k_norm, m.q_norm
        """), code("""
        def apply(model):
            for m in each(model, "Qwen3Attention"):
                m.q_norm, m.k_norm = m.q_norm, m.k_norm
        """), "qwen3"),
    _cheat("dropped eps in a layer norm", _layer_norm("x - m", "(d * d).mean(-1, keepdim=True)", "0.0"), NORM, shows="differs at edges"),
    _cheat("moved eps in a layer norm", _layer_norm("x - m", "(d * d).mean(-1, keepdim=True)", "1e-3"), NORM),
    _cheat("layer norm without its mean", _layer_norm("x * 1.0", "(d * d).mean(-1, keepdim=True)", "self.eps"), NORM),
    _cheat("mean over a padded size in a layer norm", _layer_norm("x - m", "(d * d).mean(-1, keepdim=True) * (128.0 / 192.0)", "self.eps"), NORM),
    _cheat("one-pass variance, which cancels", _layer_norm("x - m", "(x * x).mean(-1, keepdim=True) - m * m", "self.eps"), NORM, shows="differs at edges"),
    _cheat("dropped eps in an rms norm", _rms("(x * x).mean(-1, keepdim=True)"), RMS, "qwen3", shows="differs at edges"),
    _cheat("eps outside the root's mean", _rms("((x * x).sum(-1, keepdim=True) + self.variance_epsilon) / x.shape[-1]"), RMS, "qwen3", shows="differs at edges"),
    _cheat("divisor of a padded size in an rms norm", _rms("(x * x).mean(-1, keepdim=True) * (128.0 / 192.0) + self.variance_epsilon"), RMS, "qwen3"),
    _cheat("gain read as one plus gain", _rms("(x * x).mean(-1, keepdim=True) + self.variance_epsilon", "(1.0 + self.weight)"), RMS, "qwen3"),
    _cheat("mean over padded length in the CLS slot", _cls_slot("x.mean(1, keepdim=True)"), _cls_slot("x[:, :1]")),
    _cheat("mean instead of CLS", _cls_slot("(x * m).sum(1, keepdim=True) / m.sum(1, keepdim=True)"), _cls_slot("x[:, :1]")),
    _cheat("last token instead of CLS", _cls_slot("x[:, -1:]"), _cls_slot("x[:, :1]")),
    _cheat("wrong padding side: positions counted from the right", _embeddings("'position_ids': torch.arange(ids.shape[1], device=ids.device).unsqueeze(0) * -1 + (ids.shape[1] - 1)"), _embeddings(POSITIONS)),
    _cheat("positions one too far", _embeddings("'position_ids': torch.arange(1, ids.shape[1] + 1, device=ids.device).unsqueeze(0)"), _embeddings(POSITIONS)),
    _cheat("positions dropped", _embeddings("'position_ids': torch.arange(1, device=ids.device).expand(1, ids.shape[1])"), _embeddings(POSITIONS)),
    _cheat("token type one instead of zero", _embeddings("'token_type_ids': ids * 0 + 1"), _embeddings("'token_type_ids': ids * 0")),
    _cheat("skipped dense layer after attention", code("""
        def apply(model):
            for m in each(model, "BertSelfOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(x + residual))
        """), code("""
        def apply(model):
            for m in each(model, "BertSelfOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(self.dense(x) + residual))
        """), stages=EARLY, says=MISSING),
    _cheat("skipped bias", code("""
        def apply(model):
            for m in each(model, "BertOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(F.linear(x, self.dense.weight) + residual))
        """), code("""
        def apply(model):
            for m in each(model, "BertOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(F.linear(x, self.dense.weight) + self.dense.bias + residual))
        """), stages=EARLY, says=MISSING),
    _cheat("skipped residual", code("""
        def apply(model):
            for m in each(model, "BertOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(self.dense(x)))
        """), code("""
        def apply(model):
            for m in each(model, "BertOutput"):
                replace(m, lambda self, x, residual: self.LayerNorm(self.dense(x) + residual))
        """)),
    _cheat("one layer skipped", code("""
        def apply(model):
            replace(model.encoder.layer[1], lambda self, x, *args, **kwargs: x * 1.0)
        """), code("""
        def apply(model):
            on_result(model.encoder.layer[1], lambda x: x * 1.0)
        """), stages=EARLY, says=MISSING),
    _cheat("one layer run twice, the other never", code("""
        def apply(model):
            layers = model.encoder.layer
            layers[1].forward = layers[0].forward
        """), code("""
        def apply(model):
            layers = model.encoder.layer
            layers[1].forward = layers[1].forward
        """), stages=EARLY, says=MISSING),
    _cheat("layers in the wrong order", code("""
        def apply(model):
            layers = model.encoder.layer
            layers[0], layers[1] = layers[1], layers[0]
        """), code("""
        def apply(model):
            layers = model.encoder.layer
            layers[0], layers[1] = layers[0], layers[1]
        """)),
    _cheat("last norm skipped", code("""
        def apply(model):
            replace(model.norm, lambda self, x: x * 1.0)
        """), code("""
        def apply(model):
            on_result(model.norm, lambda x: x * 1.0)
        """), "qwen3", EARLY, MISSING),
    _cheat("weights rounded to bfloat16", code("""
        def apply(model):
            for m in each(model, "Linear"):
                w = m.weight.detach()
                m.weight = parameter((w * 16.0).to(torch.bfloat16).to(w.dtype) / 16.0)
        """), code("""
        def apply(model):
            for m in each(model, "Linear"):
                m.weight = parameter(m.weight.detach() * 16.0 / 16.0)
        """), stages=(Stage.VALIDATION, *EITHER), says=f"{WRONG}|bfloat16|dtype"),
    _cheat("weights of one head set to zero", code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                w = m.value.weight.detach()
                m.value.weight = parameter(torch.cat([w[:32] * 0.0, w[32:]]))
        """), code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                w = m.value.weight.detach()
                m.value.weight = parameter(torch.cat([w[:32] * 1.0, w[32:]]))
        """)),
    _cheat("weight surgery in place that a naive capture loses", code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                m.query.weight.data.mul_(1.25)
        """), code("""
        def apply(model):
            for m in each(model, "BertSelfAttention"):
                m.query.weight.data.mul_(2.0)
                m.key.weight.data.mul_(0.5)
                m.query.bias.data.mul_(2.0)
                m.key.bias.data.mul_(0.5)
        """)),
)  # fmt: skip
