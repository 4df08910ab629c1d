"""Lists of actions that random walks seldom take, performed on the cores beside the specification."""
