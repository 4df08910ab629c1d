"""The commands, one a module: each parses its options, calls the room that does the work, and prints what it said."""
