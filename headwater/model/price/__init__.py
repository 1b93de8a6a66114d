"""Token prices: the state that the ticks of a token are folded into, and its statistics.

A tick is one trade: (time in ms since the epoch, order among the trades of one time, price in USD). All results depend
only on the set of ticks, never on their order of arrival or on repetitions. docs/prices.md defines every figure.

The modules use these words:

- band: a price range of a factor of two. Statistics leave out the prices of bands that are not accepted.
- recent window: the hours at the end of the state for which the state holds single ticks.
- horizon: the start of the period that counts. Only the last tick before the horizon is kept.
- archived ticks: ticks that are no longer part of the state, but are stored beside it.
- bucket: an hour, or a minute of an hour, of archived ticks.
- tail: ticks that were appended after the stored state and are not folded into it yet.
"""
