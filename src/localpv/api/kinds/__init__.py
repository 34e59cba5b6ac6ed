"""The kinds that controllers of localpv work with, as typed structs: the fields they read, and no others.

What a struct does not name is dropped when an object is read, which is what keeps caches small. So a struct that was
read must never be sent back whole: change objects with a patch or with server-side apply, or read and write them
untyped. `client.objects` has no typed PUT for this reason. Creating an object from a struct is safe.

Structs are frozen, cannot form cycles, and are therefore left out of garbage collection.
"""
