"""Damage to the files of a broker's partition logs: what there is, what is promised, and campaigns that look."""
