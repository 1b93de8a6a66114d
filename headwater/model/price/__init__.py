"""Token prices: the states into which ticks are folded, and the statistics of tokens.

A tick is one trade: (time in ms since the epoch, order among the trades of one time, price in USD). All results depend
only on the set of ticks, never on their order of arrival or on repetitions. docs/prices.md defines every statistic.

The modules use these words:

- order: a number that orders the trades of one time, made of the block number and the log index.
- band: a price range of a factor of two, with a number. The ticks of a state are grouped by band, and the statistics
  leave out the prices of bands that are not accepted.
- recent window: the last one to two hours of the state, from `window_start` on. From `recent_start` on, each band has
  the last tick of each millisecond; before it, only closes, lows and highs. `recent_start` is later than `window_start`
  when there are too many ticks.
- horizon: the start of the period whose ticks are kept. Of the ticks before the horizon, each band keeps only the last
  one.
- base: the last tick at or before the start of a period, such as 24 hours ago. A change in percent is relative to the
  price of the base.
- archived ticks: ticks that are no longer part of the state, but are stored beside it.
- bucket: an hour of archived ticks, or a minute of an hour.
- tail: ticks that are stored beside the state and are not folded into it yet.
"""
