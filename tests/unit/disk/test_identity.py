"""An identity loses nothing on its way into a record and back."""

from __future__ import annotations

from dataclasses import fields

import msgspec

from localpv.api.kinds.localdisk import DiskIdentity
from localpv.disk import identity
from localpv.host.model.identity import Identity


def test_every_field_of_the_model_is_in_the_record_and_comes_back() -> None:
    values = {"str": "x", "int": 7, "tuple[str, ...]": ("a", "b")}
    recorded = {field.name: values[str(field.type)] for field in fields(Identity) if field.name != "twins"}
    full = Identity(**recorded)  # type: ignore[arg-type]
    wire = msgspec.json.encode(identity.written(full))
    assert identity.read(msgspec.json.decode(wire, type=DiskIdentity)) == full
    assert set(DiskIdentity.__struct_fields__) == recorded.keys()
