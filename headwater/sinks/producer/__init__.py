"""The idempotent producer of a process: records wait in queues, one per partition; a lane per broker sends them.

A broker takes the batches of a partition in the order of their numbers, each once, however often it is sent. So after
any doubt all batches that are not acknowledged are sent again, in order: nothing is lost, repeated or overtaken. What a
broker refuses for good ends the producer: `failures` tells it, and nothing more is sent.
"""

from headwater.sinks.producer.producer import KafkaProducer as KafkaProducer
