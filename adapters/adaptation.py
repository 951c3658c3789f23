"""`adapt`: puts patches on one model instance, compiles its blocks for the device, and returns the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .describe import describe
from .digests import name_of
from .errors import (
    AdapterWithdrawn,
    AlreadyAdapted,
    ModelNotReady,
    PatchCodeChanged,
    PatchTargetMoved,
    SpyreNoAdapterError,
)
from .guards import guard
from .handle import Handle
from .patches.base import Patch, PatchContext
from .patches.document import ReplayDocuments
from .patches.dtype import DTYPES, RunDtype
from .patches.registry import check_set, patch_from
from .placement import Placement, host_dtype, place_on_host
from .reversal import Reversal
from .runner import DocumentRunner, Runner, compile_blocks
from .structure import find_blocks
from .tasks import base_of, head_names

if TYPE_CHECKING:
    from .releases.manifest import Manifest

MARK = "_spyre_adapted"


def adapt(
    model: nn.Module,
    *,
    patches: Sequence[Mapping[str, Any]] | None = None,
    manifest: Manifest | None = None,
    device: str | torch.device = "spyre",
    dtype: torch.dtype | str | None = None,
    compile: bool = True,
    keep_stock: bool = True,
) -> Handle:
    """Adapts a stock transformers model (on the CPU, fp32, eval) in place and returns its handle.

    A model on meta stays there (for capability reports: nothing can run).

    `patches` is [{"pattern": "P20", "parameters": {...}}, ...], applied in that order; without it the manifest's
    patches are applied (digests checked first), and without a manifest the matching adapter is looked up. `dtype`
    overrides P56. `device="cpu", compile=False, dtype=torch.float32` is the patched CPU run. Of a model with a head
    (masked LM, question answering, classification) the base model is adapted; the head stays on the CPU in fp32.
    `keep_stock=False` frees the stock weights that were replaced: undoing, copying and saving raise StockGone then.

    Afterwards `model(**inputs)` takes host tensors (input_ids, attention_mask, token_type_ids: [batch, length]) of any
    length and returns host tensors: last_hidden_state [batch, length, size] in fp32 (fp64 for a float64 run).

    Raises SpyreNoAdapterError, AlreadyAdapted, ModelNotReady, WrongTask, PatchDoesNotApply, PatchParameters,
    PatchConflict, PatchTargetMoved, PatchCodeChanged, DocumentRefused, StructureUnknown, AdapterWithdrawn. After an
    error the model is stock. A call raises ShapeRefused for inputs the model cannot take.
    """
    whole, model = model, base_of(model)
    _check_ready(whole, model, torch.device(device))
    adapter = manifest if manifest is not None or patches is not None else _look_up(model)
    manifest = _for_model(adapter, model)
    patches = patches if patches is not None else manifest.patches if manifest is not None else ()
    chosen = [patch_from(data) for data in patches]
    check_set(chosen)
    digests = [patch.digest(model) for patch in chosen]
    if adapter is not None and manifest is not None:
        check_not_withdrawn(adapter)
        check_targets(model, manifest)
    context = PatchContext(torch.device(device), _run_dtype(model, chosen, dtype or _policy(manifest)))
    undo = Reversal()
    try:
        facts = _facts(model, chosen, patches, digests, context, compile)
        facts |= {"adapter": adapter and adapter.summary(), "evidence": manifest.evidence if manifest else ()}
        _apply(model, chosen, context, undo, compile)
        _keep_head(whole, model, undo, context.dtype)
    except BaseException:
        undo()
        raise
    if not keep_stock:
        undo.forget()
    host = [*head_names(whole, model), *_host_parts(model, context)]
    return Handle(whole, {**facts, "host": host}, undo)


def _check_ready(whole: nn.Module, model: nn.Module, device: torch.device) -> None:
    name = type(model).__name__
    if MARK in whole.__dict__ or MARK in model.__dict__:
        raise AlreadyAdapted(f"{name} is adapted already; call undo() on its handle first")
    if whole.training or model.training:
        raise ModelNotReady(f"{name} is in training mode; call model.eval() first")
    allowed = ("cpu",) if device.type == "cpu" else ("cpu", "meta")
    if any(p.device.type not in allowed for p in model.parameters()):
        raise ModelNotReady(f"{name} is not on the CPU; adapt moves it itself, so load it there")


def check_targets(model: nn.Module, manifest: Manifest) -> None:
    """Raises PatchTargetMoved or PatchCodeChanged unless every recorded digest still holds for this model."""
    for data in manifest.patches:
        patch, recorded = patch_from(data), data.get("target_digest")
        if recorded is not None and patch.target_digest(model) != recorded:
            raise PatchTargetMoved(
                f"{manifest.name} {manifest.version}: the source that {patch.pattern} replaces is not the one it was "
                "verified against; install the transformers release the adapter was made for, or a newer adapter"
            )
        if data.get("digest") is not None and patch.digest(model) != data["digest"]:
            raise PatchCodeChanged(f"{manifest.name} {manifest.version}: {patch.pattern} is not the patch verified")


def check_not_withdrawn(manifest: Manifest) -> None:
    """Raises AdapterWithdrawn if a withdrawal list of this process names the adapter."""
    from .releases.lookup import withdrawal_of

    reason = withdrawal_of(manifest)
    if reason is not None:
        raise AdapterWithdrawn(f"{manifest.name} {manifest.version} is withdrawn: {reason}; load a newer bundle")


def _for_model(adapter: Manifest | None, model: nn.Module) -> Manifest | None:
    """What an adapter for several families does to this model; one for one family as it is."""
    return adapter.for_model(describe(model)) if adapter is not None and adapter.members else adapter


def _look_up(model: nn.Module) -> Manifest:
    from .releases.lookup import find

    found = find(model)
    if found is None:
        raise SpyreNoAdapterError(no_adapter_message(type(model).__name__))
    return found


def no_adapter_message(name: str) -> str:
    """The sentence for a model without an adapter."""
    return f"no adapter matches {name}; request one from your adapter factory, or load a bundle that has one"


def _policy(manifest: Manifest | None) -> str | None:
    """The dtype an adapter names for its runs without a P56 patch, or None."""
    named = any(data["pattern"] == RunDtype.pattern for data in manifest.patches) if manifest else True
    return None if manifest is None or named else manifest.dtype_policy.get("run")


def _run_dtype(model: nn.Module, patches: Sequence[Patch], dtype: torch.dtype | str | None) -> torch.dtype:
    if isinstance(dtype, str):
        return {**DTYPES, "float64": torch.float64}[dtype]
    if dtype is not None:
        return dtype
    named = [p.dtype for p in patches if isinstance(p, RunDtype | ReplayDocuments)]
    return DTYPES[named[-1]] if named else next(model.parameters()).dtype


def _apply(
    model: nn.Module, patches: Sequence[Patch], context: PatchContext, undo: Reversal, compile_them: bool
) -> None:
    for patch in patches:
        undo.add(patch.apply(model, context))
    undo.set_attribute(model, "forward", _forward(model, context, undo, compile_them))
    undo.set_attribute(model, MARK, True)
    guard(model, undo)


def _forward(model: nn.Module, context: PatchContext, undo: Reversal, compile_them: bool) -> Any:
    """What runs instead of the stock forward: documents, or the placed model with its blocks compiled."""
    if context.instead is not None:
        return DocumentRunner(model, context.instead, context.device, compile_them)
    placement = Placement(model, context.device, context.dtype, context.host_modules, context.host_inputs)
    undo.add(placement.apply())
    if compile_them:
        compile_blocks(find_blocks(model), undo)
    return Runner(model, context, placement)


def _keep_head(whole: nn.Module, base: nn.Module, undo: Reversal, dtype: torch.dtype) -> None:
    """Of a model with a head: the head to the host's dtype, the same answers to copying and moving as the base's."""
    if whole is base:
        return
    inside = {id(module) for module in base.modules()}
    place_on_host((m for m in whole.modules() if id(m) not in inside), undo, host_dtype(dtype))
    undo.set_attribute(whole, MARK, True)
    guard(whole, undo)


def _facts(
    model: nn.Module,
    chosen: Sequence[Patch],
    given: Sequence[Mapping[str, Any]],
    digests: Sequence[str],
    context: PatchContext,
    compiled: bool,
) -> dict[str, Any]:
    blocks = find_blocks(model)
    entries = [_entry(model, *each) for each in zip(chosen, given, digests, strict=True)]
    return {
        "device": str(context.device),
        "dtype": str(context.dtype).removeprefix("torch."),
        "form": "block" if compiled else "eager",
        "blocks": len(blocks),
        "block_kinds": len({type(b.module) for b in blocks}),
        "patches": entries,
    }


def _entry(model: nn.Module, patch: Patch, given: Mapping[str, Any], digest: str) -> dict[str, Any]:
    return {
        "pattern": patch.pattern,
        "parameters": patch.parameters(),
        "mathematics": patch.mathematics,
        "exactness": patch.exactness,
        "bound": patch.bound,
        "drafter": given.get("drafter"),
        "replaced": sorted({name_of(source) for source in patch.replaced(model)}),
        "by": name_of(type(patch)),
        "cures": list(given.get("cures", ())),
        "targets": [t.path for t in patch.match(model)],
        "digest": digest,
    }


def _host_parts(model: nn.Module, context: PatchContext) -> list[str]:
    from .structure import heads_of, path_of

    return [path_of(model, m) for m in [*context.host_modules, *heads_of(model)]] + sorted(context.declared)
