"""The agent's side of cleaning: an order on a LocalDisk becomes a wiped, verified disk, and the record says so.

    orders     which records have an order that is still open; the order that a person gives
    states     status.cleaning as it goes from Waiting over Running to Verified or Failed; how long to wait after that
    plans      what the words of an order mean for the kind of disk
    paths      where this node sees the disk, and that this lies inside the folder of its class
    executor   what is done on the machine: look, see who uses it, clean; the real ones and what they promise
    locks      one cleaning per disk, also between processes
    slots      so many cleanings at once, in the order in which they were asked for
    progress   a cleaning under way: progress on the record, and an end to it when nothing moves any more
    reconciler one step for one record; read this first
    cleaner    the component: every record of this node, for as long as the agent runs

Only an order makes anything happen here, and only an order: a record without one is never touched. Everything that
must outlive the process stands in the record before the act it describes, so each step can die and be repeated.
"""

from localpv.agent.clean.cleaner import Cleaner
from localpv.agent.clean.orders import order_by_hand

__all__ = ["Cleaner", "order_by_hand"]
