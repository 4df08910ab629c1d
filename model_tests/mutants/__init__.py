"""The mutation score: which changes of a single rule the specification, the simulation and the tests notice."""
