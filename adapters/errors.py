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
├── ModelNotReady        the model is not a stock one on the CPU in eval mode
├── AlreadyAdapted       the model is adapted already
└── SpyreNoAdapterError  no adapter matches the model
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


class ModelNotReady(AdapterError):
    """The model is in training mode or not on the CPU; adapt takes it there in eval mode."""

    code = "model_not_ready"


class AlreadyAdapted(AdapterError):
    """The model is adapted already; `undo()` its handle first."""

    code = "already_adapted"


class SpyreNoAdapterError(AdapterError):
    """No adapter matches the model. The message says what to do."""

    code = "no_adapter"
