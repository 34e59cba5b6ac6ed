"""Whether a LocalStorage is taken as it is, and if not, everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api.kinds.localstorage import LocalStorage
from localpv.config import local_storage

LONGEST_MESSAGE = 4096

VALID = "Valid"
INVALID = "Invalid"
WRONG_NAMESPACE = "WrongNamespace"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition Accepted says, of one generation."""

    uid: str
    generation: int
    reason: str
    message: str

    @property
    def accepted(self) -> bool:
        return self.reason == VALID


def judge(storage: LocalStorage, *, namespace: str) -> Verdict:
    """Nothing of a LocalStorage that is not accepted reaches a node. Without a namespace all are served."""
    meta = storage.metadata
    if namespace and meta.namespace != namespace:
        return Verdict(
            meta.uid,
            meta.generation,
            WRONG_NAMESPACE,
            f"LocalStorages are served in namespace {namespace}, where the operator runs: create it there. Pods that"
            " write rules on nodes are privileged, and must not be made by whoever may write into some namespace.",
        )
    if problems := local_storage.problems(storage):
        return Verdict(meta.uid, meta.generation, INVALID, _listed([str(problem) for problem in problems]))
    return Verdict(meta.uid, meta.generation, VALID, "All rules only match, and no group is empty.")


def _listed(sentences: list[str]) -> str:
    """As many whole sentences as there is room for."""
    told: list[str] = []
    length = 0
    for sentence in sentences:
        length += len(sentence) + 2
        if length > LONGEST_MESSAGE - 64:
            break
        told.append(sentence)
    left = len(sentences) - len(told)
    return "; ".join(told) + (f"; and {left} more" if left else "")
