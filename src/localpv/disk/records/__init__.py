"""The LocalDisks, wherever they are kept: as API objects, or in a folder on the node where that kind is not available.

protocol   what can be done with records; read this first
api        LocalDisks at an API server
folder     the same records as files, for a node that must do without the kind
names      what a record is called
"""

from localpv.disk.records.protocol import Ours, Records, every_record

__all__ = ["Ours", "Records", "every_record"]
