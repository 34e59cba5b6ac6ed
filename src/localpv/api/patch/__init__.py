"""The three ways to send a change instead of a whole object: JSON patch, merge patch, strategic merge patch.

Each takes what is stored and what was sent, changes neither, and returns a new object that shares no dictionary and
no list with them: the server goes on to fill in defaults, and a patch is applied again when somebody else wrote first.
A patch that makes no sense is a BadRequest, one that does not fit the object is Invalid.
"""
