"""The checker of consumer groups: what members were told, what they committed and found committed, what was delivered.

Theory of operation
-------------------
Each rule is one pass over arrays that hold the groups of many histories. For that the partitions, generations, members
and processes of all of them are numbered anew, so that no two groups share a number, and a *clock* gives each group, or
each partition, a stretch of time of its own, one after the other. A running maximum over all rows then never leaks from
one into the next, for what comes before it is smaller; so what is said of one group holds of all at once, in
O(n log n), and each occurrence tells by its rows whose it is.

    decisions    what becomes of offsets that are committed in transactions
    table        the rows of groups, one a partition or record, with those numbers and clocks
    assignments, ownership, registers, deliveries    the rules
    findings     what they have found, as anomalies
    parts        which rows of a history its groups are checked by, and which the log
"""
