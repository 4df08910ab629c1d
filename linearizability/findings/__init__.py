"""Which anomalies the flagged partitions have: every occurrence by passes over arrays, and words for the first of each.

`log.screen` flags partitions and excuses nothing. Here all of them are looked at together:

    known         what their operations say: places of records, holders of offsets, claims on the length of the log
    elections     what a declared loss excuses
    values        values that are reused, unwritten, aborted, doubled, and batches that are torn
    disagreements two values at one offset
    lengths       a log that was found shorter than it was known to be
    polls         what a process skipped, or read again
    holes         offsets that nothing can hold
    looking       all of it: `look`

A finder gives `Occurrences`: arrays of partitions and rows. Only the first one of each anomaly in each partition
becomes operations and words, so that the witness of a million operations costs no more than that of ten.
"""
