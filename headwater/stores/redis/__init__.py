"""Stores in Valkey, or in Redis 6.2 or newer: one server, a replica group, or a cluster.

They hold sets, dataset names, prices, metrics, token buckets, quota reservations and slots of live tails. These are all
keys and key prefixes:

{fs:ID}, {ds:ID}         a filter set, a dataset; see sets/layout.py
{dn:OWNER}               the dataset names of an owner
{px:P}, {px}             prices of partition P, and of all partitions; see prices.py
{dm:ID}                  metrics of a deployment, and the outcomes of its redriven letters
{rl:NAME}                a token bucket (rate limit)
{headwater}:replaced     the list of the sets to sweep; see sets/layout.py
headwater:drafts         the list of pending sets (the key has an older name)
headwater:reservations   quota reservations
headwater:tails          the slots of open live tails
"""
