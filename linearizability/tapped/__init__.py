"""Histories from what `tidegauge tap` has recorded; docs/tap.md says what is in a recording, and what it amounts to.

The recording has requests and responses of clients that nobody here has written. `reading` reads it, as far as it is
whole; `attempts` makes one operation of what a client tried several times; `naming` finds out which record each one is,
and which were sent by others; `logs` and `transactions` and `groups` write the histories, and `resolving` puts
them together.
"""
