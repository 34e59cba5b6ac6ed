"""Who owns which field: metadata.managedFields, and server-side apply that lives by it.

A set of fields is the very JSON that travels as `fieldsV1` (fieldset), so nothing is converted on the way. What a
kind looks like to this package is compiled once from its schema node (shape); two objects are compared along it
(compare). Ordinary writes go through `track.on_update`, server-side apply through `apply.apply`.
"""
