"""Kafka's protocol where records pass: batches of records are made and sent as such.

A client library that takes records one by one spends more on each than all else that a worker does with it. What is no
hot path (groups, positions, transactions, administration) stays with librdkafka: brokers/client.py.
"""
