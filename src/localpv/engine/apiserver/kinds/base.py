"""How a kind takes part in create and update. Most kinds change only one or two of these steps."""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """Feature gates: parts of the API that an administrator can turn off."""

    persistent_local_volumes: bool = True
    """PersistentLocalVolumes: when off, a `local` volume source is refused."""


class Strategy:
    """The steps of a write that depend on the kind, in the order in which they are called.

    create:    default -> prepare_for_create -> validate + validate_create
    update:    default -> prepare_for_update -> validate + validate_update
    status:    default -> prepare_for_status_update -> validate_status_update
    finalize:  default -> prepare_for_finalize -> validate_finalize

    Objects are plain dictionaries that the schema has already pruned, type-checked and freed of nulls, so
    `obj["spec"]["local"]`, if present, has the JSON type that the schema says. Metadata (names, labels, annotations,
    uid, generation) is handled by the server. Methods that prepare change `obj` in place; methods that
    validate return what is wrong and change nothing.
    """

    generation: bool = True
    """metadata.generation counts changes of everything outside metadata and status. Kinds without it turn this off."""

    generation_counts_annotations: bool = False
    """A change of metadata.annotations counts too (Deployment: a rollback is asked for there)."""

    generation_counts_status: bool = False
    """A change of the status counts too (custom kinds without a status subresource)."""

    allow_create_on_update: bool = False
    """PUT to a name that does not exist creates it (Lease, Event, and a few others)."""

    unconditional_update: bool = True
    """A PUT without metadata.resourceVersion overwrites whatever is there. Custom kinds demand the version."""

    propagation: str = ""
    """What becomes of dependents when a DELETE does not say: Background unless this says Orphan (Job)."""

    returns_deleted: bool = False
    """DELETE answers with the object that went; the others answer with a Status of Success."""

    def raw_errors(self, body: Object) -> FieldErrors:
        """What is wrong with fields that the schema does not know and would drop. Runs before everything else."""
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """How long an object that is being deleted stays for somebody to wind it up; 0 deletes at once."""
        return 0

    def begin_deletion(self, obj: Object) -> None:
        """The object is being deleted and will stay for a while: show it (a namespace turns Terminating)."""

    def default(self, obj: Object) -> None:
        """Fill in what was left out. Runs on create, update and patch."""

    def prepare_for_create(self, obj: Object) -> None:
        """Drop what a client may not set at creation, as a rule the status; set initial values."""

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Carry over what an ordinary update may not change, as a rule the status."""

    def prepare_for_status_update(self, obj: Object, old: Object) -> None:
        """Keep only the new status: everything else is as in `old`. Metadata is handled by the server."""
        for key in [key for key in obj if key not in ("apiVersion", "kind", "metadata", "status")]:
            del obj[key]
        for key, value in old.items():
            if key not in ("apiVersion", "kind", "metadata", "status"):
                obj[key] = value

    def prepare_for_finalize(self, obj: Object, old: Object) -> None:
        """For the finalize subresource, which only namespaces have."""

    def validate(self, obj: Object) -> FieldErrors:
        """Whether the object is right by itself."""
        return []

    def validate_create(self, obj: Object) -> FieldErrors:
        """What is asked of new objects only, so that older ones can still be updated."""
        return []

    def validate_update(self, obj: Object, old: Object) -> FieldErrors:
        """Whether the change is allowed: fields that may not change once set."""
        return []

    def validate_status_update(self, obj: Object, old: Object) -> FieldErrors:
        return []

    def validate_finalize(self, obj: Object, old: Object) -> FieldErrors:
        return []

    def validate_name(self, name: str) -> list[str]:
        """What is wrong with metadata.name, as sentences; the rule of most kinds is a DNS subdomain."""
        from localpv.api import names

        return names.dns_subdomain(name)

    def selectable(self, obj: Object) -> dict[str, str]:
        """Values for field selectors beyond metadata.name and metadata.namespace."""
        return {}

    def warnings(self, obj: Object) -> list[str]:
        """Things that are allowed and probably not meant; sent as Warning headers."""
        return []


class StatusStrategy(Strategy):
    """A kind with a status subresource: ordinary writes leave the status alone."""

    def prepare_for_create(self, obj: Object) -> None:
        obj.pop("status", None)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        obj.pop("status", None)
        if "status" in old:
            obj["status"] = old["status"]


_OF_THE_REQUEST = ("resourceVersion", "managedFields")
"""Parts of metadata that the server itself has put into the new object before it is prepared."""


def keep_metadata(obj: Object, old: Object) -> None:
    """For kinds whose status subresource changes nothing of metadata, labels and annotations included."""
    sent = obj["metadata"]
    obj["metadata"] = {key: value for key, value in old["metadata"].items() if key not in _OF_THE_REQUEST}
    obj["metadata"].update((key, sent[key]) for key in _OF_THE_REQUEST if key in sent)
