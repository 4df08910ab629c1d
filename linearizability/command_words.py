"""The words of a command line: an option's value may begin with a dash, though parsers take it for an option."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def values_joined(words: Sequence[str], valued: Collection[str], known: Collection[str]) -> list[str]:
    """The words, with `--memory -5m` as `--memory=-5m`, so that what is wrong with the value can be said.

    `valued`: the options that take a value. `known`: all options, which are no values.
    """
    return list(_joined(iter(words), valued, known))


def _joined(words: Iterator[str], valued: Collection[str], known: Collection[str]) -> Iterator[str]:
    option = ""
    for word in words:
        if word == "--":
            yield from filter(None, (option, word))
            yield from words
            return
        if option:
            is_value = word.startswith("-") and word.partition("=")[0] not in known
            yield f"{option}={word}" if is_value else option
            option = ""
            if is_value:
                continue
            if word not in valued:
                yield word
                continue
        if word in valued:
            option = word
        else:
            yield word
    if option:
        yield option
