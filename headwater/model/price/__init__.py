"""Token prices: the state of a token as ticks are folded into it, and the statistics that it answers.

A tick is one trade: (time in ms since the epoch, order among the trades of one time, price in USD). Everything here
depends on the set of ticks alone, never on their order of arrival or on repeats. docs/prices.md defines every figure.
"""
