"""Strongly connected components of a graph (Tarjan 1972), without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def components(following: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """For each node of the graph, a number of the component that it is in."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    member: dict[int, int] = {}
    stack: list[int] = []
    for root in following:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        walk: list[tuple[int, Iterator[int]]] = [(root, iter(following[root]))]
        while walk:
            node, after = walk[-1]
            for target in after:
                if target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    walk.append((target, iter(following.get(target, ()))))
                    break
                if target not in member:
                    low[node] = min(low[node], number[target])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == number[node]:
                    while (top := stack.pop()) != node:
                        member[top] = number[node]
                    member[node] = number[node]
    return member
