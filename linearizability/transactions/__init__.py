"""The checker of transactions: histories with begin, commit and abort, and offsets that groups commit.

Theory of operation
-------------------
A transaction is committed or aborted, whole. What its readers saw says which, where its own client does not know: a
read_committed fetch that returned a record of it says committed, one that passed over a record of it says aborted.
So a history is checked without a search:

1. each record has one offset and each offset one record, as in `log`;
2. a read_committed fetch returns exactly the records of committed transactions between its position and its end, any
   other fetch exactly the records that are known to be there;
3. until the end of a transaction was called, the last stable offset is not beyond its first record in a partition;
4. dependencies between committed transactions have no cycle;
5. the offsets that a group commits in transactions divide the records that it read: none twice, none left out.

Rule 3 gives most of rule 4 for nothing: let each transaction have its place in time at the call of its end. A read of
another one's record by read_committed returned after that one's end was called, so each such dependency goes forward in
time, and so do process order and real time. A history that keeps rule 3 therefore has no cycle of read dependencies,
whatever its size; unless a recorder gives the interval of the whole to each operation. For these, and at level strict,
where overwriting and anti-dependencies count too, `order` looks for labels that rise along all dependencies; only where
there are none does `cycles` look for the strongly connected components.

    table    transactions and records of many histories as arrays
    screen   one pass over them: which histories break a rule; what it does not flag is valid
    order    the same for cycles where they need a look
    offsets  the same for the offsets of groups
    story    one history, transaction by transaction: outcomes and places, with the reads that tell them
    reads, cycles, tiling    what is wrong with it, each with a witness
    told     what is no verdict: cycles that Kafka allows, and positions after an abort
    check    both together
"""
