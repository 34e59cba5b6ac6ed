"""Objects of the embedded engine: a log of revisions in SQLite, the present state in memory.

One process, one event loop, one writer thread. A write is decided on the event loop against the newest
state, committed or not, and acknowledged once the writer thread has it on disk; readers and watchers see only
what is on disk. So nobody is ever told of something that a crash could take back.
"""
