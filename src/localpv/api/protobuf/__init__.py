"""The binary form of built-in kinds: what kubectl and Go programs send for objects they know the type of.

`wire` reads and writes the numbers and lengths that protobuf is made of, and values that JSON shows as something other
than an object; `messages` knows which field has which number (generated facts), and turns whole objects from one form
into the other.
"""

from __future__ import annotations

from localpv.api.protobuf.messages import decode, encode

__all__ = ["decode", "encode"]
