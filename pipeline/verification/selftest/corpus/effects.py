"""Candidates whose answers are right and that change what surrounds them: inputs, weights, torch's global state, place."""

# ruff: noqa: E501

from __future__ import annotations

from pipeline.verification.selftest.entry import Cheat, Kind, Patches, Stage, code

GLOBAL = (Stage.SOURCE, Stage.CAPTURE, Stage.BINDING)
SAYS = r"global|state|changed|not allowed|set_|manual_seed|import|patched|class|input"


def _at_apply(statement: str) -> Patches:
    return code(f"""
    def apply(model):
        {statement}
    """)


def _at_call(statement: str) -> Patches:
    return code(f"""
    def apply(model):
        stock = model.forward
        def forward(input_ids=None, attention_mask=None, **kwargs):
            {statement}
            return stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
        model.forward = forward
    """)


NOTHING = _at_call("pass")


def _effect(
    name: str,
    cheat: Patches,
    probe: str,
    stages: tuple[Stage, ...] = GLOBAL,
    says: str = SAYS,
    honest: Patches = NOTHING,
) -> Cheat:
    return Cheat(name, Kind.SIDE_EFFECTS, "bert", cheat, honest, f"probe: {probe}", stages, says)


def _place(name: str, cheat: Patches, honest: Patches, shows: str, stages: tuple[Stage, ...], says: str) -> Cheat:
    return Cheat(name, Kind.PLACE, "bert", cheat, honest, shows, stages, says)


def _result_of(kind: str, change: str) -> Patches:
    return code(f"""
    def apply(model):
        for m in each(model, {kind!r}):
            on_result(m, lambda x: {change})
    """)


SAME_GELU = _result_of("BertIntermediate", "x * 1.0")
ON_HOST = (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION, Stage.DEVICE, Stage.GATE)
HOST_SAYS = r"host|cpu|device|linear|scaled_dot|layer_norm|gelu|fallback"
TYPE_SAYS = r"dtype|float32|float64|bfloat16|double|precision"

CHEATS = (
    _effect("writes into its input ids", _at_call("input_ids.add_(0)"), "version(given['input_ids']) > 0", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"input|in.place|add_|written"),
    _effect("writes into the attention mask", _at_call("attention_mask.fill_(1)"), "bool(given['attention_mask'].all())", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"input|in.place|fill_|written|mask"),
    _effect("returns its input's memory as its answer", code("""
        def apply(model):
            stock = model.forward
            def forward(input_ids=None, attention_mask=None, **kwargs):
                out = stock(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
                return type(out)(last_hidden_state=attention_mask.unsqueeze(-1).expand(out.last_hidden_state.shape))
            model.forward = forward
        """), "answer.untyped_storage().data_ptr() == given['attention_mask'].untyped_storage().data_ptr()", (Stage.CAPTURE, Stage.VALIDATION, Stage.REACHABILITY, Stage.EQUIVALENCE, Stage.ORACLE), r"input|reach|left out|never read|dtype|differ|equivalent|output|0 calls of blocks"),
    _effect("changes a weight at every call", _at_call("model.encoder.layer[0].output.dense.bias.data.add_(0.01)"), "not same_weights", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION, Stage.BINDING, Stage.EQUIVALENCE, Stage.ORACLE), r"weight|in.place|add_|written|constant|bias|differ|equivalent"),
    _effect("replaces a weight after its first call", code("""
        def apply(model):
            dense = model.encoder.layer[0].output.dense
            stock = model.forward
            def forward(**kwargs):
                out = stock(**kwargs)
                dense.weight = parameter(dense.weight.detach() * 2.0)
                return out
            model.forward = forward
        """), "not same_weights", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION, Stage.BINDING, Stage.STRUCTURE, Stage.EQUIVALENCE, Stage.ORACLE), r"weight|changed|bind|bit for bit|constant|parameter|replay|differ|equivalent"),
    _effect("seeds the random generator", _at_call("torch.manual_seed(7)"), "torch.initial_seed() == 7"),
    _effect("sets the default dtype", _at_apply("torch.set_default_dtype(torch.float64)"), "torch.get_default_dtype() is torch.float64"),
    _effect("switches gradients", _at_apply("torch.set_grad_enabled(False)"), "not torch.is_grad_enabled()"),
    _effect("switches gradients on inside a call", _at_call("torch.set_grad_enabled(True)"), "torch.is_grad_enabled()"),
    _effect("sets the number of threads", _at_apply("torch.set_num_threads(3)"), "torch.get_num_threads() == 3"),
    _effect("flushes small numbers to zero", _at_apply("torch.set_flush_denormal(True)"), "float(torch.tensor(1e-40)) * 1.0 == 0.0 or bool(torch.tensor(1e-40) * 1.0 == 0.0)"),
    _effect("lets algorithms be inexact", _at_apply("torch.set_float32_matmul_precision('medium')"), "torch.get_float32_matmul_precision() == 'medium'"),
    _effect("puts the model in training mode", _at_apply("model.train()"), "model.training", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION), r"train|dropout"),
    _effect("patches a class, and with it the reference", code("""
        def apply(model):
            kind = type(model.encoder.layer[0].intermediate)
            kind.forward = lambda self, x: F.gelu(self.dense(x))
        """), "type(model.encoder.layer[0].intermediate).forward.__name__ == '<lambda>'", GLOBAL, r"class|changed|patched|not allowed|global"),
    _effect("patches a torch function for everyone", _at_apply("torch.nn.functional.gelu = lambda x, approximate='none': x"), "torch.nn.functional.gelu.__name__ == '<lambda>'", (*GLOBAL, Stage.REACHABILITY, Stage.EQUIVALENCE), rf"{SAYS}|gelu|reach|equivalent"),
    _effect("registers a hook on every module of the process", _at_apply("torch.nn.modules.module.register_module_forward_hook(lambda m, a, out: None)"), "bool(torch.nn.modules.module._global_forward_hooks)"),
    _effect("leaves a dispatch mode on", code("""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        def apply(model):
            Mode().__enter__()
        """), "bool(torch.utils._python_dispatch._get_current_dispatch_mode_stack())", GLOBAL, r"mode|import|not allowed|changed|global|state|dispatch|higher"),
    _place("calls the CPU in the middle of a block", _result_of("BertIntermediate", "x.cpu().mul(1.0).to(x.device)"), SAME_GELU, "same", ON_HOST, HOST_SAYS),
    _place("keeps a linear on the host", code("""
        def apply(model):
            dense = model.encoder.layer[0].intermediate
            def forward(self, x):
                return F.gelu(F.linear(x.cpu(), self.dense.weight.cpu(), self.dense.bias.cpu())).to(x.device)
            replace(dense, forward)
        """), SAME_GELU, "same", ON_HOST, HOST_SAYS),
    _place("runs everything on the host", code("""
        def apply(model):
            for layer in model.encoder.layer:
                stock = layer.forward
                def forward(x, attention_mask=None, *rest, stock=stock, layer=layer, **kwargs):
                    for name, p in layer.named_parameters():
                        p.data = p.data.cpu()
                    mask = None if attention_mask is None else attention_mask.cpu()
                    return stock(x.cpu(), mask, *rest, **kwargs).to(x.device)
                layer.forward = forward
        """), SAME_GELU, "same", ON_HOST, rf"{HOST_SAYS}|in.place|set_data|constant"),
    _place("upcasts the blocks to fp32", code("""
        def apply(model):
            for layer in model.encoder.layer:
                stock = layer.forward
                def forward(x, attention_mask=None, *rest, stock=stock, layer=layer, **kwargs):
                    for m in each(layer, "Linear"):
                        m.forward = lambda t, m=m: F.linear(t, m.weight.to(torch.float32), m.bias.to(torch.float32))
                    for m in each(layer, "LayerNorm"):
                        m.forward = lambda t, m=m: F.layer_norm(t, (128,), m.weight.to(torch.float32), m.bias.to(torch.float32), m.eps)
                    return stock(x.to(torch.float32), attention_mask, *rest, **kwargs).to(x.dtype)
                layer.forward = forward
        """), SAME_GELU, "same", (Stage.SOURCE, Stage.VALIDATION, Stage.DEVICE, Stage.GATE), TYPE_SAYS),
    _place("upcasts the blocks to fp64", _result_of("BertIntermediate", "x.to(torch.float64).mul(1.0).to(x.dtype)"), SAME_GELU, "same", (Stage.SOURCE, Stage.VALIDATION, Stage.DEVICE, Stage.GATE), TYPE_SAYS),
    _place("autocast inside a block", code("""
        def apply(model):
            stock = model.encoder.layer[0].forward
            def forward(*args, **kwargs):
                with torch.autocast("cpu", torch.bfloat16):
                    return stock(*args, **kwargs)
            model.encoder.layer[0].forward = forward
        """), SAME_GELU, "differs", (Stage.SOURCE, Stage.CAPTURE, Stage.VALIDATION, Stage.EQUIVALENCE), r"autocast|bfloat16|dtype|higher|equivalent|differ|wrap|operator"),
)  # fmt: skip
