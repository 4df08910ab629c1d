"""KRaft whose voters change (KIP-853)."""
