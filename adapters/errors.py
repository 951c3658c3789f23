"""The adapters' error tree. A leaf module: it imports nothing.

AdapterError
├── PatchDoesNotApply    the model has nothing this patch replaces, or has something it cannot handle
├── PatchParameters      a patch was given parameters it does not know
├── PatchConflict        a set of patches lacks one that is needed, or holds two that exclude each other
├── PatchTargetMoved     the source a patch replaces is no longer what it was verified against
├── PatchCodeChanged     the patch itself is no longer the one that was verified
├── DocumentRefused      an operator document breaks a rule
├── ManifestRefused      an adapter's manifest cannot be read
├── StructureUnknown     no transformer blocks or attention were found in a model
├── NotRemapped          a configuration of another class says what the stock one cannot do
├── ModelNotReady        the model is not a stock one on the CPU in eval mode
├── AlreadyAdapted       the model is adapted already
├── StockGone            the stock weights were not kept, so there is no way back to them
├── StillAdapted         an adapted model was to be moved, loaded, trained or copied as it is
├── UndoneOutOfOrder     something was changed after the adaptation and must be taken back first
├── ShapeRefused         the model cannot take an input of this shape
├── WrongTask            the model or checkpoint is not for this task
├── SpyreNoAdapterError  no adapter matches the model
└── BundleError          a bundle or a withdrawal list is not to be trusted
    ├── BundleTampered   it is damaged, or was changed after it was signed
    ├── UnknownSigner    nobody here has pinned the key that signed it
    ├── SignerRefused    a public key is not the one whose fingerprint was given
    ├── VersionsDiffer   it was verified with other versions than those installed
    └── AdapterWithdrawn the signer has taken the adapter back
"""

from __future__ import annotations


class AdapterError(Exception):
    """Base of all errors of this package. `code` is stable."""

    code = "adapter_error"


class PatchDoesNotApply(AdapterError):
    """The model has nothing that this patch replaces, or has something the patch cannot handle."""

    code = "patch_does_not_apply"


class PatchParameters(AdapterError):
    """A patch was given parameters it does not know or cannot use."""

    code = "patch_parameters"


class PatchConflict(AdapterError):
    """A set of patches lacks one that another needs, or holds two that exclude each other."""

    code = "patch_conflict"


class PatchTargetMoved(AdapterError):
    """The source that a patch replaces differs from the one it was verified against."""

    code = "patch_target_moved"


class PatchCodeChanged(AdapterError):
    """The patch's own code or parameters differ from what was verified."""

    code = "patch_code_changed"


class DocumentRefused(AdapterError):
    """An operator document breaks a rule. `node` is its node's number, or None when the whole document is at fault."""

    code = "document_refused"

    def __init__(self, reason: str, node: int | None = None) -> None:
        super().__init__(reason if node is None else f"node {node}: {reason}")
        self.node = node
        self.reason = reason


class ManifestRefused(AdapterError):
    """An adapter's manifest cannot be read or breaks a rule."""

    code = "manifest_refused"


class StructureUnknown(AdapterError):
    """No transformer blocks or attention modules were found in the model."""

    code = "structure_unknown"


class NotRemapped(AdapterError):
    """A configuration says something the stock class cannot do; the message is one clause that names the field."""

    code = "not_remapped"


class ModelNotReady(AdapterError):
    """The model is in training mode or not on the CPU; adapt takes it there in eval mode."""

    code = "model_not_ready"


class AlreadyAdapted(AdapterError):
    """The model is adapted already; `undo()` its handle first."""

    code = "already_adapted"


class SpyreNoAdapterError(AdapterError):
    """No adapter matches the model. The message says what to do."""

    code = "no_adapter"


class StillAdapted(AdapterError):
    """An adapted model cannot be moved, loaded, trained or copied as it is; `undo()` its handle first."""

    code = "still_adapted"


class StockGone(AdapterError):
    """The model was adapted with `keep_stock=False`: it cannot be undone, copied or saved; load it anew."""

    code = "stock_gone"


class UndoneOutOfOrder(AdapterError):
    """Something was changed after the adaptation: take that back first, then undo."""

    code = "undone_out_of_order"


class ShapeRefused(AdapterError):
    """The model cannot take an input of this shape. The message names the limit."""

    code = "shape_refused"


class WrongTask(AdapterError):
    """The model or checkpoint is not for this task. The message names a class that is."""

    code = "wrong_task"


class BundleError(AdapterError):
    """A bundle or a withdrawal list is not to be trusted; nothing of it was used."""

    code = "bundle_error"


class BundleTampered(BundleError):
    """It is damaged, or was changed after it was signed."""

    code = "bundle_tampered"


class UnknownSigner(BundleError):
    """Nobody here has pinned the key that signed it."""

    code = "unknown_signer"


class SignerRefused(BundleError):
    """A public key is not the one whose fingerprint was given."""

    code = "signer_refused"


class VersionsDiffer(BundleError):
    """It was verified with other versions than those installed."""

    code = "versions_differ"


class AdapterWithdrawn(BundleError):
    """The signer has taken the adapter back."""

    code = "adapter_withdrawn"
