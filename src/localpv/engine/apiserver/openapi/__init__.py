"""The OpenAPI documents of the API: what `kubectl explain`, `apply` and validation read.

`documents` holds them, built when first asked for; `operations` says what there is to describe, for built-in
and custom kinds alike; `v3`, `v2` and `protobuf` write it down in the three forms that clients ask for.
"""

from localpv.engine.apiserver.openapi.documents import Documents

__all__ = ["Documents"]
