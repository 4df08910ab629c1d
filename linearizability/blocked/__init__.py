"""One huge history, judged in blocks of its rows by many tasks: the verdict of the single pass (`log`, `findings`).

No task holds more than a block of rows, or a bucket of values or offsets, at a time:

    flow       where the tasks run: here, one after the other, or spread by the caller
    parcels    columns that a task hands to another
    scan       a first look at each block: partitions, lengths, by when which length was reached
    whole      what the looks say together: what is carried into each block
    positions  where fetches began that go on from an earlier block
    emit       each record to the bucket of its value, each claim to that of its offsets
    values     a bucket of values: who wrote and read each, and where (rule 1)
    batches    batches of several records that only readers have placed
    offsets    a bucket of offsets: lengths with the carried-in minimum (rule 2), holders, holes (rules 1 and 3)
    holes      may what nobody has placed fill the holes
    evidence   the rows on which the finders find what they would find in all of them
    judging    all of it: `judge`

What breaks a rule is told by row. Those rows, with the ones that the finders look up for them, are few; the finders
run on them alone, and give the same anomalies, counts and witnesses as on all rows.
"""
