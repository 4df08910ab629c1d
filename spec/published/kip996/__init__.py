"""KRaft whose voters ask first whether they would be voted for (KIP-996)."""
