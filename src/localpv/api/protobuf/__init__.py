"""The binary form of built-in kinds: what kubectl and Go programs send for objects they know the type of.

`wire` reads and writes the numbers and lengths that protobuf is made of, `messages` knows which field has which number
(generated facts), `special` the values that JSON shows as something other than an object; `reading` and
`writing` turn whole objects from one form into the other.
"""

from __future__ import annotations

from localpv.api.protobuf.reading import decode
from localpv.api.protobuf.writing import encode

__all__ = ["MEDIA_TYPE", "decode", "encode"]
