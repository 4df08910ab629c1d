"""The published models of KIP-848, the rebalance protocol whose coordinator assigns: both versions."""
